"""Named, ragged columns on disk. They are memory-mapped, so opening a store takes the same time whatever its size.

A store is a folder with three files per column: the values of all rows, concatenated; the offset of each row in them;
and the length of each row, without begin or end marks. Values are token ids (uint16 if the vocabulary fits, else
uint32), label ids, samples of sound (int16), or frames: vectors of floats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calque.errors import FolderError
from calque.folders.upgrades import STORE_LAYOUTS
from calque.text.word_table import flat_ids

Array = NDArray[Any]

FORMAT = 3


class ColumnKind(NamedTuple):
    """The type of a column's values."""

    dtype: str = "<u4"
    feature: tuple[int, ...] = ()  # shape of one value: () for ids, (80,) for frames of 80 numbers


class Column(NamedTuple):
    """One column: row i is `values[offsets[i] : offsets[i] + lengths[i]]`."""

    values: Array  # [total, *feature]
    offsets: Array  # uint64
    lengths: Array  # without begin or end marks

    def row(self, index: int) -> Array:
        """The values of one row."""
        start = int(self.offsets[index])
        return self.values[start : start + int(self.lengths[index])]

    def gather(self, indices: Array) -> tuple[Array, Array]:
        """The concatenated values of the rows `indices`, and the lengths of these rows."""
        lengths = self.lengths[indices].astype(np.int64)
        starts = self.offsets[indices].astype(np.int64) - (np.cumsum(lengths) - lengths)
        return self.values[np.repeat(starts, lengths) + np.arange(lengths.sum())], lengths


@dataclass(frozen=True, slots=True)
class Widths:
    """The number of positions that each row of a column takes in a batch, begin and end marks included."""

    lengths: Array
    marks: int = 0

    def __getitem__(self, rows: Any) -> Array:
        widths: Array = self.lengths[rows].astype(np.int64) + self.marks
        return widths

    def total(self) -> int:
        """The number of positions that all rows together take, without padding."""
        return int(self.lengths.sum(dtype=np.int64)) + self.marks * len(self.lengths)


class Span(NamedTuple):
    """The rows of one corpus in a store, from `start` to `stop` (exclusive), and how often an epoch reads them."""

    start: int
    stop: int
    weight: float


@dataclass(frozen=True, slots=True)
class Store:
    """Columns with the same number of rows."""

    columns: Mapping[str, Column]
    spans: tuple[Span, ...]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).lengths)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def widths(self, name: str, *, marks: int = 0) -> Widths:
        """The number of positions that each row of a column takes in a batch, including `marks` begin and end marks."""
        return Widths(self.columns[name].lengths, marks)


class Rows(NamedTuple):
    """Rows of a column as they are written to a store: their concatenated values, and their lengths."""

    values: Array
    lengths: Array


def pack(sequences: Sequence[Sequence[int]]) -> Rows:
    """Packs sequences of ids into one flat array."""
    return Rows(*flat_ids(sequences))


