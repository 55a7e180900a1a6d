"""Minimum Bayes risk: the candidate most similar to all candidates (Kumar and Byrne 2004; Eikema and Aziz 2020)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

UtilityName = Literal["chrf", "bleu"]


class Ranked(NamedTuple):
    """The index of a candidate in the list of all candidates, and its expected utility, between 0 and 1."""

    place: int
    utility: float


def minimum_bayes_risk(candidates: Sequence[str], *, utility: UtilityName) -> list[Ranked]:
    """All candidates by decreasing expected utility; ties keep the order of sampling.

    u(h) = 1/n Σᵢ utility(h, candidateᵢ): every candidate serves as a pseudo-reference as often as it was sampled.
    """
    similarity = _similarity(utility)
    counts = Counter(candidates)
    expected = {
        hypothesis: sum(count * similarity(hypothesis, reference) for reference, count in counts.items())
        / len(candidates)
        for hypothesis in counts
    }
    ranked = [Ranked(place, expected[candidate]) for place, candidate in enumerate(candidates)]
    return sorted(ranked, key=lambda candidate: (-candidate.utility, candidate.place))


def _similarity(utility: UtilityName) -> Callable[[str, str], float]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True, force=True)

    def similarity(hypothesis: str, reference: str) -> float:
        return 1.0 if hypothesis == reference else metric.sentence_score(hypothesis, [reference]).score / 100

    return similarity
