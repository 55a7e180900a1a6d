"""Preparing data in several processes: blocks are parsed and spooled as clean text, then converted to ids.

A corpus file is decompressed, hashed and parsed once. The spool is a file of clean rows, one block per line, as JSON;
vocabularies are learnt from it, and its rows are converted to ids.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import Block, Corpus, DataConfig, read_blocks, text_columns
from calque.data.holdout import Hashes, position_keys, text_hashes
from calque.data.identical_sides import count_identical
from calque.data.lines import Digest
from calque.data.misalignment import by_line
from calque.data.rows import Row, Tally, parse
from calque.data.store import ColumnKind, Rows
from calque.data.word_alignments import link_problems

Role = Literal["train", "valid"]
ROLES: tuple[Role, Role] = ("train", "valid")

Texts = tuple[str, ...]


class Numericalised(NamedTuple):
    """A block of rows converted to ids, as the columns of a store."""

    columns: Mapping[str, Rows]
    rows: Sequence[int]
    """The indices of these rows in the block."""
    empty: int = 0
    """The number of rows left out because a text has no tokens."""
    long: int = 0
    """The number of rows left out because they are too long."""


class Numericaliser(Protocol):
    """Converts rows of text to columns of ids. Built once per process."""

    def __call__(self, rows: Sequence[Texts], *, training: bool) -> Numericalised: ...

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        """The words or characters outside the vocabularies, by a name such as "source characters"."""
        ...


class Preparation(Protocol):
    """How a task prepares text: which columns it reads, which vocabularies it learns, and what it stores."""

    @property
    def unit(self) -> str:
        """What messages call the rows, in the plural: pairs, lines or sentences."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of text that every corpus must have; the first one determines which rows are held out."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Every setting of the task that affects the store, by its config key; part of the store's fingerprint."""
        ...

    @property
    def running(self) -> bool:
        """Whether the rows form one running text, so that no row is too long and the last rows are held out."""
        ...

    @property
    def lines_up(self) -> bool:
        """Whether the lengths of the first two columns are expected to correlate line by line."""
        ...

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        """The lengths of rows for the report of a check, by a name such as "source characters"."""
        ...

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        """The frequencies of values for the report of a check, by the name of their column, such as labels."""
        ...

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        """Learns the vocabularies from `texts(column)`, the training texts of a column, and saves them in a folder."""
        ...

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        """The columns stored for training or validation rows, given the vocabularies in `folder`."""
        ...

    def numericaliser(self, folder: Path) -> Numericaliser:
        """The object that converts text to ids with the vocabularies in `folder`."""
        ...


class SpoolBlock(NamedTuple):
    """A block of cleaned rows of one corpus, as stored in the spool, a temporary file."""

    role: Role
    corpus: int  # from 0
    rows: list[Texts]
    lines: list[int]
    """The line of each row, if the rows form a running text; otherwise empty."""

    @property
    def keys(self) -> Hashes:
        """The key of each row; the training rows with the smallest keys are held out for validation."""
        if self.lines:
            return position_keys(self.lines, corpus=self.corpus)
        return text_hashes([row[0] for row in self.rows])


class Scanned(NamedTuple):
    """The result of parsing a block of raw lines: its cleaned rows, statistics and problems."""

    role: Role
    corpus: int
    tally: Tally
    problems: list[str]
    rows: int
    lengths: NDArray[Any]
    """[lines,2], characters of the first two columns of every line; empty unless `Preparation.lines_up`."""
    identical: int
    """The number of rows whose first two columns are equal; 0 unless `Preparation.lines_up`."""
    keys: Hashes
    """The key of each usable row; empty if no rows are held out of this corpus."""
    spooled: bytes
    """The rows, as a line of the spool."""


class Encoded(NamedTuple):
    """A block as ids: the rows for training, the rows for validation, and the text of the latter."""

    role: Role
    corpus: int
    lines: int
    train: Mapping[str, Rows]
    train_rows: int
    valid: Mapping[str, Rows]
    texts: list[Texts]
    empty: int
    long: int


class RawBlock(NamedTuple):
    """A block of raw lines, and the role (training or validation) and number of its corpus."""

    role: Role
    corpus: int  # from 0
    block: Block


