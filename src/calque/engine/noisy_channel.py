"""The noisy channel: n-best lists reranked by a reverse model and a language model (Yee et al. 2019)."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from calque.engine.types import Candidate, Scored, Translation
from calque.search.settings import SearchConfig

MINIMUM_PAIRS, MAXIMUM_PAIRS = 8, 32  # with which the direction of a reverse model is checked
MINIMUM_GAIN = 0.5  # nats per piece from the right source; a model that gains less has learnt too little to be checked
MINIMUM_SHARE = 0.5  # of that gain in the reverse direction; with less, a warning is given


WRONG_DIRECTION = (
    "--reverse: this model seems to translate in the same direction as the first one: sources predict translations "
    "well, but translations predict sources poorly; train it with --source and --target exchanged"
)


class ScoresPairs(Protocol):
    """The interface that reranking requires of a translator: it scores given translations."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]: ...


class ScoresTexts(Protocol):
    """The interface that reranking requires of a language model: it scores texts."""

    def score(self, texts: Sequence[str]) -> Iterator[Scored]: ...


class Channel:
    """The models that rerank n-best lists: a reverse model and, optionally, a language model."""

    def __init__(
        self,
        reverse: ScoresPairs,
        *,
        language: ScoresTexts | None = None,
        warn: Callable[[str], None] = warnings.warn,
    ) -> None:
        """`warn` is called if the reverse model seems to translate in the wrong direction."""
        self.reverse, self.language, self.warn = reverse, language, warn
        self._direction = DirectionCheck(reverse)

    def rerank(
        self, translations: Sequence[Translation], sources: Sequence[str], *, searches: Sequence[SearchConfig]
    ) -> Iterator[Translation]:
        """Each translation's candidates, sorted by their new score log P(y|x) + λ log P(x|y) + μ log P(y).

        `searches` holds the weights for each translation: λ is `channel_weight`, μ is `prior_weight`. Candidates that
        were cut at the maximum length rank behind finished ones; within both groups, candidates that lack a required
        phrase rank last. The only candidate of an empty source keeps its score; an empty translation is scored like any
        other.
        """
        if self._direction.is_doubtful(translations, sources):
            self.warn(WRONG_DIRECTION)
        rows = [
            (source, candidate.text)
            for translation, source in zip(translations, sources, strict=True)
            for candidate in translation.candidates
            if source.strip()
        ]
        texts = [text for _, text in rows]
        channel_scores = iter(self.reverse.score(texts, [source for source, _ in rows]))
        prior_scores = iter(self.language.score(texts)) if self.language is not None else None
        for translation, source, search in zip(translations, sources, searches, strict=True):
            rescored: list[Candidate] = []
            for candidate in translation.candidates:
                score = candidate.log_prob
                if source.strip():
                    score += search.channel_weight * next(channel_scores).log_prob
                    score += search.prior_weight * next(prior_scores).log_prob if prior_scores is not None else 0.0
                rescored.append(candidate._replace(score=score))
            yield translation._replace(
                candidates=sorted(
                    rescored, key=lambda candidate: (candidate.cut, candidate.missing_phrase, -candidate.score)
                )
            )


class DirectionCheck:
    """Checks with the first lines of input that a reverse model translates from target to source.

    The pointwise mutual information of a sentence and its translation is symmetric,

        log P(y|x) - log P(y) = log P(x|y) - log P(x),

    so a reverse model for which knowing the right source helps with y, but knowing the right translation hardly helps
    with x, was trained in the wrong direction. P(y) is approximated by P(y|x') with the source x' of another line.
    """

    def __init__(self, reverse: ScoresPairs) -> None:
        self.reverse = reverse
        self._pairs: dict[tuple[str, str], None] = {}  # distinct, in their order
        self._is_done = False

    def is_doubtful(self, translations: Sequence[Translation], sources: Sequence[str]) -> bool:
        """Whether the reverse model seems to translate from source to target, as judged from the first lines.

        The lines of all calls are collected. The first call after which there are at least MINIMUM_PAIRS distinct pairs
        runs the check and returns its result. All other calls return False, so that the user is warned only once.
        """
        if self._is_done:
            return False
        for translation, source in zip(translations, sources, strict=True):
            if len(self._pairs) < MAXIMUM_PAIRS and source.strip() and translation.text.strip():
                self._pairs[source, translation.text] = None
        if len(self._pairs) < MINIMUM_PAIRS:
            return False
        self._is_done = True
        lines, texts = zip(*self._pairs, strict=True)
        forward, backward = _gain(self.reverse, lines, texts), _gain(self.reverse, texts, lines)
        return forward.nats > MINIMUM_GAIN * forward.pieces and backward.nats < MINIMUM_SHARE * forward.nats


class _Gain(NamedTuple):
    nats: float
    pieces: int


def _gain(model: ScoresPairs, sources: Sequence[str], targets: Sequence[str]) -> _Gain:
    """How many nats more probable the targets are given their own sources than given the source of the next line."""
    shifted = [*sources[1:], sources[0]]
    right, wrong = (list(model.score(lines, targets)) for lines in (sources, shifted))
    nats = sum(score.log_prob - baseline.log_prob for score, baseline in zip(right, wrong, strict=True))
    return _Gain(nats, sum(len(score.log_probs) for score in right))