def select(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    """The rows for which the mask [rows] is true."""
    return rows if mask.all() else Rows(rows.values[np.repeat(mask, rows.lengths)], rows.lengths[mask])


def pack_frames(sequences: Sequence[Array]) -> Rows:
    """Packs sequences of vectors [length, feature] into one flat array."""
    lengths = np.fromiter(map(len, sequences), dtype=np.uint32, count=len(sequences))
    return Rows(np.concatenate(sequences), lengths)


def store_in_memory(columns: Mapping[str, Rows], *, weight: float = 1.0) -> Store:
    """A store of one corpus in memory, for small data and tests."""
    stored = {
        name: Column(rows.values, np.cumsum(rows.lengths.astype(np.uint64)) - rows.lengths, rows.lengths)
        for name, rows in columns.items()
    }
    return Store(stored, (Span(0, len(next(iter(columns.values())).lengths), weight),))


def store_of_pairs(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, weight: float = 1.0) -> Store:
    """A store in memory with the columns source and target."""
    sides = {name: pack([pair[side] for pair in pairs]) for side, name in enumerate(("source", "target"))}
    return store_in_memory(sides, weight=weight)


def id_counts(
    store: Store, *, column: str, size: int, end: int | None, unknown: int, block: int = 1 << 22
) -> NDArray[np.float64]:
    """How often an epoch reads each id of a column, for the ids below `size`.

    Other ids count as `unknown`. The id `end`, unless it is None, is counted once per row. One block of ids is in
    memory at a time.
    """
    counts = np.zeros(size)
    ids = store[column]
    for start, stop, weight in store.spans:
        if start == stop:
            continue
        low, high = int(ids.offsets[start]), int(ids.offsets[stop - 1]) + int(ids.lengths[stop - 1])
        for at in range(low, high, block):
            values = ids.values[at : min(at + block, high)]
            counts += weight * np.bincount(np.where(values < size, values, unknown), minlength=size)
        if end is not None:
            counts[end] += weight * (stop - start)
    return counts


def length_counts(store: Store, *, longest: int = 200, block: int = 1 << 22) -> dict[str, list[int]]:
    """For each column, the number of rows with 0, 1, 2, … values; the last number is for `longest` or more values."""
    counts = {}
    for name, column in store.columns.items():
        total = np.zeros(longest + 1, dtype=np.int64)
        for start in range(0, len(column.lengths), block):
            lengths = np.minimum(column.lengths[start : start + block].astype(np.int64), longest)
            total += np.bincount(lengths, minlength=longest + 1)
        counts[name] = total.tolist()
    return counts


def open_store(folder: Path, *, spans: Sequence[Span], format: int = FORMAT) -> Store:
    """The store in `folder`, memory-mapped."""
    layout = STORE_LAYOUTS[format]
    names = sorted(path.name.removesuffix(".offsets") for path in folder.glob("*.offsets"))
    columns = {}
    for name in names:
        values, offsets, lengths = (_map(folder / f"{name}.{part}") for part in (layout.values, "offsets", "lengths"))
        columns[name] = Column(values, offsets, lengths - lengths.dtype.type(1) if layout.counts_end else lengths)
    if not columns:
        raise FolderError(f"{folder}: the store contains no columns; remove it and prepare the data again")
    if len({len(part) for column in columns.values() for part in (column.offsets, column.lengths)}) > 1:
        raise FolderError(
            f"{folder}: the columns of the store have different numbers of rows; remove it and prepare the data again"
        )
    return Store(columns, tuple(spans))


class StoreWriter:
    """Writes rows to a new store. Its bytes do not depend on how the rows are divided among calls of `append`."""

    def __init__(self, folder: Path, *, columns: Mapping[str, ColumnKind], longest: int) -> None:
        folder.mkdir()
        self.rows = 0
        self._columns = {
            name: _ColumnWriter(folder, name, kind=kind, lengths=smallest_unsigned(longest))
            for name, kind in columns.items()
        }

    def append(self, columns: Mapping[str, Rows]) -> None:
        """Appends rows to every column."""
        counts = {len(columns[name].lengths) for name in self._columns}
        assert len(counts) == 1, "columns have different lengths"
        for name, writer in self._columns.items():
            writer.append(columns[name])
        self.rows += counts.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for column in self._columns.values():
            column.close()


class _ColumnWriter:
    def __init__(self, folder: Path, name: str, *, kind: ColumnKind, lengths: str) -> None:
        kinds = {"values": kind, "offsets": ColumnKind("<u8"), "lengths": ColumnKind(lengths)}
        self._files = {part: _start(folder / f"{name}.{part}", of_part) for part, of_part in kinds.items()}
        self._kinds = kinds
        self._next = 0

    def append(self, rows: Rows) -> None:
        lengths = rows.lengths.astype(np.uint64)
        parts = {"values": rows.values, "offsets": self._next + np.cumsum(lengths) - lengths, "lengths": lengths}
        self._next += len(rows.values)
        for part, values in parts.items():
            self._files[part].write(values.astype(self._kinds[part].dtype).tobytes())

    def close(self) -> None:
        for file in self._files.values():
            file.close()


_DTYPES = ("<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<i2")
_HEADER = 16  # bytes, so that the values after it are aligned


def _header(kind: ColumnKind) -> bytes:
    """The header of a column's file: the type and the shape of a value, as in `calque-u2` or `calque-f4 80`."""
    shape = f" {'x'.join(map(str, kind.feature))}" if kind.feature else ""
    header = f"calque-{kind.dtype.removeprefix('<')}{shape}\n".encode().ljust(_HEADER, b"\0")
    assert len(header) == _HEADER, "the feature's shape does not fit into the header"
    return header


def _read_header(header: bytes) -> ColumnKind | None:
    text, newline, padding = header.decode("ascii", "replace").partition("\n")
    dtype, _, shape = text.removeprefix("calque-").partition(" ")
    sizes = shape.split("x") if shape else []
    is_complete = len(header) == _HEADER and newline and not padding.strip("\0")
    is_valid = is_complete and text.startswith("calque-") and all(size.isdigit() for size in sizes)
    kind = ColumnKind(f"<{dtype}", tuple(map(int, sizes)) if is_valid else ())
    return kind if is_valid and kind.dtype in _DTYPES and 0 not in kind.feature else None


def _start(path: Path, kind: ColumnKind) -> BinaryIO:
    file = path.open("wb")
    file.write(_header(kind))
    return file


def _map(path: Path) -> Array:
    with path.open("rb") as file:
        kind = _read_header(file.read(_HEADER))
    size = path.stat().st_size - _HEADER
    width = np.dtype(kind.dtype).itemsize * prod(kind.feature) if kind else 1
    if kind is None or size % width:
        raise FolderError(
            f"{path}: this is not a file of a Calque store, or it is truncated; remove the store and prepare the data "
            "again"
        )
    if size == 0:  # an empty file cannot be mapped
        return np.zeros((0, *kind.feature), dtype=kind.dtype)
    return np.memmap(path, dtype=kind.dtype, mode="r", offset=_HEADER, shape=(size // width, *kind.feature))


def smallest_unsigned(largest: int) -> str:
    """The dtype that holds numbers up to `largest`: uint16 if possible, otherwise uint32."""
    return "<u2" if largest <= np.iinfo(np.uint16).max else "<u4"
