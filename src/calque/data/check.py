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

from calque.data.batching import BatchConfig, Bucketed, waste
from calque.data.corpora import Block, Corpus, DataConfig, Shifted, paths, read_blocks
from calque.data.holdout import Hashes, HashFile, text_hashes
from calque.data.length_statistics import LengthCount, Lengths, RatioCount, Ratios
from calque.data.misalignment import Doubts, LineLengths, by_line
from calque.data.prepare import Prepared
from calque.data.process_map import ordered_map, workers_for
from calque.data.rows import Tally, parse
from calque.data.word_alignments import link_problems
from calque.errors import DataError
from calque.text import Tokenizers, load_tokenizers

_SHOWN = 10
_CAP = 1 << 16  # characters; longer texts count as this long


class CorpusReport(NamedTuple):
    """The statistics and problems of one corpus."""

    role: str
    name: str
    pairs: int
    """Pairs with text on both sides."""
    tally: Tally
    invalid: list[str]
    """The first invalid UTF-8: file, line, byte."""
    problems: list[str]
    """What training would reject: misaligned files, malformed TSV or JSON, a file that cannot be read."""
    warnings: list[str]
    """What is doubtful but would be accepted."""
    source: Lengths
    target: Lengths
    ratios: Ratios


class Overlap(NamedTuple):
    """The overlap of a corpus that should be unseen with the training data."""

    role: str
    pairs: int
    sources: int
    """Pairs whose source is also a source in training."""
    both: int
    """Pairs that are also in training."""


class CheckReport(NamedTuple):
    """The result of a check."""

    corpora: list[CorpusReport]
    duplicate_pairs: int
    """Training pairs that repeat an earlier pair."""
    duplicate_sources: int
    """Training pairs whose source repeats an earlier one."""
    overlaps: list[Overlap]
    unknown: dict[str, Counter[str]] | None
    """Characters outside the vocabulary, by side; None without a prepared store."""
    padding: dict[str, float] | None
    """The share of padding in an epoch, with exact (CPU) and static (GPU) shapes."""


def check(
    data: DataConfig,
    *,
    test: Sequence[Corpus] = (),
    prepared: Prepared | None = None,
    batch: BatchConfig | None = None,
    workers: int | None = None,
) -> CheckReport:
    """The statistics and problems of the corpora; with a prepared store also unknown characters and padding."""
    corpora = [("train", corpus) for corpus in data.train]
    corpora += [("valid", corpus) for corpus in data.valid] + [("test", corpus) for corpus in test]
    files = [path for _, corpus in corpora for path in paths(corpus).values()]
    make = partial(
        _inspector,
        [corpus for _, corpus in corpora],
        limit=data.line_limit,
        tokenizers=prepared.folder / "tokenizer" if prepared else None,
    )
    summaries = [_Summary(role, corpus, shifted=data.shifted) for role, corpus in corpora]
    with TemporaryDirectory(prefix="calque-check-") as folder:
        roles = {role: _RoleHashes(Path(folder), role=role) for role in dict.fromkeys(role for role, _ in corpora)}
        unknown: dict[str, Counter[str]] = {"source": Counter(), "target": Counter()}
        items = _items(summaries, limit=data.line_limit)
        for number, statistics in ordered_map(make, items=items, workers=workers_for(files, asked=workers)):
            summaries[number].add(statistics)
            roles[summaries[number].role].add(statistics)
            for side, counter in statistics.unknown.items():
                unknown[side].update(counter)
        train = roles["train"]
        overlaps = [hashes.overlap(train) for role, hashes in roles.items() if role != "train"]
        duplicates = train.pairs.duplicates(), train.sources.duplicates()
    return CheckReport(
        corpora=[summary.report() for summary in summaries],
        duplicate_pairs=duplicates[0],
        duplicate_sources=duplicates[1],
        overlaps=overlaps,
        unknown=unknown if prepared else None,
        padding=padding(prepared, batch=batch or BatchConfig()) if prepared else None,
    )


def padding(prepared: Prepared, *, batch: BatchConfig) -> dict[str, float]:
    """The share of an epoch's positions that is padding, with exact and with static shapes."""
    shapes: tuple[Literal["exact"], Literal["static"]] = ("exact", "static")
    tokens = BatchConfig().tokens if batch.tokens == "auto" else batch.tokens
    store = prepared.train
    widths = [store.widths(side, marks=1) for side in ("source", "target")]  # as pair_batch does, with torch
    orders = {
        kind: Bucketed(widths, spans=store.spans, config=BatchConfig(tokens=tokens, shapes=kind), seed=0)
        for kind in shapes
    }
    return {kind: waste(order, epoch=0) for kind, order in orders.items()}


