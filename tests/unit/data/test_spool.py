"""The spool gives back what was put into it: every text, every key, and which rows are held out."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.data.spool import SpoolBlock, pack_block, read_spool, unpack_block, unpack_column

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["\n", "a\nb", "", "\0", "\r"])
ROWS = st.lists(st.tuples(TEXT, TEXT, st.integers(0, 2**64 - 1)), max_size=8)


def block_of(rows: list[tuple[str, str, int]], *, role: str = "train") -> SpoolBlock:
    columns = [[row[0] for row in rows], [row[1] for row in rows]]
    return SpoolBlock(role, 3, columns, np.array([row[2] for row in rows], dtype=np.uint64))  # type: ignore[arg-type]


@given(st.lists(ROWS, max_size=4))
def test_blocks_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, blocks: list[list]) -> None:
    path: Path = tmp_path_factory.mktemp("spool") / "spool"
    path.write_bytes(b"".join(pack_block(block_of(rows)) for rows in blocks))
    for record, rows in zip(read_spool(path), blocks, strict=True):
        block, expected = unpack_block(record), block_of(rows)
        assert (block.role, block.corpus, block.rows) == ("train", 3, len(rows))
        assert [list(texts) for texts in block.columns] == expected.columns
        assert block.keys.tolist() == expected.keys.tolist()


@given(ROWS, st.sets(st.integers(0, 2**64 - 1), max_size=3), st.data())
def test_rows_whose_keys_are_chosen_are_held_out(
    rows: list[tuple[str, str, int]], others: set[int], data: st.DataObject
) -> None:
    chosen = data.draw(st.sets(st.sampled_from([row[2] for row in rows]))) if rows else set()
    held_out = np.array(sorted(chosen | others), dtype=np.uint64)
    record = pack_block(block_of(rows))[8:]
    expected = [row[2] in chosen | others for row in rows]
    assert unpack_block(record).is_held_out(held_out).tolist() == expected
    kept = [row[1] for row, is_held_out in zip(rows, expected, strict=True) if not is_held_out]
    assert unpack_column(record, column=1, held_out=held_out) == kept


def test_validation_corpora_are_all_held_out_and_nothing_is_learnt_from_them() -> None:
    record = pack_block(block_of([("a", "b", 1), ("c", "d", 2)], role="valid"))[8:]
    nothing = np.zeros(0, dtype=np.uint64)
    assert unpack_block(record).is_held_out(nothing).all()
    assert unpack_column(record, column=0, held_out=nothing) == []
