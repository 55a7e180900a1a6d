"""Preparing data in several processes: blocks are parsed and spooled as clean text, then converted to ids.

A corpus file is decompressed, hashed and parsed once. Vocabularies are learnt from the spool, and its rows are
converted to ids. Texts stay in columns throughout: nearly all work is done per block, not per row.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calque.data.audio_corpus import PLACE
from calque.data.corpora import Block, Corpus, DataConfig, read_blocks, text_columns
from calque.data.holdout import Hashes, position_keys, text_hashes
from calque.data.identical_sides import count_identical
from calque.data.lines import Digest
from calque.data.misalignment import by_line
from calque.data.rows import Parsed, Tally, parse
from calque.data.spool import Role as Role
from calque.data.spool import SpoolBlock, pack_block, read_spool, unpack_block, unpack_column
from calque.data.store import ColumnKind, Rows
from calque.data.word_alignments import LINKS, link_problems

ROLES: tuple[Role, Role] = ("train", "valid")

Texts = tuple[str, ...]


class Numericalised(NamedTuple):
    """A block of rows converted to ids, column by column."""

    columns: Mapping[str, Rows]
    rows: Sequence[int]
    """The indices of the converted rows in the block."""
    empty: int = 0
    """The number of rows left out because a text has no tokens."""
    long: int = 0
    """The number of rows left out because they are too long."""
    problems: Sequence[str] = ()
    """Messages, with file and line, about rows that cannot be used; `data.invalid` says if these rows are an error."""


class Numericaliser(Protocol):
    """Converts rows of text to columns of ids. Every process builds its own numericaliser, once."""

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        """The ids of a block, given the texts of each column."""
        ...

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        """The words or characters outside the vocabularies, by a name such as "source characters"."""
        ...


class Preparation(Protocol):
    """How a task prepares text: which columns it reads, which vocabularies it learns, and what it stores.

    A preparation, and its numericaliser, may also have `splits_rows`. If that is true, no rows are held out: every
    training row is also converted to a validation row, as in a leave-one-out split of sequences.
    """

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
        """Whether the rows form one running text. If so, no row is too long, and the last rows are held out."""
        ...

    @property
    def lines_up(self) -> bool:
        """Whether the lengths of the first two columns are expected to correlate line by line."""
        ...

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        """The lengths of the rows, by a name such as "source characters", for the report of `check`."""
        ...

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        """For the report of `check`: by column name, how often each of its values occurs, such as each label."""
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


class Scanned(NamedTuple):
    """The result of parsing a block of raw lines: its cleaned rows, statistics and problems."""

    role: Role
    corpus: int
    tally: Tally
    problems: list[str]
    rows: int
    lengths: NDArray[Any]
    """[lines,2], the lengths of the first two columns in characters; empty unless `Preparation.lines_up`."""
    identical: int
    """The number of rows whose first two columns are equal; 0 unless `Preparation.lines_up`."""
    keys: Hashes
    """The key of each usable row; empty if no rows of this corpus are held out."""
    spooled: bytes
    """The rows, packed as a record for the spool (a temporary file of cleaned rows)."""


class Encoded(NamedTuple):
    """A block converted to ids: its training rows, its validation rows, and the texts of the latter."""

    role: Role
    corpus: int
    lines: int
    train: Mapping[str, Rows]
    train_rows: int
    valid: Mapping[str, Rows]
    texts: list[Texts]
    empty: int
    long: int
    problems: Sequence[str]


class RawBlock(NamedTuple):
    """A block of raw lines, and the role (training or validation) and number of its corpus."""

    role: Role
    corpus: int  # from 0
    block: Block


def raw_blocks(data: DataConfig, *, running: bool, digests: Mapping[str, Digest]) -> Iterator[RawBlock]:
    """Yields every block of every corpus, in the config's order, and updates `digests` with the bytes of all files."""
    limit = data.line_limit(running=running)
    for role in ROLES:
        for number, corpus in enumerate(getattr(data, role)):
            prefix = f"data.{role}[{number + 1}]."
            by_file = {key.removeprefix(prefix): value for key, value in digests.items() if key.startswith(prefix)}
            for block in read_blocks(corpus, limit=limit, digests=by_file):
                yield RawBlock(role, number, block)


