"""The noisy channel: n-best lists ranked again by a reverse model and a language model (Yee et al. 2019)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from calque.engine.text_generator import TextGenerator
from calque.engine.translator import Translator
from calque.engine.types import Candidate, Translation
from calque.search.settings import SearchConfig

ENOUGH, MOST = 8, 32  # pairs that a direction is judged by
LEARNT = 0.5  # nats a piece that a model gains in the direction that it has learnt, or it has learnt too little to tell
LITTLE = 0.5  # of that gain, which no model falls short of in its own direction


def rerank(
    translations: Sequence[Translation],
    sources: Sequence[str],
    *,
    reverse: Translator,
    language: TextGenerator | None,
    search: SearchConfig,
) -> Iterator[Translation]:
    """Each translation's candidates by log P(y|x) + λ log P(x|y) + μ log P(y), which is their new score.

    What was cut stays behind what was finished, and last what has not said all that it must. An empty source has one
    translation, and nobody is asked about it; an empty translation pays as every other.
    """
    rows = [
        (source, candidate.text)
        for translation, source in zip(translations, sources, strict=True)
        for candidate in translation.candidates
        if source.strip()
    ]
    texts = [text for _, text in rows]
    channel = iter(reverse.score(texts, [source for source, _ in rows]))
    prior = iter(language.score(texts)) if language is not None else None
    for translation, source in zip(translations, sources, strict=True):
        scored: list[Candidate] = []
        for candidate in translation.candidates:
            score = candidate.log_prob
            if source.strip():
                score += search.channel_weight * next(channel).log_prob
                score += search.prior_weight * next(prior).log_prob if prior is not None else 0.0
            scored.append(candidate._replace(score=score))
        yield translation._replace(
            candidates=sorted(scored, key=lambda each: (each.cut, each.missing_phrase, -each.score))
        )


class Direction:
    """Whether a reverse model translates back, by the first lines that it is asked about.

    What a source tells of its translation is what the translation tells of the source,

        log P(y|x) - log P(y) = log P(x|y) - log P(x),

    so that a model that gains a lot by the right source, and little of that by the right translation, has learnt the
    other direction than the one it is asked for. P(y) is taken to be P(y|x') with another line's source.
    """

    def __init__(self, reverse: Translator) -> None:
        self.reverse = reverse
        self._pairs: dict[tuple[str, str], None] = {}  # in their order, each once
        self._is_judged = False

    def is_doubtful(self, translations: Sequence[Translation], sources: Sequence[str]) -> bool:
        """Whether the model seems to translate as those who made the translations; said once, of enough lines."""
        if self._is_judged:
            return False
        for translation, source in zip(translations, sources, strict=True):
            if len(self._pairs) < MOST and source.strip() and translation.text.strip():
                self._pairs[source, translation.text] = None
        if len(self._pairs) < ENOUGH:
            return False
        self._is_judged = True
        texts, theirs = zip(*self._pairs, strict=True)
        forth, back = _gain(self.reverse, texts, theirs), _gain(self.reverse, theirs, texts)
        return forth.nats > LEARNT * forth.pieces and back.nats < LITTLE * forth.nats


class _Gain(NamedTuple):
    nats: float
    pieces: int


def _gain(model: Translator, sources: Sequence[str], targets: Sequence[str]) -> _Gain:
    """By how much the targets are likelier with their own sources than with those of their neighbours."""
    own, other = (list(model.score(given, targets)) for given in (sources, [*sources[1:], sources[0]]))
    nats = sum(mine.log_prob - theirs.log_prob for mine, theirs in zip(own, other, strict=True))
    return _Gain(nats, sum(len(each.log_probs) for each in own))
