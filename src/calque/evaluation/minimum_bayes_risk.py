"""Minimum Bayes risk: of many candidates the one most like all of them (Kumar and Byrne 2004; Eikema and Aziz 2020)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

UtilityName = Literal["chrf", "bleu"]


class Ranked(NamedTuple):
    """A candidate's place among the candidates, and how like them it is, between 0 and 1."""

    place: int
    utility: float


def minimum_bayes_risk(candidates: Sequence[str], *, utility: UtilityName) -> list[Ranked]:
    """All candidates, the one with the highest expected utility first; equal ones in the order they were drawn.

    u(h) = 1/n Σᵢ utility(h, candidateᵢ): every candidate is taken for the truth as often as it was drawn.
    """
    likeness = _likeness(utility)
    drawn = Counter(candidates)
    expected = {
        text: sum(count * likeness(text, other) for other, count in drawn.items()) / len(candidates) for text in drawn
    }
    ranked = [Ranked(place, expected[text]) for place, text in enumerate(candidates)]
    return sorted(ranked, key=lambda each: (-each.utility, each.place))


def _likeness(utility: UtilityName) -> Callable[[str, str], float]:
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True, force=True)

    def likeness(text: str, other: str) -> float:
        return 1.0 if text == other else metric.sentence_score(text, [other]).score / 100

    return likeness
