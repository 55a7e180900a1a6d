"""The log-linear model of phrase-based translation (Och and Ney 2002; Koehn et al. 2003).

    score(e, d | f) = Σₘ λₘ hₘ(e, d, f)

for a derivation d: a sequence of phrase pairs that covers each source word once, in the order of the target. Each
feature hₘ has a name and is a sum over the phrases of d; the weights λₘ are tuned.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Floats
from calque.statistics.phrase_table import ORIENTATIONS, PhraseTable

PHRASES, WORDS, DISTORTION, LANGUAGE, UNKNOWN = "phrases", "words", "distortion", "language", "unknown"
UNKNOWN_WEIGHT = -10.0
"""The weight per word that is copied because the table has no translation for it; it is not tuned."""
MONOTONE, SWAPPED, DISCONTINUOUS = range(3)

State = Hashable


class LanguageModel(Protocol):
    """An n-gram model, queried word by word; states with the same future are equal. () is the state without context."""

    def start(self) -> Any:
        """The state at the beginning of a sentence."""
        ...

    def score(self, state: Any, word: int) -> tuple[float, Any]:
        """log P(word | state), and the state after it."""
        ...


class Option(NamedTuple):
    """A translation of a source span, and its weighted scores."""

    start: int
    stop: int
    words: tuple[int, ...]
    """Ids of target words; a copied word has the id −1 − its source position."""
    entry: int
    """The index of the entry in the phrase table; −1 for a copied word."""
    score: float
    """The weighted sum of the features that depend on this phrase pair alone."""
    estimate: float
    """`score` plus the language model's score of the words without context."""
    before: tuple[float, ...] = (0.0, 0.0, 0.0)
    """The weighted scores of being monotone, swapped or discontinuous relative to the previous phrase."""
    after: tuple[float, ...] = (0.0, 0.0, 0.0)
    """The same scores, relative to the next phrase."""


class Derivation(NamedTuple):
    """A translation with the phrases that it is made of."""

    options: tuple[Option, ...]
    score: float

    @property
    def words(self) -> tuple[int, ...]:
        """The ids of all target words."""
        return tuple(word for option in self.options for word in option.words)


class Step(NamedTuple):
    """The features of one phrase of a derivation; the last step, without a phrase, ends the sentence."""

    option: Option | None
    features: Floats  # [features of the model]


class PhraseModel(NamedTuple):
    """A phrase table, a language model and the weights of all features."""

    table: PhraseTable
    language: LanguageModel | None
    weights: Mapping[str, float]
    end: int
    """The id of the language model's end mark."""
    unknown: int
    """The id of the language model's unknown word."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        language = () if self.language is None else (LANGUAGE,)
        orientations = () if self.table.orientations is None else ORIENTATIONS
        return (*self.table.names, PHRASES, WORDS, DISTORTION, *language, *orientations, UNKNOWN)

    def vector(self) -> Floats:
        """The weights in the order of `features`; a missing one is 0, or UNKNOWN_WEIGHT for the feature `unknown`."""
        weights = {UNKNOWN: UNKNOWN_WEIGHT, **self.weights}
        return np.array([weights.get(name, 0.0) for name in self.features])

    def steps(self, options: Sequence[Option], *, length: int) -> list[Step]:
        """The features of each step of a derivation: one step per phrase (`options`), and one for the sentence end.

        `length` is the number of source words. Law: the weighted sum of the features of all steps is the derivation's
        score.
        """
        places = {name: place for place, name in enumerate(self.features)}
        vectors = np.zeros((len(options) + 1, len(places)))
        state = None if self.language is None else self.language.start()
        previous: Option | None = None
        for row, option in enumerate(options):
            if option.entry >= 0:
                vectors[row, : len(self.table.names)] = self.table.scores[option.entry]
            else:
                vectors[row, places[UNKNOWN]] = 1
            vectors[row, places[PHRASES]], vectors[row, places[WORDS]] = 1, len(option.words)
            vectors[row, places[DISTORTION]] = -abs(option.start - (previous.stop if previous else 0))
            if self.language is not None:
                vectors[row, places[LANGUAGE]], state = self.language_score(state, option.words)
            if self.table.orientations is not None:
                kind = orientation(previous, option.start, option.stop)
                self._add_orientation(vectors[row], option, ORIENTATIONS[kind])
                self._add_orientation(vectors[row], previous, ORIENTATIONS[3 + kind])
            previous = option
        if self.language is not None:
            vectors[-1, places[LANGUAGE]] = self.language.score(state, self.end)[0]
        if self.table.orientations is not None and previous is not None:
            kind = orientation(previous, length, length + 1)
            self._add_orientation(vectors[-1], previous, ORIENTATIONS[3 + kind])
        return [Step(option, row) for option, row in zip((*options, None), vectors, strict=True)]

    def language_score(self, state: Any, words: Sequence[int]) -> tuple[float, Any]:
        """The language model's log-probability of words after a state, and the state after them."""
        assert self.language is not None
        total = 0.0
        for word in words:
            score, state = self.language.score(state, word if word >= 0 else self.unknown)
            total += score
        return total, state

    def _add_orientation(self, vector: Floats, option: Option | None, name: str) -> None:
        orientations = self.table.orientations
        if option is not None and option.entry >= 0 and orientations is not None:
            vector[self.features.index(name)] += orientations[option.entry, ORIENTATIONS.index(name)]


