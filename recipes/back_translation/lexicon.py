"""Induces a bilingual lexicon from two monolingual texts and nothing else.

Word vectors are factors of positive pointwise mutual information (Levy and Goldberg 2014). An orthogonal map between
them is first learnt from words that are spelled alike, and then refined by its own mutual nearest neighbours (Artetxe
et al. 2018), found with CSLS (Conneau et al. 2018, §2.3). Spelling and frequency count as well: texts on the same
subject use a word and its translation about equally often.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
WINDOW = 5  # words after a word that it occurs together with
NEIGHBOURS = 10  # of CSLS
ALIKE = 0.45  # similarity of spelling above which mutual nearest words are taken for translations at first
SPELLING, FREQUENCY = 0.5, 0.1  # weights beside CSLS
OTHER_KIND = 10.0  # subtracted between a word and a punctuation mark
_WORD = re.compile(r"\w+(?:-\w+)*|[^\w\s]")


def words_of(text: str) -> list[str]:
    """The words and punctuation marks of a text, in lower case."""
    return _WORD.findall(text.lower())


class Vectors(NamedTuple):
    """The words of a text, most frequent first, with their counts and vectors."""

    words: list[str]
    counts: Array  # [words]
    values: Array  # [words, width], the most important dimensions first


def word_vectors(texts: Sequence[Sequence[str]], *, size: int = 1500, width: int = 60, minimum: int = 3) -> Vectors:
    """The vectors of the `size` most frequent words that occur at least `minimum` times."""
    counts = Counter(word for text in texts for word in text)
    words = [word for word, count in counts.most_common(size) if count >= minimum]
    places = {word: place for place, word in enumerate(words)}
    gap = [-1] * WINDOW  # between texts
    ids = np.array([place for text in texts for place in (*(places.get(word, -1) for word in text), *gap)])
    together = np.zeros((len(words), len(words)))
    for distance in range(1, WINDOW + 1):
        first, second = ids[:-distance], ids[distance:]
        known = (first >= 0) & (second >= 0)
        np.add.at(together, (first[known], second[known]), 1 / distance)
    values, vectors = np.linalg.eigh(np.linalg.matrix_power(positive_information(together + together.T), 2))
    order = np.argsort(-values)[:width]
    factors = vectors[:, order] * np.maximum(values[order], 0) ** 0.25
    return Vectors(words, np.array([counts[word] for word in words]), factors)


def positive_information(together: Array) -> Array:
    """Positive pointwise mutual information of a symmetric matrix of counts; contexts are smoothed by the power ¾."""
    total, sums = together.sum(), together.sum(axis=0)
    contexts = sums**0.75 / (sums**0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(together / total / np.outer(sums / total, contexts))
    positive = np.where(np.isfinite(information), np.maximum(information, 0), 0)
    return (positive + positive.T) / 2


def normalised(values: Array) -> Array:
    """Scales rows to unit length, centres them, and scales them again (Artetxe et al. 2018, §3.1)."""
    unit = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)
    centred = unit - unit.mean(axis=0)
    return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9))


def csls(source: Array, target: Array) -> Array:
    """Similarities [sources, targets]: twice the cosine, minus the mean cosine of each word's nearest neighbours."""
    cosines = source @ target.T
    near = min(NEIGHBOURS, *cosines.shape)
    rows = np.partition(cosines, -near, axis=1)[:, -near:].mean(axis=1)
    columns = np.partition(cosines, -near, axis=0)[-near:].mean(axis=0)
    return np.asarray(2 * cosines - rows[:, None] - columns)


def procrustes(source: Array, target: Array) -> Array:
    """The orthogonal map W that minimises the distance of source·W from target."""
    left, _, right = np.linalg.svd(source.T @ target)
    return np.asarray(left @ right)


def spelling(first: Sequence[str], second: Sequence[str]) -> Array:
    """Similarities of spelling: the cosine of character bigrams and trigrams; 0 for words of one or two letters.

    >>> spelling(["guitar"], ["gitarre", "guitar"]).round(2)
    array([[0.46, 1.  ]])
    """
    bags = [[_ngrams(word) for word in words] for words in (first, second)]
    places = {ngram: place for place, ngram in enumerate(sorted({ngram for bag in bags[0] for ngram in bag}))}
    matrices = []
    for side in bags:
        matrix = np.zeros((len(side), len(places) + 1))  # the last column: n-grams that the first list does not have
        for row, bag in enumerate(side):
            for ngram, count in bag.items():
                matrix[row, places.get(ngram, -1)] += count if ngram in places else 0
            matrix[row] /= np.sqrt(sum(count * count for count in bag.values())) or 1
        matrices.append(matrix)
    return np.asarray(matrices[0] @ matrices[1].T)


def _ngrams(word: str) -> Counter[str]:
    marked = f"^{word}$"
    return Counter(marked[start : start + n] for n in (2, 3) for start in range(len(marked) - n + 1) if len(word) > 2)


class Lexicon(NamedTuple):
    """The translation of each word, in both directions."""

    forward: dict[str, str]
    backward: dict[str, str]
    seeds: int  # pairs of words spelled alike that the map was first learnt from


def induce(source: Vectors, target: Vectors, *, rounds: int = 12, seed: int = 1) -> Lexicon:
    """The lexicon of two texts.

    In early rounds, similarities are dropped at random, so that the map escapes poor solutions (Artetxe et al. 2018,
    §3.2.1).
    """
    width = min(source.values.shape[1], target.values.shape[1])
    first, second = (normalised(vectors.values[:, :width]) for vectors in (source, target))
    alike = spelling(source.words, target.words)
    frequencies = np.abs(np.log(source.counts)[:, None] - np.log(target.counts))
    marks = [np.array([not word[0].isalnum() for word in words]) for words in (source.words, target.words)]
    fixed = SPELLING * alike - FREQUENCY * frequencies - OTHER_KIND * (marks[0][:, None] != marks[1])
    pairs = [(row, column) for row, column in mutual(alike) if alike[row, column] > ALIKE]
    if not pairs:
        raise ValueError("the two texts share no words that are spelled alike: no lexicon can be induced")
    seeds, kept, generator = len(pairs), 0.3, np.random.default_rng(seed)
    similarities = fixed
    for number in range(rounds):
        rows, columns = map(list, zip(*pairs, strict=True))
        similarities = csls(first @ procrustes(first[rows], second[columns]), second) + fixed
        if kept < 1 and number < rounds - 1:
            noisy = np.where(generator.random(similarities.shape) < kept, similarities, -np.inf)
            pairs = mutual(noisy)
        else:
            pairs = mutual(similarities)
        kept *= 1.15
    best, back = similarities.argmax(axis=1), similarities.argmax(axis=0)
    return Lexicon(
        {word: target.words[best[place]] for place, word in enumerate(source.words)},
        {word: source.words[back[place]] for place, word in enumerate(target.words)},
        seeds,
    )


def mutual(similarities: Array) -> list[tuple[int, int]]:
    """The pairs of a row and a column that are each other's most similar.

    >>> mutual(np.array([[3, 1], [2, 1]]))
    [(0, 0)]
    """
    best, back = similarities.argmax(axis=1), similarities.argmax(axis=0)
    return [(row, int(column)) for row, column in enumerate(best) if back[column] == row]


def word_for_word(text: str, lexicon: dict[str, str]) -> str:
    """Replaces each word of a text by its entry; unknown words are kept."""
    return " ".join(lexicon.get(word, word) for word in words_of(text))
