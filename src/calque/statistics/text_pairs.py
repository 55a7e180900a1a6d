"""A parallel corpus as ids of white-space-separated words, and its reference alignments."""

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.corpora import PairCorpus, paths, read_blocks
from calque.data.lines import LINE_LIMIT, file_lines
from calque.data.problems import refuse
from calque.data.rows import parse
from calque.data.store import Column
from calque.data.word_alignments import Link, parse_links
from calque.errors import DataError

LIMIT = 1 << 20  # bytes of a line; longer lines are left out


class PairCounts(NamedTuple):
    """The number of pairs that can be aligned, and of those that cannot."""

    usable: int
    empty: int  # on a side
    long: int


class TextPairs(NamedTuple):
    """The words of each line of a corpus as ids, and the words that the ids stand for.

    Row n of `source` and of `target` belongs to line n. Both rows are empty if the line has no usable pair: a side is
    empty or too long, or the line is the header of a table.
    """

    source: Column
    target: Column
    source_words: list[str]
    target_words: list[str]

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.source.lengths)

    def counts(self, *, maximum: int) -> PairCounts:
        """The number of pairs with 1 to `maximum` words on both sides, and of pairs that are empty or longer."""
        shorter = np.minimum(self.source.lengths, self.target.lengths)
        longer = np.maximum(self.source.lengths, self.target.lengths)
        empty, long = int((shorter == 0).sum()), int(((shorter > 0) & (longer > maximum)).sum())
        return PairCounts(len(self) - empty - long, empty, long)


def read_text_pairs(corpus: PairCorpus, *, keep_case: bool = False) -> TextPairs:
    """Reads a corpus; raises a DataError for files of different lengths, malformed tables and invalid UTF-8."""
    sides, lines = (_Side(keep_case=keep_case), _Side(keep_case=keep_case)), 0
    problems: list[str] = []
    for block in read_blocks(corpus, limit=LIMIT):
        parsed = parse(block, corpus=corpus, invalid="fail", limit=LIMIT)
        problems += [*parsed.malformed, *parsed.invalid]
        for row in parsed.rows:
            for side, text in zip(sides, row.texts, strict=False):
                side.add(text, line=row.line)
        lines += block.lines
    refuse(problems)
    source, target = (side.column(lines) for side in sides)
    return TextPairs(source, target, list(sides[0].ids), list(sides[1].ids))


def read_links(path: Path, pairs: TextPairs) -> list[list[Link]]:
    """The links of a Pharaoh file, one line per corpus line; a DataError lists invalid links with file and line."""
    links, problems = [], []
    number = 0
    for number, line in enumerate(file_lines(path, limit=LINE_LIMIT), start=1):
        if number > len(pairs):
            continue  # counted for the message
        counts = int(pairs.source.lengths[number - 1]), int(pairs.target.lengths[number - 1])
        try:
            links.append(parse_links(line, source=counts[0], target=counts[1]))
        except ValueError as error:
            problems.append(f"{path}: line {number}: {error}")
    if number != len(pairs):
        raise DataError(
            f"{path} has {number:,} lines, but the corpus has {len(pairs):,}; line n must contain the links of pair n"
        )
    refuse(problems)
    return links


def name_of(corpus: PairCorpus) -> str:
    """The names of a corpus's files, for messages."""
    return " and ".join(map(str, paths(corpus).values()))


class _Words(dict[str, int]):
    """Maps words to ids, numbered from 0 in the order in which they are first looked up."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Side:
    """Collects the word ids of one side (source or target) of a parallel corpus, line by line."""

    def __init__(self, *, keep_case: bool) -> None:
        self.ids = _Words()
        self._keep_case = keep_case
        self._values, self._lines, self._lengths = array("I"), array("Q"), array("I")

    def add(self, text: str, *, line: int) -> None:
        """Adds the words of `text`, which is line number `line`, counted from 1."""
        words = (text if self._keep_case else text.lower()).split()
        self._values.extend(map(self.ids.__getitem__, words))
        self._lines.append(line)
        self._lengths.append(len(words))

    def column(self, lines: int) -> Column:
        """The ids of the words added as a column of `lines` rows; the row of a line that was not added is empty."""
        lengths = np.zeros(lines, dtype=np.uint32)
        lengths[np.array(self._lines, dtype=np.int64) - 1] = self._lengths
        return Column(np.array(self._values, dtype=np.uint32), np.cumsum(lengths, dtype=np.uint64) - lengths, lengths)