def raw_blocks(data: DataConfig, *, running: bool, digests: Mapping[str, Digest]) -> Iterator[RawBlock]:
    """Every block of every corpus, in the config's order; `digests` are updated with the bytes of all files."""
    limit = data.line_limit(running=running)
    for role in ROLES:
        for number, corpus in enumerate(getattr(data, role)):
            prefix = f"data.{role}[{number + 1}]."
            by_file = {key.removeprefix(prefix): value for key, value in digests.items() if key.startswith(prefix)}
            for block in read_blocks(corpus, limit=limit, digests=by_file):
                yield RawBlock(role, number, block)


def scanner(data: DataConfig, *, preparation: Preparation) -> Callable[[RawBlock], Scanned]:
    """A function that parses and cleans a block of raw lines."""
    return partial(_scan, data=data, preparation=preparation)


def encoder(preparation: Preparation, *, folder: Path, held_out: Hashes) -> Callable[[bytes], Encoded]:
    """A function that converts a spooled block of cleaned text to ids, with the vocabularies in a folder."""
    return partial(_encode, numericaliser=preparation.numericaliser(folder), held_out=held_out)


def read_spool(path: Path) -> Iterator[bytes]:
    """The blocks of cleaned rows in a spool file, each a line of JSON."""
    with path.open("rb") as file:
        yield from file


def unpack(line: bytes) -> SpoolBlock:
    """Parses a line of JSON from a spool file into a block of cleaned rows."""
    role, corpus, rows, lines = json.loads(line)
    return SpoolBlock(role, corpus, [tuple(row) for row in rows], lines)


def training_texts(spool: Path, *, column: int, held_out: Hashes) -> Iterator[str]:
    """The texts of a column that vocabularies are learnt from: all training rows that are not held out."""
    for line in read_spool(spool):
        block = unpack(line)
        if block.role == "train":
            mask = _is_held_out(block, held_out=held_out)
            yield from (row[column] for row, is_held_out in zip(block.rows, mask, strict=True) if not is_held_out)


def _scan(raw: RawBlock, *, data: DataConfig, preparation: Preparation) -> Scanned:
    corpus: Corpus = getattr(data, raw.role)[raw.corpus]
    limit = data.line_limit(running=preparation.running)
    parsed = parse(raw.block, corpus=corpus, invalid=data.invalid, limit=limit)
    problems = parsed.malformed + (parsed.invalid if data.invalid == "fail" else [])
    problems += link_problems(corpus, parsed.rows)
    names = text_columns(corpus)
    order = [names.index(name) for name in (*preparation.reads, *(name for name in names if name == "links"))]
    rows = [tuple(row.texts[index] for index in order) for row in parsed.rows]
    lines = [row.line for row in parsed.rows] if preparation.running else []
    block = SpoolBlock(raw.role, raw.corpus, rows, lines)
    is_held_out = raw.role == "train" and not data.valid
    return Scanned(
        raw.role,
        raw.corpus,
        parsed.tally,
        problems,
        len(rows),
        lengths=_lengths(parsed.rows, rows, block=raw.block) if preparation.lines_up else np.zeros((0, 2)),
        identical=count_identical(rows) if preparation.lines_up else 0,
        keys=block.keys if is_held_out else text_hashes([]),
        spooled=json.dumps(block, ensure_ascii=False).encode() + b"\n",
    )


def _lengths(parsed: Sequence[Row], rows: Sequence[Texts], *, block: Block) -> NDArray[Any]:
    source, target = (np.array([len(row[side]) for row in rows], dtype=np.int64) for side in (0, 1))
    lines = np.array([row.line for row in parsed], dtype=np.int64)
    return by_line(source, target=target, lines=lines, first=block.first, count=block.lines)


def _encode(line: bytes, *, numericaliser: Numericaliser, held_out: Hashes) -> Encoded:
    block = unpack(line)
    mask = _is_held_out(block, held_out=held_out)
    parts = []
    for is_valid in (False, True):
        rows = [row for row, is_held_out in zip(block.rows, mask, strict=True) if bool(is_held_out) == is_valid]
        parts.append((rows, numericaliser(rows, training=not is_valid)))
    (_, train), (rows, valid) = parts
    return Encoded(
        block.role,
        block.corpus,
        len(block.rows),
        train.columns,
        len(train.rows),
        valid.columns,
        [rows[index] for index in valid.rows],
        empty=train.empty + valid.empty,
        long=train.long + valid.long,
    )


def _is_held_out(block: SpoolBlock, *, held_out: Hashes) -> NDArray[np.bool_]:
    """Whether each row is for validation, [rows]."""
    if block.role == "valid" or not len(held_out):
        return np.full(len(block.rows), block.role == "valid")
    return np.isin(block.keys, held_out)
