"""Texts as 64-bit hashes, and sets of those in a file: sorted and compared there, so memory does not grow with them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_CHUNK = 1 << 18  # hashes


def text_hashes(texts: Sequence[str]) -> Hashes:
    """A stable 64-bit hash of each text."""
    joined = b"".join([hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(joined, dtype="<u8")


class HashFile:
    """Hashes appended to a file; the first question sorts them, in place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._sorted: Hashes | None = None

    def add(self, hashes: Hashes) -> None:
        """Appends some."""
        self._file.write(hashes.astype("<u8").tobytes())

    def duplicates(self) -> int:
        """How many hashes have come before."""
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
        """How many of these hashes are also in the other file."""
        mine, theirs = self._ordered(), other._ordered()
        if not len(theirs):
            return 0
        found = 0
        for start in range(0, len(mine), _CHUNK):
            part = mine[start : start + _CHUNK]
            places = np.minimum(np.searchsorted(theirs, part), len(theirs) - 1)
            found += int((theirs[places] == part).sum())
        return found

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