def splits_rows(preparation: Preparation | Numericaliser) -> bool:
    """Whether every training row is also converted to a validation row (see `Preparation`)."""
    return bool(getattr(preparation, "splits_rows", False))


def scanner(data: DataConfig, *, preparation: Preparation) -> Callable[[RawBlock], Scanned]:
    """A function that parses and cleans a block of raw lines."""
    return partial(_scan, data=data, preparation=preparation)


def encoder(preparation: Preparation, *, folder: Path, held_out: Hashes) -> Callable[[bytes], Encoded]:
    """A function that converts a spooled block of cleaned text to ids, with the vocabularies in a folder."""
    return partial(_encode, numericaliser=preparation.numericaliser(folder), held_out=held_out)


def training_texts(spool: Path, *, column: int, held_out: Hashes) -> Iterator[str]:
    """The texts of a column that vocabularies are learnt from: all training rows that are not held out."""
    records = read_spool(spool)
    return chain.from_iterable(unpack_column(record, column=column, held_out=held_out) for record in records)


def _scan(raw: RawBlock, *, data: DataConfig, preparation: Preparation) -> Scanned:
    corpus: Corpus = getattr(data, raw.role)[raw.corpus]
    limit = data.line_limit(running=preparation.running)
    parsed = parse(raw.block, corpus=corpus, invalid=data.invalid, limit=limit)
    problems = parsed.malformed + (parsed.invalid if data.invalid == "fail" else [])
    if LINKS in text_columns(corpus):
        problems += link_problems(corpus, parsed.rows)
    names = text_columns(corpus)
    further = [name for name in (LINKS, PLACE) if name in names]
    columns = [parsed.columns[names.index(name)] for name in (*preparation.reads, *further)]
    is_held_out = raw.role == "train" and not data.valid
    keys = _keys(parsed, columns[0], corpus=raw.corpus, running=preparation.running) if is_held_out else text_hashes([])
    return Scanned(
        raw.role,
        raw.corpus,
        parsed.tally,
        problems,
        len(parsed.lines),
        lengths=_lengths(parsed, columns, block=raw.block) if preparation.lines_up else np.zeros((0, 2)),
        identical=count_identical(columns[0], columns[1]) if preparation.lines_up else 0,
        keys=keys,
        spooled=pack_block(SpoolBlock(raw.role, raw.corpus, columns, keys)),
    )


def _keys(parsed: Parsed, first: Sequence[str], *, corpus: int, running: bool) -> Hashes:
    return position_keys(parsed.lines, corpus=corpus) if running else text_hashes(first)


def _lengths(parsed: Parsed, columns: Sequence[Sequence[str]], *, block: Block) -> NDArray[Any]:
    source, target = (
        np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) for texts in (columns[0], columns[1])
    )
    lines = np.array(parsed.lines, dtype=np.int64)
    return by_line(source, target=target, lines=lines, first=block.first, count=block.lines)


def _encode(record: bytes, *, numericaliser: Numericaliser, held_out: Hashes) -> Encoded:
    block = unpack_block(record)
    is_valid = block.is_held_out(held_out)
    train, valid = (_selected(block.columns, mask) for mask in (~is_valid, is_valid))
    if splits_rows(numericaliser):
        valid = train
    train_ids, valid_ids = numericaliser(train, training=True), numericaliser(valid, training=False)
    texts = list(zip(*valid, strict=True))
    return Encoded(
        block.role,
        block.corpus,
        block.rows,
        train_ids.columns,
        len(train_ids.rows),
        valid_ids.columns,
        [texts[index] for index in valid_ids.rows],
        empty=train_ids.empty + valid_ids.empty,
        long=train_ids.long + valid_ids.long,
        problems=[*train_ids.problems, *valid_ids.problems],
    )


def _selected(columns: Sequence[Sequence[str]], mask: NDArray[np.bool_]) -> Sequence[Sequence[str]]:
    """The columns, restricted to the rows for which the mask is true."""
    if mask.all():
        return columns
    chosen = mask.tolist()
    return [list(compress(texts, chosen)) for texts in columns]
