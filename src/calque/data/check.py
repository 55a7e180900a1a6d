"""Inspection of corpora before they are used: their statistics and their problems.

Several processes inspect every block once. Comparisons across the corpus (duplicates, overlap) use 64-bit hashes sorted
in a temporary file, so memory does not grow with the corpus.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.batching import BatchConfig, Bucketed, Order, waste
from calque.data.corpora import Block, Corpus, DataConfig, Shifted, paths, read_blocks, text_columns
from calque.data.holdout import Hashes, HashFile, text_hashes
from calque.data.identical_sides import count_identical, identity_warnings
from calque.data.length_statistics import LengthCount, Lengths, RatioCount, Ratios
from calque.data.misalignment import Doubts, LineLengths, by_line
from calque.data.numericalise import Numericaliser, Preparation
from calque.data.prepare import Prepared, refuse_missing_columns
from calque.data.process_map import ordered_map, workers_for
from calque.data.rows import Tally, parse
from calque.data.word_alignments import link_problems
from calque.errors import DataError

_SHOWN = 10
_CAP = 1 << 16  # characters; longer texts count as this long


class CorpusReport(NamedTuple):
    """The statistics and problems of one corpus."""

    role: str
    name: str
    rows: int
    """The number of rows with text in every column that is read."""
    tally: Tally
    invalid: list[str]
    """File, line and byte of the first few places with invalid UTF-8."""
    problems: list[str]
    """Reasons why training would reject the corpus: misaligned files, malformed rows, an unreadable file."""
    warnings: list[str]
    """Suspicious findings that would not prevent training."""
    lengths: dict[str, Lengths]
    """Length statistics, by a name such as source characters."""
    counts: dict[str, Counter[str]]
    """How often each value of a column, such as a label, occurs."""
    ratios: Ratios | None
    """The ratios of target to source lengths; None unless rows are pairs."""


class Overlap(NamedTuple):
    """How many rows of a validation or test corpus also occur in the training data."""

    role: str
    rows: int
    first: int
    """The number of rows whose first column (the source of a pair, the words of a sentence) is also in training."""
    whole: int
    """The number of rows that are also in training."""


class CheckReport(NamedTuple):
    """The result of `check`: a report per corpus, and comparisons between them."""

    unit: str
    """What the rows are called, in the plural: pairs, lines or sentences."""
    columns: tuple[str, ...]
    """The columns that are read."""
    corpora: list[CorpusReport]
    duplicates: int
    """The number of training rows that repeat an earlier one."""
    duplicates_of_first: int
    """The number of training rows whose first column repeats that of an earlier row."""
    overlaps: list[Overlap]
    unknown: dict[str, Counter[str]] | None
    """Words or characters outside the vocabularies, by a name such as source characters; None without a store."""
    padding: dict[str, float] | None
    """The share of padding in an epoch, with exact (CPU) and static (GPU) shapes."""


def check(
    data: DataConfig,
    *,
    preparation: Preparation,
    test: Sequence[Corpus] = (),
    prepared: Prepared | None = None,
    order: Callable[[BatchConfig], Order] | None = None,
    batch: BatchConfig | None = None,
    workers: int | None = None,
) -> CheckReport:
    """The statistics and problems of the training, validation and test corpora, as a task reads them.

    With a prepared store, the report includes words or characters outside its vocabularies; with an `order`, the
    padding of an epoch.
    """
    corpora = [("train", corpus) for corpus in data.train]
    corpora += [("valid", corpus) for corpus in data.valid] + [("test", corpus) for corpus in test]
    refuse_missing_columns({"train": data.train, "valid": data.valid, "test": test}, reads=preparation.reads)
    files = [path for _, corpus in corpora for path in paths(corpus).values()]
    limit = data.line_limit(running=preparation.running)
    make = partial(
        _inspector,
        [corpus for _, corpus in corpora],
        limit=limit,
        preparation=preparation,
        vocabularies=prepared.vocabularies if prepared else None,
    )
    summaries = [
        _Summary(role, corpus, shifted=data.shifted, lines_up=preparation.lines_up) for role, corpus in corpora
    ]
    with TemporaryDirectory(prefix="calque-check-") as folder:
        roles = {role: _RoleHashes(Path(folder), role=role) for role in dict.fromkeys(role for role, _ in corpora)}
        unknown: dict[str, Counter[str]] = {}
        items = _items(summaries, limit=limit)
        for number, statistics in ordered_map(make, items=items, workers=workers_for(files, requested=workers)):
            summaries[number].add(statistics)
            roles[summaries[number].role].add(statistics)
            for name, counter in statistics.unknown.items():
                unknown.setdefault(name, Counter()).update(counter)
        train = roles["train"]
        overlaps = [hashes.overlap(train) for role, hashes in roles.items() if role != "train"]
        duplicates = train.rows.duplicates(), train.firsts.duplicates()
    return CheckReport(
        unit=preparation.unit,
        columns=preparation.reads,
        corpora=[summary.report() for summary in summaries],
        duplicates=duplicates[0],
        duplicates_of_first=duplicates[1],
        overlaps=overlaps,
        unknown=unknown if prepared else None,
        padding=padding(order, batch=batch or BatchConfig()) if order else None,
    )


def padding(order: Callable[[BatchConfig], Order], *, batch: BatchConfig) -> dict[str, float]:
    """The share of padding among an epoch's positions, with exact and with static shapes."""
    shapes: tuple[Literal["exact"], Literal["static"]] = ("exact", "static")
    tokens = BatchConfig().tokens if batch.tokens == "auto" else batch.tokens
    orders = {kind: order(BatchConfig(tokens=tokens, shapes=kind)) for kind in shapes}
    return {kind: waste(bucketed, epoch=0) for kind, bucketed in orders.items() if isinstance(bucketed, Bucketed)}


