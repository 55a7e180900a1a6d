"""The choice of training rows to hold out for validation: always the same rows, with equal sources kept together.

Every row has a key, and the rows with the smallest keys are held out. Usually, the key is a hash of the row's first
column. In running text, keys decrease from row to row, so that the end of the text is held out. The choice takes one
pass over the rows and bounded memory.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import ValidationConfig
from calque.errors import DataError

Hashes = NDArray[np.uint64]

_CHUNK = 1 << 18  # hashes


def text_hashes(texts: Sequence[str]) -> Hashes:
    """A stable 64-bit hash of each text."""
    blake2b = hashlib.blake2b
    joined = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(joined, dtype="<u8")


def position_keys(lines: Sequence[int], *, corpus: int) -> Hashes:
    """A key for each row of running text, from its line and the number of its corpus. Later rows have smaller keys."""
    last = np.iinfo(np.uint64).max
    return last - ((np.uint64(corpus) << np.uint64(40)) + np.array(lines, dtype=np.uint64))


class Holdout:
    """Selects the training rows to hold out: collects the smallest distinct keys, and counts the rows with each key."""

    def __init__(self, config: ValidationConfig, *, unit: str = "pairs", first: str = "source") -> None:
        self._config = config
        self._unit, self._first = unit, first  # what rows are called, and their first column
        self._hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self._counts: NDArray[Any] = np.zeros(0, dtype=np.int64)
        self._rows = 0

    def add(self, hashes: Hashes) -> None:
        """Adds the keys of further rows: hashes of their first column, or `position_keys`."""
        self._rows += len(hashes)
        capacity = self._config.maximum
        if len(self._hashes) == capacity:  # a hash above all collected ones can never be among the smallest
            hashes = hashes[hashes <= self._hashes[-1]]
        if len(hashes):
            weights = np.concatenate([self._counts, np.ones(len(hashes), dtype=np.int64)])
            distinct, inverse = np.unique(np.concatenate([self._hashes, hashes]), return_inverse=True)
            counts = np.bincount(inverse, weights=weights).astype(np.int64)
            self._hashes, self._counts = distinct[:capacity], counts[:capacity]

    def chosen(self) -> tuple[Hashes, int]:
        """The sorted keys of the rows to hold out, and the number of those rows."""
        config = self._config
        size = min(max(config.minimum, round(config.share * self._rows)), config.maximum, self._rows // 2)
        indices, total = [], 0
        for index, count in enumerate(self._counts):
            if total + count <= size:  # a text too frequent to be held out stays in training
                indices.append(index)
                total += int(count)
        if not indices:
            raise DataError(
                f"{self._rows} usable {self._unit} with {len(self._hashes)} distinct values of {self._first}: too few "
                "to hold some out for validation; set a validation corpus in data.valid"
            )
        return self._hashes[indices], total


class HashFile:
    """A file of hashes that can be queried for duplicates and overlap; the first query sorts it in place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._sorted: Hashes | None = None

    def add(self, hashes: Hashes) -> None:
        """Appends hashes to the file."""
        self._file.write(hashes.astype("<u8").tobytes())

    def duplicates(self) -> int:
        """The number of hashes that repeat an earlier one."""
        ordered = self._ordered()
        return sum(
            int(
                (
                    ordered[start + 1 : start + _CHUNK + 1]
                    == ordered[start : start + _CHUNK][: len(ordered) - start - 1]
                ).sum()
            )
            for start in range(0, len(ordered), _CHUNK)
        )

    def within(self, other: "HashFile") -> int:
        """The number of these hashes that are also in the other file."""
        own_hashes, other_hashes = self._ordered(), other._ordered()
        if not len(other_hashes):
            return 0
        matches = 0
        for start in range(0, len(own_hashes), _CHUNK):
            part = own_hashes[start : start + _CHUNK]
            positions = np.minimum(np.searchsorted(other_hashes, part), len(other_hashes) - 1)
            matches += int((other_hashes[positions] == part).sum())
        return matches

    def __len__(self) -> int:
        return len(self._ordered())

    def _ordered(self) -> Hashes:
        if self._sorted is None:
            self._file.close()
            if self._path.stat().st_size == 0:
                self._sorted = np.zeros(0, dtype=np.uint64)
            else:
                self._sorted = np.memmap(self._path, dtype="<u8", mode="r+")
                self._sorted.sort()
        return self._sorted
