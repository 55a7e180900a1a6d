"""Two kinds of errors that a score does not show: repetitions, and source words left untranslated."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from calque.evaluation.comparison.words import Ngram, Words

LONGEST_REPETITION = 4  # words of the repeated n-gram


class ErrorCounts(NamedTuple):
    """The number of repetitions and untranslated words in the hypotheses of a system."""

    repetitions: int
    """Repeated n-grams that the reference does not repeat."""
    sentences_with_repetitions: int
    copies: int
    """Source words in the hypothesis that the reference does not have."""
    sentences_with_copies: int


def count_errors(
    hypotheses: Sequence[Words], references: Sequence[Words], *, sources: Sequence[Words] | None
) -> ErrorCounts:
    """The repetitions and untranslated words of all sentences; without sources, no untranslated words are counted."""
    repeated = [repetitions(words, reference) for words, reference in zip(hypotheses, references, strict=True)]
    copied = (
        [
            copies(words, reference, source=source)
            for words, reference, source in zip(hypotheses, references, sources, strict=True)
        ]
        if sources is not None
        else []
    )
    return ErrorCounts(sum(repeated), sum(map(bool, repeated)), sum(map(len, copied)), sum(map(bool, copied)))


def repetitions(hypothesis: Words, reference: Words) -> int:
    """The number of immediate repetitions of n-grams (up to 4 words) in the hypothesis beyond those in the reference.

    A word in a loop counts once per repetition. Where several n-grams repeat, only the shortest is counted.
    """
    return (_doubles(hypothesis) - _doubles(reference)).total()


def _doubles(words: Words) -> Counter[Ngram]:
    """How often each n-gram directly follows itself; of several such n-grams at the same word, the shortest counts."""
    doubles, place = Counter[Ngram](), 0
    while place < len(words):
        for size in range(1, LONGEST_REPETITION + 1):
            unit = tuple(words[place : place + size])
            if tuple(words[place + size : place + 2 * size]) == unit and any(map(_is_word, unit)):
                doubles[unit] += 1
                place += size
                break
        else:
            place += 1
    return doubles


def copies(hypothesis: Words, reference: Words, *, source: Words) -> list[str]:
    """The words of the hypothesis that are in the source but not in the reference: probably untranslated.

    Only words with a letter count, regardless of case: numbers and punctuation marks are rightly copied.
    """
    in_source = {word.lower() for word in source}
    expected = {word.lower() for word in reference}
    return [
        word for word in hypothesis if _is_word(word) and word.lower() in in_source and word.lower() not in expected
    ]


def _is_word(word: str) -> bool:
    return any(character.isalpha() for character in word)