def orientation(previous: Option | None, start: int, stop: int) -> int:
    """The orientation of a source span relative to the previous phrase: MONOTONE, SWAPPED or DISCONTINUOUS.

    The first phrase is MONOTONE if it begins the sentence, and otherwise DISCONTINUOUS.
    """
    if (previous.stop if previous else 0) == start:
        return MONOTONE
    return SWAPPED if previous is not None and previous.start == stop else DISCONTINUOUS


def span_future(options: Mapping[tuple[int, int], Sequence[Option]], *, length: int) -> list[list[float]]:
    """future[i][j]: the estimated best score of translating the source words from i to before j.

    The span is divided into phrases in the best way, each with its best estimate. Distortion, and the language model's
    context before each phrase, are ignored (Koehn et al. 2003, §3).
    """
    future = [[-np.inf] * (length + 1) for _ in range(length + 1)]
    for (start, stop), span in options.items():
        future[start][stop] = max(option.estimate for option in span)
    for size in range(2, length + 1):
        for start in range(length - size + 1):
            stop = start + size
            row = future[start]
            divided = max(row[middle] + future[middle][stop] for middle in range(start + 1, stop))
            row[stop] = max(row[stop], divided)
    for place in range(length + 1):
        future[place][place] = 0.0
    return future


def collect_options(model: PhraseModel, ids: Array, *, limit: int | None) -> dict[tuple[int, int], list[Option]]:
    """The translations of each span of a sentence, at most `limit` per span, the best estimated score first.

    A word without a translation of its own is copied.
    """
    table, weights = model.table, dict(zip(model.features, model.vector().tolist(), strict=True))
    columns = np.array([weights[name] for name in table.names], dtype=np.float32)
    oriented = np.array([weights.get(name, 0.0) for name in ORIENTATIONS], dtype=np.float32)
    phrases, words, language = weights[PHRASES], weights[WORDS], weights.get(LANGUAGE, 0.0)
    options: dict[tuple[int, int], list[Option]] = {}
    for start, stop, entries in table.phrases(ids):
        scores = table.scores[entries] @ columns + words * table.lengths[entries] + phrases
        estimates = scores + language * table.estimates[entries]
        best = np.argsort(-estimates, kind="stable")[:limit]
        chosen = best + entries.start
        orientations = [(0.0,) * 6] * len(best)
        if table.orientations is not None:
            orientations = (table.orientations[chosen] * oriented).tolist()
        options[start, stop] = [
            Option(start, stop, table.targets.words(node), entry, score, estimate, tuple(six[:3]), tuple(six[3:]))
            for entry, node, score, estimate, six in zip(
                chosen.tolist(),
                table.translations[chosen].tolist(),
                scores[best].tolist(),
                estimates[best].tolist(),
                orientations,
                strict=True,
            )
        ]
    for place in range(len(ids)):
        if (place, place + 1) not in options:
            score = estimate = phrases + words + weights[UNKNOWN]
            if model.language is not None:
                estimate += language * model.language.score((), model.unknown)[0]
            options[place, place + 1] = [Option(place, place + 1, (-1 - place,), -1, score, estimate)]
    return options


def with_estimates(table: PhraseTable, language: LanguageModel) -> PhraseTable:
    """The table with the language model's log-probability of each translation, as if no words preceded it."""
    trie = table.targets
    states: list[Any] = [()]
    totals = np.zeros(trie.nodes, dtype=np.float32)
    parents, words = (part.tolist() for part in np.divmod(trie.keys, trie.size))
    for node, (parent, word) in enumerate(zip(parents, words, strict=True), start=1):
        score, state = language.score(states[parent], word)
        totals[node] = totals[parent] + score
        states.append(state)
    return table._replace(estimates=totals[table.translations])
