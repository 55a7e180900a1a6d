"""The store: how often each id is a target."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from calque.data.store import Span, Store, StoreWriter, open_store, pack, store_of, target_counts
from calque.text import EOS

ROWS = [([4], [5, 5, 6]), ([4], []), ([4], [9]), ([4], [5, 4]), ([4], [6, 6, 6, 6])]


def counted(rows: list[tuple[list[int], list[int]]], weights: list[float]) -> list[float]:
    counts: Counter[int] = Counter()
    for (_, target), weight in zip(rows, weights, strict=True):
        for piece in (*target, EOS):
            counts[piece] += weight  # type: ignore[assignment]
    return [counts[piece] for piece in range(11)]


@pytest.mark.parametrize("block", [1, 3, 1 << 22])
def test_targets_are_counted_with_the_end_of_each_row(block: int) -> None:
    found = target_counts(store_of(ROWS), size=11, block=block)
    assert found.dtype == np.float64
    assert found.tolist() == counted(ROWS, [1.0] * 5)


@pytest.mark.parametrize("block", [1, 2, 100])
def test_a_corpus_counts_as_often_as_it_is_read(block: int, tmp_path: Path) -> None:
    """On disk, with a corpus of which nothing is left."""
    with StoreWriter(tmp_path / "store", sizes=(11, 11), longest=9) as writer:
        for start, stop in ((0, 2), (2, 5)):
            source, target = (pack([row[side] for row in ROWS[start:stop]]) for side in (0, 1))
            writer.append(source, target=target)
    spans = (Span(0, 2, 3.0), Span(2, 2, 7.0), Span(2, 4, 0.5), Span(4, 5, 0.0))
    found = target_counts(open_store(tmp_path / "store", spans=spans), size=11, block=block)
    assert found.tolist() == counted(ROWS, [3.0, 3.0, 0.5, 0.5, 0.0])


def test_nothing_counts_nothing() -> None:
    assert target_counts(store_of([]), size=5).tolist() == [0.0] * 5
    empty: Store = store_of([([], [])])
    assert target_counts(empty, size=5).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
