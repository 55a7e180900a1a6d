"""The store: columns come back from disk as they were, and ids are counted as often as an epoch reads them."""

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calque.data.store import (
    ColumnKind,
    Rows,
    Span,
    Store,
    StoreWriter,
    id_counts,
    length_counts,
    open_store,
    pack,
    pack_frames,
    store_in_memory,
    store_of_pairs,
)
from calque.errors import FolderError
from calque.text import EOS, UNK

PAIRS = [([4], [5, 5, 6]), ([4], []), ([4], [9]), ([4], [5, 4]), ([4], [6, 6, 6, 6])]

target_counts = partial(id_counts, column="target", end=EOS, unknown=UNK)


def counted(pairs: list[tuple[list[int], list[int]]], weights: list[float], *, end: bool = True) -> list[float]:
    counts: Counter[int] = Counter()
    for (_, target), weight in zip(pairs, weights, strict=True):
        for piece in (*target, *([EOS] if end else [])):
            counts[piece] += weight  # type: ignore[assignment]
    return [counts[piece] for piece in range(11)]


def on_disk(folder: Path, *, columns: dict[str, Rows], kinds: dict[str, ColumnKind], cuts: list[int]) -> Store:
    """The columns, appended up to each cut and then read again."""
    count = len(next(iter(columns.values())).lengths)
    with StoreWriter(folder, columns=kinds, longest=1000) as writer:
        for start, stop in zip([0, *cuts], [*cuts, count], strict=True):
            writer.append({name: _part(rows, start, stop) for name, rows in columns.items()})
        assert writer.rows == count
    return open_store(folder, spans=[Span(0, count, 1.0)])


def _part(rows: Rows, start: int, stop: int) -> Rows:
    ends = np.cumsum([0, *rows.lengths])
    return Rows(rows.values[ends[start] : ends[stop]], rows.lengths[start:stop])


@pytest.mark.parametrize("block", [1, 3, 1 << 22])
def test_targets_are_counted_with_the_end_of_each_row(block: int) -> None:
    counts = target_counts(store_of_pairs(PAIRS), size=11, block=block)
    assert counts.dtype == np.float64
    assert counts.tolist() == counted(PAIRS, [1.0] * 5)


def test_without_an_end_mark_values_alone_are_counted_and_large_ids_are_unknown() -> None:
    counts = id_counts(store_of_pairs(PAIRS), column="target", size=11, end=None, unknown=UNK)
    assert counts.tolist() == counted(PAIRS, [1.0] * 5, end=False)
    few = target_counts(store_of_pairs(PAIRS), size=6)
    whole = counted(PAIRS, [1.0] * 5)
    assert few.tolist() == [*whole[:UNK], whole[UNK] + sum(whole[6:]), *whole[UNK + 1 : 6]]


@pytest.mark.parametrize("block", [1, 2, 100])
def test_a_corpus_counts_as_often_as_it_is_read(block: int, tmp_path: Path) -> None:
    """On disk, with a corpus of which nothing is left."""
    columns = {name: pack([pair[side] for pair in PAIRS]) for side, name in enumerate(("source", "target"))}
    kinds = dict.fromkeys(columns, ColumnKind("<u2"))
    store = on_disk(tmp_path / "store", columns=columns, kinds=kinds, cuts=[2])
    spans = (Span(0, 2, 3.0), Span(2, 2, 7.0), Span(2, 4, 0.5), Span(4, 5, 0.0))
    counts = target_counts(Store(store.columns, spans), size=11, block=block)
    assert counts.tolist() == counted(PAIRS, [3.0, 3.0, 0.5, 0.5, 0.0])


def test_nothing_counts_nothing() -> None:
    assert target_counts(store_of_pairs([]), size=5).tolist() == [0.0] * 5
    empty: Store = store_of_pairs([([], [])])
    assert target_counts(empty, size=5).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


frames = st.lists(
    st.integers(0, 5).flatmap(
        lambda length: arrays.arrays(np.float32, (length, 3), elements=st.floats(width=32, allow_nan=False))
    ),
    min_size=1,
    max_size=6,
)


