"""Which training pairs are held out for validation: few, always the same, equal sources together.

A source's hash decides: the pairs with the smallest hashes are held out. One pass, bounded memory.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import ValidationConfig
from calque.data.hashes import Hashes
from calque.errors import DataError


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
