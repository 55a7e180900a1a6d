"""Which training pairs are held out for validation: few, always the same, equal sources together.

A source's hash decides: the pairs with the smallest hashes are held out. One pass, bounded memory.
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
    joined = b"".join([hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(joined, dtype="<u8")


class Holdout:
    """Collects the smallest distinct hashes of a stream and how often each came."""

    def __init__(self, config: ValidationConfig) -> None:
        self._config = config
        self._hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self._counts: NDArray[Any] = np.zeros(0, dtype=np.int64)
        self._seen = 0

    def add(self, hashes: Hashes) -> None:
        """Looks at some more pairs."""
        self._seen += len(hashes)
        room = self._config.maximum
        if len(self._hashes) == room:  # a hash above all kept ones can never come in again
            hashes = hashes[hashes <= self._hashes[-1]]
        if len(hashes):
            weights = np.concatenate([self._counts, np.ones(len(hashes), dtype=np.int64)])
            distinct, places = np.unique(np.concatenate([self._hashes, hashes]), return_inverse=True)
            counts = np.bincount(places, weights=weights).astype(np.int64)
            self._hashes, self._counts = distinct[:room], counts[:room]

    def chosen(self) -> tuple[Hashes, int]:
        """The hashes of the sources to hold out, sorted, and how many pairs they have."""
        config = self._config
        wanted = min(max(config.minimum, round(config.share * self._seen)), config.maximum, self._seen // 2)
        taken, total = [], 0
        for place, count in enumerate(self._counts):
            if total + count <= wanted:  # a source too frequent to be held out stays in training
                taken.append(place)
                total += int(count)
        if not taken:
            raise DataError(
                f"{self._seen} usable pairs with {len(self._hashes)} different sources: too few to hold some out for "
                "validation; name a validation corpus in data.valid"
            )
        return self._hashes[taken], total


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
