"""Batches of labelled words: parts, ranks and static shapes hold the same rows, each once."""

import numpy as np
import pytest
import torch

from calque.data.batching import WHOLE, Planned, Shard
from calque.data.buckets import Size
from calque.data.store import pack, store_in_memory
from calque.data.tag_batch import TagBatch, collate_tags

WORDS = [[5, 6, 7], [8], [9, 5]]
SPELLED = [[[4], [5, 6], [4, 4, 7]], [[6, 7]], [[4], [5]]]
STORE = store_in_memory(
    {
        "words": pack(WORDS),
        "labels": pack([[1, 0, 2], [1], [2, 2]]),
        "pos": pack([[4, 5, 4], [6], [5, 5]]),
        "characters": pack([[id for word in row for id in word] for row in SPELLED]),
        "word_lengths": pack([[len(word) for word in row] for row in SPELLED]),
    }
)


def batch(rows: int = 3, *, shard: Shard = WHOLE) -> TagBatch:
    return collate_tags(STORE, Planned(np.arange(3), Size(rows, (3,))), columns=["pos"], shard=shard)


def sentences(batch: TagBatch) -> list[object]:
    """What a batch holds, without padding."""
    assert batch.characters is not None and batch.word_lengths is not None
    return [
        (
            batch.words[row, :length].tolist(),
            batch.labels[row, :length].tolist(),
            batch.columns[0][row, :length].tolist(),
            [
                batch.characters[row, at, : int(batch.word_lengths[row, at])].tolist()
                for at in range(int(batch.lengths[row]))
            ],
        )
        for row, length in enumerate(batch.lengths.tolist())
    ]


EXPECTED = [
    ([5, 6, 7], [1, 0, 2], [4, 5, 4], SPELLED[0]),
    ([8], [1], [6], SPELLED[1]),
    ([9, 5], [2, 2], [5, 5], SPELLED[2]),
]


def test_a_batch_holds_its_rows() -> None:
    whole = batch()
    assert sentences(whole) == EXPECTED
    assert (whole.rows, whole.weight, whole.shared_weight, whole.positions, whole.filled) == (3, 6, 6, 9, 6)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_are_the_same_rows(parts: int) -> None:
    cut = batch().split(parts)
    assert [row for part in cut for row in sentences(part)] == EXPECTED
    assert sum(part.weight for part in cut) == 6 and {part.shared_weight for part in cut} == {6}


def test_ranks_share_the_rows_and_know_the_weight_of_all() -> None:
    ranks = [batch(shard=Shard(rank, 2)) for rank in range(2)]
    assert [row for row in sentences(ranks[0]) + sentences(ranks[1]) if row[0]] == [
        EXPECTED[0],
        EXPECTED[2],
        EXPECTED[1],
    ]
    assert [rank.weight for rank in ranks] == [5, 1] and {rank.shared_weight for rank in ranks} == {6}
    assert len({rank.words.shape for rank in ranks}) == 1


def test_rows_that_fill_a_shape_have_no_words() -> None:
    filled = batch(rows=5)
    assert filled.lengths.tolist() == [3, 1, 2, 0, 0] and filled.weight == 6 and filled.words.shape == (5, 3)


def test_lengths_stay_on_the_host_and_everything_else_moves() -> None:
    moved = batch().to(torch.device("meta"))
    assert moved.lengths.device.type == "cpu" and moved.word_lengths.device.type == "cpu"
    tensors = (moved.words, moved.labels, moved.characters, *moved.columns)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
