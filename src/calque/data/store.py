"""Pairs of id sequences on disk, memory-mapped: opening a store costs nothing, however long it is.

A store is a folder: for each side a flat file of ids (uint16 where the vocabulary fits, else uint32), where each
row starts in it, and how long each row is *with* the end-of-sentence piece that batching appends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.errors import FolderError
from calque.text import EOS, UNK

Array = NDArray[Any]

_SIDES = ("source", "target")
_PARTS = ("ids", "offsets", "lengths")


class Side(NamedTuple):
    """One language of a store: row i is `ids[offsets[i] : offsets[i] + lengths[i] - 1]`."""

    ids: Array  # without begin or end of sentence
    offsets: Array  # uint64
    lengths: Array  # with the end of sentence

    def row(self, index: int) -> Array:
        """The ids of row `index`, without begin or end of sentence."""
        start = int(self.offsets[index])
        return self.ids[start : start + int(self.lengths[index]) - 1]


class Span(NamedTuple):
    """The rows `start` to `stop` that came from one corpus, and how often an epoch reads them."""

    start: int
    stop: int
    weight: float


@dataclass(frozen=True, slots=True)
class Store:
    """Aligned rows of source and target ids."""

    source: Side
    target: Side
    spans: tuple[Span, ...]

    def __len__(self) -> int:
        return len(self.source.lengths)

    @property
    def source_lengths(self) -> Array:
        """The length of every source row, with its end of sentence."""
        return self.source.lengths

    @property
    def target_lengths(self) -> Array:
        """The length of every target row, with its end of sentence."""
        return self.target.lengths

    def pair(self, index: int) -> tuple[Array, Array]:
        """The source and target ids of one pair, without begin or end of sentence."""
        return self.source.row(index), self.target.row(index)


class Rows(NamedTuple):
    """A run of id sequences, flat, as it is written to a store."""

    ids: Array
    lengths: Array  # with the end of sentence


def pack(sequences: Sequence[Sequence[int]]) -> Rows:
    """The sequences as one flat array."""
    lengths = np.fromiter(map(len, sequences), dtype=np.uint32, count=len(sequences))
    ids = np.fromiter(chain.from_iterable(sequences), dtype=np.uint32, count=int(lengths.sum()))
    return Rows(ids, lengths + 1)


def store_of(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, weight: float = 1.0) -> Store:
    """A store in memory, of one corpus: for tests and small things."""
    source, target = (_side(pack([pair[side] for pair in pairs])) for side in (0, 1))
    return Store(source, target, (Span(0, len(pairs), weight),))


def target_counts(store: Store, *, size: int, block: int = 1 << 22) -> NDArray[np.float64]:
    """How often each of `size` ids is a target in an epoch, ends of sentence too; reads a block of ids at a time."""
    counts = np.zeros(size)
    side = store.target
    for start, stop, weight in store.spans:
        if start == stop:
            continue
        begin, end = int(side.offsets[start]), int(side.offsets[stop - 1]) + int(side.lengths[stop - 1]) - 1
        for at in range(begin, end, block):
            ids = side.ids[at : min(at + block, end)]
            counts += weight * np.bincount(np.where(ids < size, ids, UNK), minlength=size)
        counts[EOS] += weight * (stop - start)
    return counts


def length_counts(store: Store, *, longest: int = 200, block: int = 1 << 22) -> dict[str, list[int]]:
    """How many rows of each side have 0, 1, … `longest` or more pieces, without the end of sentence."""
    counts = {name: np.zeros(longest + 1, dtype=np.int64) for name in _SIDES}
    for name, side in zip(_SIDES, (store.source, store.target), strict=True):
        for start in range(0, len(side.lengths), block):
            pieces = np.minimum(side.lengths[start : start + block].astype(np.int64) - 1, longest)
            counts[name] += np.bincount(pieces, minlength=longest + 1)
    return {name: found.tolist() for name, found in counts.items()}


def open_store(folder: Path, *, spans: Sequence[Span]) -> Store:
    """The store in `folder`, memory-mapped."""
    source, target = (Side(*(_map(path) for path in _paths(folder, side))) for side in _SIDES)
    for side in (source, target):
        if not len(side.offsets) == len(side.lengths) == len(source.lengths):
            raise FolderError(f"{folder}: the parts of the store have different lengths; remove it and prepare again")
    return Store(source, target, tuple(spans))


class StoreWriter:
    """Appends rows to a new store; what it writes depends on the rows only, not on how they were grouped."""

    def __init__(self, folder: Path, *, sizes: tuple[int, int], longest: int) -> None:
        folder.mkdir()
        self.rows = 0
        lengths = _smallest(longest + 1)
        self._sides = tuple(
            _SideWriter(_paths(folder, side), ids=_smallest(size - 1), lengths=lengths)
            for side, size in zip(_SIDES, sizes, strict=True)
        )

    def append(self, source: Rows, *, target: Rows) -> None:
        """Adds rows at the end."""
        assert len(source.lengths) == len(target.lengths)
        for side, rows in zip(self._sides, (source, target), strict=True):
            side.append(rows)
        self.rows += len(source.lengths)

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for side in self._sides:
            side.close()


class _SideWriter:
    def __init__(self, paths: Sequence[Path], *, ids: np.dtype[Any], lengths: np.dtype[Any]) -> None:
        kinds = (ids, np.dtype("<u8"), lengths)
        self._files = [_start(path, kind) for path, kind in zip(paths, kinds, strict=True)]
        self._kinds = kinds
        self._next = 0

    def append(self, rows: Rows) -> None:
        without_end = rows.lengths.astype(np.uint64) - 1
        offsets = self._next + np.cumsum(without_end) - without_end
        self._next += len(rows.ids)
        for file, part, kind in zip(self._files, (rows.ids, offsets, rows.lengths), self._kinds, strict=True):
            file.write(part.astype(kind).tobytes())

    def close(self) -> None:
        for file in self._files:
            file.close()


_MAGIC: dict[np.dtype[Any], bytes] = {
    np.dtype("<u2"): b"calque-u2\n",
    np.dtype("<u4"): b"calque-u4\n",
    np.dtype("<u8"): b"calque-u8\n",
}
_HEADER = 16  # bytes, so that the values behind it are aligned


def _start(path: Path, kind: np.dtype[Any]) -> BinaryIO:
    file = path.open("wb")
    file.write(_MAGIC[kind].ljust(_HEADER, b"\0"))
    return file


def _map(path: Path) -> Array:
    with path.open("rb") as file:
        header = file.read(_HEADER)
    kinds = [kind for kind, magic in _MAGIC.items() if magic.ljust(_HEADER, b"\0") == header]
    size = path.stat().st_size - _HEADER
    if not kinds or size % kinds[0].itemsize:
        raise FolderError(f"{path}: not a part of a Calque store, or cut short; remove the store and prepare again")
    if size == 0:  # nothing cannot be mapped
        return np.zeros(0, dtype=kinds[0])
    return np.memmap(path, dtype=kinds[0], mode="r", offset=_HEADER)


def _paths(folder: Path, side: str) -> list[Path]:
    return [folder / f"{side}.{part}" for part in _PARTS]


def _smallest(largest: int) -> np.dtype[Any]:
    return np.dtype("<u2") if largest <= np.iinfo(np.uint16).max else np.dtype("<u4")


def _side(rows: Rows) -> Side:
    without_end = rows.lengths.astype(np.uint64) - 1
    return Side(rows.ids, np.cumsum(without_end) - without_end, rows.lengths)
