"""Word alignments: words of a sentence and its translation correspond if they express the same part of the meaning."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from calque_phrasebook.realisation.words import Part, Word
from calque_phrasebook.surface import MARKS

Link = tuple[int, int]
"""The indices of a source word and a target word; words are separated by white space and counted from 0."""


def align(source: Sequence[Word], target: Sequence[Word]) -> tuple[Link, ...]:
    """Returns the links of two realisations of one meaning, in order.

    align(a, b) is align(b, a) with source and target exchanged. Punctuation is attached to words and has no links.
    """
    expressed: defaultdict[Part, list[int]] = defaultdict(list)
    for index, word in _indexed(target):
        for part in word.parts:
            expressed[part].append(index)
    links = {
        (source_index, target_index)
        for source_index, word in _indexed(source)
        for part in word.parts
        for target_index in expressed[part]
    }
    return tuple(sorted(links))


def _indexed(words: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """Returns the words that are not punctuation, numbered from 0."""
    return enumerate(word for word in words if word.text not in MARKS)


def pharaoh(links: Sequence[Link]) -> str:
    """Returns links as a line of a Pharaoh file: 0-0 1-2 2-1."""
    return " ".join(f"{source}-{target}" for source, target in links)
