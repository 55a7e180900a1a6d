"""Which words of a sentence and of its translation correspond: those that express the same part of the meaning."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from calque_phrasebook.realisation.words import Part, Word
from calque_phrasebook.surface import MARKS

Link = tuple[int, int]
"""A source word and a target word, both counted from 0 between white space."""


def align(source: Sequence[Word], target: Sequence[Word]) -> tuple[Link, ...]:
    """Gives the links of two realisations of one meaning, in order.

    align(a, b) is align(b, a) with its links turned round. Marks are attached to words and have no links of their own.
    """
    expressed: defaultdict[Part, list[int]] = defaultdict(list)
    for index, word in _indexed(target):
        for part in word.parts:
            expressed[part].append(index)
    links = {(index, other) for index, word in _indexed(source) for part in word.parts for other in expressed[part]}
    return tuple(sorted(links))


def _indexed(words: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """Gives the words without the marks, counted as white space separates them."""
    return enumerate(word for word in words if word.text not in MARKS)


def pharaoh(links: Sequence[Link]) -> str:
    """Gives links as a line of a Pharaoh file: 0-0 1-2 2-1."""
    return " ".join(f"{source}-{target}" for source, target in links)
