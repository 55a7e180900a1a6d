"""Batches of sources: ids, end marks and padding."""

import pytest
import torch

from calque.objectives.decoding_step import pad_source
from calque.search.fixed_beam import usual_size
from calque.text import EOS, PAD


@pytest.mark.parametrize("rows", [[[5, 6, 7]], [[5], [], [6, 7]], [[], []]])
@pytest.mark.parametrize("size", [None, usual_size, lambda longest: longest + 2])
def test_rows_end_in_an_end_mark_and_are_padded(rows, size) -> None:  # type: ignore[no-untyped-def]
    padded = pad_source(rows, size=size)
    longest = max(map(len, rows)) + 1
    width = longest if size is None else size(longest)
    expected = [[*row, EOS, *[PAD] * (width - len(row) - 1)] for row in rows]
    assert padded.values.tolist() == expected and padded.values.dtype == torch.long
    assert padded.lengths.tolist() == [len(row) + 1 for row in rows]