class _BlockStatistics(NamedTuple):
    """The statistics and problems of one block of lines of a corpus."""

    tally: Tally
    invalid: list[str]
    malformed: list[str]
    lines: NDArray[Any]
    lengths: dict[str, NDArray[Any]]
    counts: dict[str, Counter[str]]
    firsts: Hashes
    rows: Hashes
    unknown: dict[str, Counter[str]]
    identical: int


def _inspector(
    corpora: Sequence[Corpus], *, limit: int, preparation: Preparation, vocabularies: Path | None
) -> Callable[[tuple[int, Block]], tuple[int, _BlockStatistics]]:
    numericaliser = preparation.numericaliser(vocabularies) if vocabularies else None
    return partial(_inspect, corpora=corpora, limit=limit, preparation=preparation, numericaliser=numericaliser)


def _inspect(
    item: tuple[int, Block],
    *,
    corpora: Sequence[Corpus],
    limit: int,
    preparation: Preparation,
    numericaliser: Numericaliser | None,
) -> tuple[int, _BlockStatistics]:
    number, block = item
    corpus = corpora[number]
    parsed = parse(block, corpus=corpus, invalid="skip", limit=limit)
    columns = [parsed.columns[text_columns(corpus).index(name)] for name in preparation.reads]
    rows = list(zip(*columns, strict=True))
    return number, _BlockStatistics(
        tally=parsed.tally,
        invalid=parsed.invalid[:_SHOWN],
        malformed=(parsed.malformed + link_problems(corpus, parsed.rows))[:_SHOWN],
        lines=np.array(parsed.lines, dtype=np.int64),
        lengths={
            name: np.minimum(np.array(lengths, dtype=np.int64), _CAP)
            for name, lengths in preparation.lengths(rows).items()
        },
        counts=preparation.counts(rows),
        firsts=text_hashes(columns[0]),
        rows=text_hashes(["\0".join(row) for row in rows]),
        unknown=numericaliser.unknown(rows) if numericaliser else {},
        identical=count_identical(columns[0], columns[1]) if preparation.lines_up else 0,
    )


def _items(summaries: "list[_Summary]", *, limit: int) -> Iterator[tuple[int, Block]]:
    """Yields every block with the index of its corpus in `summaries`; records a problem if a corpus cannot be read."""
    for number, summary in enumerate(summaries):
        try:
            for block in read_blocks(summary.corpus, limit=limit):
                yield number, block
        except DataError as error:
            summary.problems.append(str(error))
            summary.is_whole = False


class _Summary:
    """Accumulates the statistics of one corpus, block by block, for its report."""

    def __init__(self, role: str, corpus: Corpus, *, shifted: Shifted, lines_up: bool) -> None:
        self.role, self.corpus = role, corpus
        self.is_whole = True
        self.rows = self.identical = 0
        self.tally = Tally()
        self.invalid: list[str] = []
        self.problems: list[str] = []
        self._lines_up, self._shifted = lines_up, shifted
        self._by_line, self._ratios = LineLengths(), RatioCount()
        self._lengths: dict[str, LengthCount] = {}
        self._counts: dict[str, Counter[str]] = {}

    def add(self, statistics: _BlockStatistics) -> None:
        if self._lines_up:
            self._compare_sides(statistics)
        self.rows += len(statistics.lines)
        self.identical += statistics.identical
        self.tally += statistics.tally
        self.invalid += statistics.invalid[: max(0, _SHOWN - len(self.invalid))]
        self.problems += statistics.malformed[: max(0, _SHOWN - len(self.problems))]
        for name, lengths in statistics.lengths.items():
            self._lengths.setdefault(name, LengthCount()).add(lengths)
        for name, counter in statistics.counts.items():
            self._counts.setdefault(name, Counter()).update(counter)

    def _compare_sides(self, statistics: _BlockStatistics) -> None:
        source, target = statistics.lengths.values()
        self._ratios.add(source, target=target, lines=statistics.lines)
        first, count = self.tally.lines + 1, statistics.tally.lines
        self._by_line.add(by_line(source, target=target, lines=statistics.lines, first=first, count=count))

    def report(self) -> CorpusReport:
        is_compared = self.is_whole and self._lines_up
        doubts = self._by_line.doubts(self.corpus, shifted=self._shifted) if is_compared else Doubts([], [])
        return CorpusReport(
            role=self.role,
            name=" + ".join(str(path) for path in paths(self.corpus).values()),
            rows=self.rows,
            tally=self.tally,
            invalid=self.invalid,
            problems=[*doubts.problems, *self.problems],
            warnings=[*doubts.warnings, *identity_warnings(self.corpus, identical=self.identical, rows=self.rows)],
            lengths={name: lengths.summary() for name, lengths in self._lengths.items()},
            counts=self._counts,
            ratios=self._ratios.summary() if self._lines_up else None,
        )


class _RoleHashes:
    """The hashes of all rows of a role (training, validation or test), and of the rows' first columns."""

    def __init__(self, folder: Path, *, role: str) -> None:
        self.role = role
        self.firsts = HashFile(folder / f"{role}.firsts")
        self.rows = HashFile(folder / f"{role}.rows")

    def add(self, statistics: _BlockStatistics) -> None:
        self.firsts.add(statistics.firsts)
        self.rows.add(statistics.rows)

    def overlap(self, train: "_RoleHashes") -> Overlap:
        return Overlap(
            role=self.role,
            rows=len(self.rows),
            first=self.firsts.within(train.firsts),
            whole=self.rows.within(train.rows),
        )