class _BlockStatistics(NamedTuple):
    """The statistics of one block."""

    tally: Tally
    invalid: list[str]
    malformed: list[str]
    lines: NDArray[Any]
    source_lengths: NDArray[Any]
    target_lengths: NDArray[Any]
    sources: Hashes
    pairs: Hashes
    unknown: dict[str, Counter[str]]


def _inspector(
    corpora: Sequence[Corpus], *, limit: int, tokenizers: Path | None
) -> Callable[[tuple[int, Block]], tuple[int, _BlockStatistics]]:
    return partial(
        _inspect, corpora=corpora, limit=limit, tokenizers=load_tokenizers(tokenizers) if tokenizers else None
    )


def _inspect(
    item: tuple[int, Block], *, corpora: Sequence[Corpus], limit: int, tokenizers: Tokenizers | None
) -> tuple[int, _BlockStatistics]:
    number, block = item
    parsed = parse(block, corpus=corpora[number], invalid="skip", limit=limit)
    sources = [row.texts[0] for row in parsed.rows]
    targets = [row.texts[1] for row in parsed.rows]
    unknown: dict[str, Counter[str]] = {}
    if tokenizers:
        unknown["source"] = tokenizers.source.unknown_characters("\n".join(sources))
        unknown["target"] = tokenizers.target.unknown_characters("\n".join(targets))
        for counter in unknown.values():
            del counter["\n"]
    return number, _BlockStatistics(
        tally=parsed.tally,
        invalid=parsed.invalid[:_SHOWN],
        malformed=(parsed.malformed + link_problems(corpora[number], parsed.rows))[:_SHOWN],
        lines=np.array([row.line for row in parsed.rows], dtype=np.int64),
        source_lengths=np.array([min(len(text), _CAP) for text in sources], dtype=np.int64),
        target_lengths=np.array([min(len(text), _CAP) for text in targets], dtype=np.int64),
        sources=text_hashes(sources),
        pairs=text_hashes([f"{source}\0{target}" for source, target in zip(sources, targets, strict=True)]),
        unknown=unknown,
    )


def _items(summaries: "list[_Summary]", *, limit: int) -> Iterator[tuple[int, Block]]:
    """Every block of every corpus; a corpus that cannot be read is noted and skipped."""
    for number, summary in enumerate(summaries):
        try:
            for block in read_blocks(summary.corpus, limit=limit):
                yield number, block
        except DataError as error:
            summary.problems.append(str(error))
            summary.is_whole = False


class _Summary:
    """The accumulated statistics of a corpus."""

    def __init__(self, role: str, corpus: Corpus, *, shifted: Shifted) -> None:
        self.role, self.corpus = role, corpus
        self.is_whole = True
        self.pairs = 0
        self.tally = Tally()
        self.invalid: list[str] = []
        self.problems: list[str] = []
        self._by_line, self._shifted = LineLengths(), shifted
        self._source, self._target, self._ratios = LengthCount(), LengthCount(), RatioCount()

    def add(self, statistics: _BlockStatistics) -> None:
        self._by_line.add(
            by_line(
                statistics.source_lengths,
                target=statistics.target_lengths,
                lines=statistics.lines,
                first=self.tally.lines + 1,
                count=statistics.tally.lines,
            )
        )
        self.pairs += len(statistics.lines)
        self.tally += statistics.tally
        self.invalid += statistics.invalid[: max(0, _SHOWN - len(self.invalid))]
        self.problems += statistics.malformed[: max(0, _SHOWN - len(self.problems))]
        self._source.add(statistics.source_lengths)
        self._target.add(statistics.target_lengths)
        self._ratios.add(statistics.source_lengths, target=statistics.target_lengths, lines=statistics.lines)

    def report(self) -> CorpusReport:
        doubts = self._by_line.doubts(self.corpus, shifted=self._shifted) if self.is_whole else Doubts([], [])
        return CorpusReport(
            role=self.role,
            name=" + ".join(str(path) for path in paths(self.corpus).values()),
            pairs=self.pairs,
            tally=self.tally,
            invalid=self.invalid,
            problems=[*doubts.problems, *self.problems],
            warnings=doubts.warnings,
            source=self._source.summary(),
            target=self._target.summary(),
            ratios=self._ratios.summary(),
        )


class _RoleHashes:
    """The hashes of all sources and pairs of a role."""

    def __init__(self, folder: Path, *, role: str) -> None:
        self.role = role
        self.sources = HashFile(folder / f"{role}.sources")
        self.pairs = HashFile(folder / f"{role}.pairs")

    def add(self, statistics: _BlockStatistics) -> None:
        self.sources.add(statistics.sources)
        self.pairs.add(statistics.pairs)

    def overlap(self, train: "_RoleHashes") -> Overlap:
        return Overlap(
            role=self.role,
            pairs=len(self.pairs),
            sources=self.sources.within(train.sources),
            both=self.pairs.within(train.pairs),
        )
