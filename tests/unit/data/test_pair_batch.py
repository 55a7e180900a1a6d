"""Batches of pairs: what an order asks for, padded; all pairs come back out, whoever makes them and in which parts."""

import numpy as np
import pytest
import torch

from calque.data.batch import prefetch
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, collate_pairs, pair_widths
from calque.data.store import Store, store_of_pairs
from calque.text import BOS, EOS, PAD

PAIRS = [([5, 6, 7], [8]), ([9], [10, 11]), ([], [12]), ([13, 14], [15, 16, 17])]


def bucketed(store: Store, *, seed: int = 0, **config) -> Bucketed:
    return Bucketed(pair_widths(store), spans=store.spans, config=BatchConfig(**config), seed=seed)


def made_ahead(store: Store, order: Bucketed, *, epoch: int, start: int = 0, workers: int = 1) -> list[PairBatch]:
    """As the training loop reads them."""
    planned = order.batches(epoch, start=start)
    return [*prefetch(planned, make=lambda plan: collate_pairs(store, planned=plan), workers=workers, ahead=2)]


def test_rows_are_padded_and_begun_and_ended():
    batch = collate_pairs(store_of_pairs(PAIRS), planned=Planned(np.array([3, 1]), Size(2, (3, 4))))
    assert batch.source.values.tolist() == [[13, 14, EOS], [9, EOS, PAD]]
    assert batch.source.lengths.tolist() == [3, 2]
    assert batch.target_input.tolist() == [[BOS, 15, 16, 17], [BOS, 10, 11, PAD]]
    assert batch.target_output.tolist() == [[15, 16, 17, EOS], [10, 11, EOS, PAD]]
    assert batch.target_lengths.tolist() == [4, 3]
    assert batch.weight == 7


def test_rows_that_fill_a_shape_up_weigh_nothing():
    batch = collate_pairs(store_of_pairs(PAIRS), planned=Planned(np.array([1]), Size(3, (4, 5))))
    assert batch.source.values.tolist() == [[9, EOS, 0, 0], [EOS, 0, 0, 0], [EOS, 0, 0, 0]]
    assert batch.source.lengths.tolist() == [2, 1, 1]
    assert batch.target_input.tolist() == [[BOS, 10, 11, 0, 0], [BOS, 0, 0, 0, 0], [BOS, 0, 0, 0, 0]]
    assert batch.target_output.tolist() == [[10, 11, EOS, 0, 0], [PAD] * 5, [PAD] * 5]
    assert batch.target_lengths.tolist() == [3, 0, 0]
    assert batch.weight == 3
    assert batch.rows == 3


def test_positions_are_counted_with_padding_and_without():
    batch = collate_pairs(store_of_pairs(PAIRS), planned=Planned(np.array([3, 1]), Size(3, (5, 4))))
    assert batch.positions == 3 * 5 + 3 * 4
    assert batch.filled == (3 + 2 + 1) + (4 + 3)  # a row that fills a shape up holds an end mark


def test_widths_count_the_marks_of_both_sides():
    source, target = pair_widths(store_of_pairs(PAIRS))
    assert source[:].tolist() == [4, 2, 1, 3]
    assert target[np.array([3, 0])].tolist() == [4, 2]
    assert (source.total(), target.total()) == (10, 11)


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 9])
def test_parts_are_all_rows_and_know_what_they_are_parts_of(parts):
    batch = collate_pairs(store_of_pairs(PAIRS), planned=Planned(np.arange(4), Size(4, (4, 4))))
    batch = batch._replace(guide=torch.rand(4, 4, 4), shared_weight=99)
    split = batch.split(parts)
    assert len(split) == min(parts, 4)
    assert {part.rows for part in split} <= {4 // len(split), -(-4 // len(split))}
    assert {part.shared_weight for part in split} == {99}
    assert [part.weight for part in split] == [int((part.target_output != PAD).sum()) for part in split]
    for name in ("target_input", "target_output", "target_lengths", "guide"):
        assert torch.equal(torch.cat([getattr(part, name) for part in split]), getattr(batch, name))
    for name in ("values", "lengths"):
        assert torch.equal(torch.cat([getattr(part.source, name) for part in split]), getattr(batch.source, name))


@pytest.mark.parametrize("shapes", ["exact", "static"])
def test_every_pair_comes_back_out(shapes):
    generator = np.random.default_rng(0)
    pairs = [tuple(generator.integers(4, 99, generator.integers(1, 12)).tolist() for _ in range(2)) for _ in range(200)]
    store = store_of_pairs(pairs)
    read = []
    for batch in made_ahead(store, bucketed(store, tokens=120, shapes=shapes), epoch=0):
        assert batch.target_output.ne(PAD).sum() == batch.weight == batch.target_lengths.sum()
        for row in range(int((batch.target_lengths > 0).sum())):
            source = batch.source.values[row, : batch.source.lengths[row]].tolist()
            target = batch.target_output[row, : batch.target_lengths[row]].tolist()
            assert source.pop() == target.pop() == EOS
            assert batch.target_input[row, : len(target) + 1].tolist() == [BOS, *target]
            read.append((source, target))
    assert sorted(read) == sorted(pairs)


def test_ranks_share_a_batch_and_know_its_weight():
    store, planned = store_of_pairs(PAIRS), Planned(np.arange(4), Size(4, (4, 4)))
    parts = [collate_pairs(store, planned=planned, shard=Shard(rank, 3)) for rank in range(3)]
    whole = collate_pairs(store, planned=planned)
    assert {part.shared_weight for part in parts} == {whole.weight} == {sum(part.weight for part in parts)}
    assert len({part.target_input.shape for part in parts}) == 1
    rows = [row for part in parts for row in part.target_output.tolist() if any(row)]
    assert sorted(rows) == sorted(whole.target_output.tolist())


def test_a_batch_moves_and_its_lengths_stay():
    batch = collate_pairs(store_of_pairs(PAIRS), planned=Planned(np.array([0]), Size(1, (4, 2))))
    batch = batch._replace(guide=torch.zeros(1, 2, 4)).to(torch.device("meta"))
    moved = (batch.source.values, batch.target_input, batch.target_output, batch.guide)
    assert {tensor.device.type for tensor in moved} == {"meta"}
    assert {lengths.device.type for lengths in (batch.source.lengths, batch.target_lengths)} == {"cpu"}  # Padded's law
    assert batch.weight == 2


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_workers_change_neither_batches_nor_their_order(workers):
    store = store_of_pairs(PAIRS * 40)
    order = bucketed(store, tokens=30, seed=4)
    expected = [collate_pairs(store, planned=planned) for planned in order.batches(2, start=3)]
    batches = made_ahead(store, order, epoch=2, start=3, workers=workers)
    assert len(batches) == len(expected) > 20
    for batch, expected_batch in zip(batches, expected, strict=True):
        assert torch.equal(batch.source.values, expected_batch.source.values)
        assert torch.equal(batch.target_input, expected_batch.target_input)
        assert torch.equal(batch.target_output, expected_batch.target_output)
        assert batch.weight == expected_batch.weight
