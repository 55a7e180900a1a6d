"""Preparing data by several processes: blocks are parsed and spooled as clean text, then turned into ids.

A corpus file is decompressed, hashed and parsed once. The spool is a file of clean rows, one block per line as JSON;
vocabularies are learnt from it and it is numericalised from there.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import Block, Corpus, DataConfig, gives, read_blocks
from calque.data.holdout import Hashes, text_hashes
from calque.data.lines import Digest
from calque.data.misalignment import by_line
from calque.data.rows import Row, Tally, parse
from calque.data.store import ColumnKind, Rows
from calque.data.word_alignments import link_problems

Role = Literal["train", "valid"]
ROLES: tuple[Role, Role] = ("train", "valid")

Texts = tuple[str, ...]


class Numericalised(NamedTuple):
    """Rows of a block as columns of a store."""

    columns: Mapping[str, Rows]
    rows: Sequence[int]
    """Which rows of the block they are."""
    empty: int = 0
    """Rows left out, as nothing was left of a text."""
    long: int = 0
    """Rows left out, as they are too long."""


class Numericaliser(Protocol):
    """Makes columns of rows of text. Built once in each process."""

    def __call__(self, rows: Sequence[Texts], *, training: bool) -> Numericalised: ...

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        """What of the rows is outside the vocabularies, by a name such as "source characters"."""
        ...


class Preparation(Protocol):
    """What a task makes of text: which columns it reads, what it learns from them, and what it stores."""

    @property
    def unit(self) -> str:
        """What a row is called, in the plural."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of text that every corpus must give; the first one decides which rows are held out."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Every setting that shapes the store, by its key: part of the store's fingerprint."""
        ...

    @property
    def lines_up(self) -> bool:
        """Whether the lengths of the first two columns should fit each other line by line."""
        ...

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        """The lengths of rows that a check reports, by a name such as "source characters"."""
        ...

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        """The values that a check counts, by the name of their column, such as labels."""
        ...

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        """Learns the vocabularies from `texts(column)` and saves them in a folder."""
        ...

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        """What is stored of training or validation rows, with the vocabularies in that folder."""
        ...

    def numericaliser(self, folder: Path) -> Numericaliser:
        """What makes ids of text, with the vocabularies in that folder."""
        ...


class SpoolBlock(NamedTuple):
    """Clean rows of a corpus."""

    role: Role
    corpus: int  # from 0
    rows: list[Texts]


class Scanned(NamedTuple):
    """What parsing a block gave."""

    role: Role
    corpus: int
    tally: Tally
    problems: list[str]
    rows: int
    lengths: NDArray[Any]
    """[lines,2], characters of the first two columns of every line; empty where nothing has to line up."""
    hashes: Hashes
    """A hash of each usable row's first column, where some are to be held out."""
    spooled: bytes
    """The rows, as a line of the spool."""


class Encoded(NamedTuple):
    """A block as ids: which rows are for training, which for validation, and the latter's text."""

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
    """A block of raw lines, and which corpus it comes from."""

    role: Role
    corpus: int  # from 0
    block: Block


def raw_blocks(data: DataConfig, *, digests: Mapping[str, Digest]) -> Iterator[RawBlock]:
    """Every block of every corpus, in the config's order; `digests` have taken in all files in the end."""
    for role in ROLES:
        for number, corpus in enumerate(getattr(data, role)):
            prefix = f"data.{role}[{number + 1}]."
            own = {key.removeprefix(prefix): value for key, value in digests.items() if key.startswith(prefix)}
            for block in read_blocks(corpus, limit=data.line_limit, digests=own):
                yield RawBlock(role, number, block)


def scanner(data: DataConfig, *, preparation: Preparation) -> Callable[[RawBlock], Scanned]:
    """A function that parses a block."""
    return partial(_scan, data=data, preparation=preparation)


def encoder(preparation: Preparation, *, folder: Path, held_out: Hashes) -> Callable[[bytes], Encoded]:
    """A function that numericalises a line of the spool with the vocabularies in a folder."""
    return partial(_encode, numericaliser=preparation.numericaliser(folder), held_out=held_out)


def read_spool(path: Path) -> Iterator[bytes]:
    """The blocks of a spool, still packed."""
    with path.open("rb") as file:
        yield from file


def unpack(line: bytes) -> SpoolBlock:
    """A block of a spool."""
    role, corpus, rows = json.loads(line)
    return SpoolBlock(role, corpus, [tuple(row) for row in rows])


def training_texts(spool: Path, *, column: int, held_out: Hashes) -> Iterator[str]:
    """Every text of a column to learn from."""
    for line in read_spool(spool):
        block = unpack(line)
        if block.role == "train":
            held = _is_held_out(block, held_out=held_out)
            yield from (row[column] for row, is_held in zip(block.rows, held, strict=True) if not is_held)


def _scan(raw: RawBlock, *, data: DataConfig, preparation: Preparation) -> Scanned:
    corpus: Corpus = getattr(data, raw.role)[raw.corpus]
    parsed = parse(raw.block, corpus=corpus, invalid=data.invalid, limit=data.line_limit)
    problems = parsed.malformed + (parsed.invalid if data.invalid == "fail" else [])
    problems += link_problems(corpus, parsed.rows)
    names = gives(corpus)
    order = [names.index(name) for name in (*preparation.reads, *(name for name in names if name == "links"))]
    rows = [tuple(row.texts[place] for place in order) for row in parsed.rows]
    is_held_out = raw.role == "train" and not data.valid
    return Scanned(
        raw.role,
        raw.corpus,
        parsed.tally,
        problems,
        len(rows),
        lengths=_lengths(parsed.rows, rows, block=raw.block) if preparation.lines_up else np.zeros((0, 2)),
        hashes=text_hashes([row[0] for row in rows] if is_held_out else []),
        spooled=json.dumps([raw.role, raw.corpus, rows], ensure_ascii=False).encode() + b"\n",
    )


def _lengths(parsed: Sequence[Row], rows: Sequence[Texts], *, block: Block) -> NDArray[Any]:
    first, second = (np.array([len(row[side]) for row in rows], dtype=np.int64) for side in (0, 1))
    lines = np.array([row.line for row in parsed], dtype=np.int64)
    return by_line(first, target=second, lines=lines, first=block.first, count=block.lines)


def _encode(line: bytes, *, numericaliser: Numericaliser, held_out: Hashes) -> Encoded:
    block = unpack(line)
    held = _is_held_out(block, held_out=held_out)
    parts = []
    for is_valid in (False, True):
        rows = [row for row, is_held in zip(block.rows, held, strict=True) if bool(is_held) == is_valid]
        parts.append((rows, numericaliser(rows, training=not is_valid)))
    (_, train), (rows, valid) = parts
    return Encoded(
        block.role,
        block.corpus,
        len(block.rows),
        train.columns,
        len(train.rows),
        valid.columns,
        [rows[place] for place in valid.rows],
        empty=train.empty + valid.empty,
        long=train.long + valid.long,
    )


def _is_held_out(block: SpoolBlock, *, held_out: Hashes) -> NDArray[np.bool_]:
    """[rows], whether each row is for validation."""
    if block.role == "valid" or not len(held_out):
        return np.full(len(block.rows), block.role == "valid")
    return np.isin(text_hashes([row[0] for row in block.rows]), held_out)
