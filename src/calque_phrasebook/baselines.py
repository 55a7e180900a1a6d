"""Two baselines without training: word-by-word translation, and the translation of the nearest training sentence.

A model must beat both: the first knows every word but no grammar, the second only whole training sentences.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log, sqrt

from calque_phrasebook.glossary import PUNCTUATION, Words, glossary
from calque_phrasebook.split import Pair, Phrasebook
from calque_phrasebook.surface import Language, join

LONGEST_ENTRY = 5  # words of a set phrase
LONGEST_WORD = 8  # characters of a Chinese word
COMMON_FEATURES = 700  # features that more sentences than this have are uninformative and not looked up


def baselines(book: Phrasebook, *, source: Language, target: Language) -> dict[str, list[str]]:
    """Returns the translations of the test set by both baselines, `dictionary` and `nearest`."""
    return {
        "dictionary": [word_by_word(pair.source, source=source, target=target) for pair in book.test],
        "nearest": nearest(book.train, [pair.source for pair in book.test], language=source),
    }


# --- word by word ---------------------------------------------------------------------------------------------------


def word_by_word(sentence: str, *, source: Language, target: Language) -> str:
    """Returns the dictionary's translations of a sentence's words, in source order; the longest entry is preferred."""
    table = glossary(source, target)
    tokens: list[str] = []
    for piece in segments(sentence, table=table, language=source):
        if piece[0] in PUNCTUATION:
            tokens.append(PUNCTUATION[piece[0]][target])
        else:
            tokens += table.get(piece, piece)
    return join(tokens, language=target)


def segments(sentence: str, *, table: dict[Words, Words], language: Language) -> Iterator[Words]:
    """Yields the dictionary entries that a sentence consists of, from left to right, always the longest match."""
    if language == "zh":
        yield from _characters(sentence, table)
    else:
        yield from _spaced(sentence, table)


def _characters(sentence: str, table: dict[Words, Words]) -> Iterator[Words]:
    start = 0
    while start < len(sentence):
        lengths = range(min(LONGEST_WORD, len(sentence) - start), 0, -1)
        length = next((n for n in lengths if (sentence[start : start + n],) in table), 1)
        yield (sentence[start : start + length],)
        start += length


def _spaced(sentence: str, table: dict[Words, Words]) -> Iterator[Words]:
    tokens = re.findall(r"[^\s.,?]+|[.,?]", sentence)
    lowered = tokens[0][0].lower() + tokens[0][1:]
    if (tokens[0],) not in table or (lowered,) in table:
        tokens[0] = lowered
    start = 0
    while start < len(tokens):
        lengths = range(min(LONGEST_ENTRY, len(tokens) - start), 0, -1)
        length = next((n for n in lengths if tuple(tokens[start : start + n]) in table), 1)
        yield tuple(tokens[start : start + length])
        start += length


# --- nearest sentence -----------------------------------------------------------------------------------------------


def nearest(train: Sequence[Pair], sources: Sequence[str], *, language: Language) -> list[str]:
    """Returns for each source the target of the most similar training source.

    Similarity is the cosine of n-gram sets (n = 1, 2) weighted by rarity, over characters in Chinese and over words in
    the other languages; ties go to the first sentence.
    """
    features = [_features(pair.source, language) for pair in train]
    frequency = Counter(feature for kinds in features for feature in kinds)
    weight = {feature: log(1 + len(train) / count) for feature, count in frequency.items()}
    norms = [sqrt(sum(weight[feature] ** 2 for feature in kinds)) for kinds in features]
    postings: defaultdict[str, list[int]] = defaultdict(list)
    for row, kinds in enumerate(features):
        for feature in kinds:
            if frequency[feature] <= COMMON_FEATURES:
                postings[feature].append(row)
    return [train[_best(_features(source, language), postings, weight, norms)].target for source in sources]


def _best(
    features: frozenset[str], postings: dict[str, list[int]], weight: dict[str, float], norms: Sequence[float]
) -> int:
    scores: defaultdict[int, float] = defaultdict(float)
    for feature in sorted(features):
        for row in postings.get(feature, ()):
            scores[row] += weight[feature] ** 2
    return min(scores, key=lambda row: (-scores[row] / norms[row], row), default=0)


def _features(sentence: str, language: Language) -> frozenset[str]:
    tokens = list(sentence) if language == "zh" else re.findall(r"[^\s.,?]+|[.,?]", sentence)
    return frozenset(tokens) | frozenset(map(" ".join, pairwise(tokens)))