@given(rows=frames, data=st.data())
def test_frames_and_labels_come_back_from_disk_however_they_were_grouped(tmp_path_factory, rows, data) -> None:
    labels = [[row] * (row % 3) for row in range(len(rows))]
    columns = {"frames": pack_frames(rows), "labels": pack(labels)}
    kinds = {"frames": ColumnKind("<f4", (3,)), "labels": ColumnKind("<u1")}
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    folder = tmp_path_factory.mktemp("frames")
    store = on_disk(folder / "store", columns=columns, kinds=kinds, cuts=cuts)
    assert (len(store), set(store.columns)) == (len(rows), {"frames", "labels"})
    assert "frames" in store and "links" not in store
    assert store["frames"].values.dtype == np.float32 and store["labels"].values.dtype == np.uint8
    for index, row in enumerate(rows):
        assert store["frames"].row(index).tobytes() == row.tobytes()  # the same bits, -0.0 too
        assert store["frames"].row(index).shape == row.shape
        assert store["labels"].row(index).tolist() == labels[index]
    files = {path.name: path.read_bytes() for path in (folder / "store").iterdir()}
    on_disk(folder / "other", columns=columns, kinds=kinds, cuts=[])
    assert files == {path.name: path.read_bytes() for path in (folder / "other").iterdir()}


def test_values_on_disk_are_mapped_not_read(tmp_path: Path) -> None:
    rows = pack_frames([np.ones((4, 80), dtype=np.float32)])
    store = on_disk(tmp_path / "s", columns={"frames": rows}, kinds={"frames": ColumnKind("<f4", (80,))}, cuts=[])
    assert isinstance(store["frames"].values, np.memmap)
    assert store["frames"].values.shape == (4, 80)


@given(sequences=st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=1, max_size=8), data=st.data())
def test_rows_are_gathered_in_the_order_that_is_asked_for(sequences: list[list[int]], data) -> None:
    column = store_in_memory({"items": pack(sequences)})["items"]
    indices = data.draw(st.lists(st.integers(0, len(sequences) - 1), max_size=9))
    values, lengths = column.gather(np.array(indices, dtype=np.int64))
    assert values.tolist() == [item for index in indices for item in sequences[index]]
    assert lengths.tolist() == [len(sequences[index]) for index in indices]


def test_lengths_are_counted_by_column_and_long_ones_together() -> None:
    store = store_of_pairs(PAIRS)
    assert length_counts(store, longest=3, block=2) == {"source": [0, 5, 0, 0], "target": [1, 1, 1, 2]}


@pytest.mark.parametrize("part", ["values", "offsets", "lengths"])
def test_a_part_that_is_cut_short_or_foreign_is_named(part: str, tmp_path: Path) -> None:
    columns = {"frames": pack_frames([np.ones((2, 3), dtype=np.float32)])}
    on_disk(tmp_path / "s", columns=columns, kinds={"frames": ColumnKind("<f4", (3,))}, cuts=[])
    path = tmp_path / "s" / f"frames.{part}"
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:10], b"", b"x" * len(whole), whole.replace(b"calque-", b"calque-x")):
        path.write_bytes(content)
        with pytest.raises(FolderError, match=rf"frames\.{part}: this is not a file of a Calque store"):
            open_store(tmp_path / "s", spans=[])


def test_columns_of_different_length_and_no_columns_are_refused(tmp_path: Path) -> None:
    columns = {"source": pack([[1], [2]]), "target": pack([[3], [4]])}
    on_disk(tmp_path / "s", columns=columns, kinds=dict.fromkeys(columns, ColumnKind()), cuts=[])
    on_disk(tmp_path / "t", columns={"source": pack([[1]])}, kinds={"source": ColumnKind()}, cuts=[])
    for part in ("values", "offsets", "lengths"):
        (tmp_path / "s" / f"source.{part}").write_bytes((tmp_path / "t" / f"source.{part}").read_bytes())
    with pytest.raises(FolderError, match="columns of the store have different numbers of rows"):
        open_store(tmp_path / "s", spans=[])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match="the store contains no columns"):
        open_store(tmp_path / "empty", spans=[])
