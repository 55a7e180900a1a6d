"""Batches: what a plan asks for, padded; made ahead in the same order."""

import threading
import time

import numpy as np
import pytest
import torch

from calque.data.batch import batches, collate, prefetch
from calque.data.batching import BatchConfig, Plan, Planned, Shard
from calque.data.buckets import Shape
from calque.data.store import store_of
from calque.text import BOS, EOS, PAD

PAIRS = [([5, 6, 7], [8]), ([9], [10, 11]), ([], [12]), ([13, 14], [15, 16, 17])]


def test_rows_are_padded_and_begun_and_ended():
    batch = collate(store_of(PAIRS), planned=Planned(np.array([3, 1]), Shape(2, 3, 4)))
    assert batch.source.values.tolist() == [[13, 14, EOS], [9, EOS, PAD]]
    assert batch.source.lengths.tolist() == [3, 2]
    assert batch.target_input.tolist() == [[BOS, 15, 16, 17], [BOS, 10, 11, PAD]]
    assert batch.target_output.tolist() == [[15, 16, 17, EOS], [10, 11, EOS, PAD]]
    assert batch.target_lengths.tolist() == [4, 3]
    assert batch.tokens == 7


def test_rows_that_fill_a_shape_up_weigh_nothing():
    batch = collate(store_of(PAIRS), planned=Planned(np.array([1]), Shape(3, 4, 5)))
    assert batch.source.values.tolist() == [[9, EOS, 0, 0], [EOS, 0, 0, 0], [EOS, 0, 0, 0]]
    assert batch.source.lengths.tolist() == [2, 1, 1]
    assert batch.target_input.tolist() == [[BOS, 10, 11, 0, 0], [BOS, 0, 0, 0, 0], [BOS, 0, 0, 0, 0]]
    assert batch.target_output.tolist() == [[10, 11, EOS, 0, 0], [PAD] * 5, [PAD] * 5]
    assert batch.target_lengths.tolist() == [3, 0, 0]
    assert batch.tokens == 3


def test_places_are_counted_with_padding_and_without():
    batch = collate(store_of(PAIRS), planned=Planned(np.array([3, 1]), Shape(3, 5, 4)))
    assert batch.positions == 3 * 5 + 3 * 4
    assert batch.filled == (3 + 2 + 1) + (4 + 3)  # a row that fills a shape up holds an end mark


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 9])
def test_parts_are_all_rows_and_know_what_they_are_parts_of(parts):
    batch = collate(store_of(PAIRS), planned=Planned(np.arange(4), Shape(4, 4, 4)))
    batch = batch._replace(guide=torch.rand(4, 4, 4), shared_tokens=99)
    found = batch.split(parts)
    assert len(found) == min(parts, 4)
    assert {len(part.target_lengths) for part in found} <= {4 // len(found), -(-4 // len(found))}
    assert {part.shared_tokens for part in found} == {99}
    assert [part.tokens for part in found] == [int((part.target_output != PAD).sum()) for part in found]
    for name in ("target_input", "target_output", "target_lengths", "guide"):
        assert torch.equal(torch.cat([getattr(part, name) for part in found]), getattr(batch, name))
    for name in ("values", "lengths"):
        assert torch.equal(torch.cat([getattr(part.source, name) for part in found]), getattr(batch.source, name))


@pytest.mark.parametrize("shapes", ["exact", "static"])
def test_every_pair_comes_back_out(shapes):
    generator = np.random.default_rng(0)
    pairs = [tuple(generator.integers(4, 99, generator.integers(1, 12)).tolist() for _ in range(2)) for _ in range(200)]
    store = store_of(pairs)
    found = []
    for batch in batches(store, plan=Plan(store, config=BatchConfig(tokens=120, shapes=shapes), seed=0), epoch=0):
        assert batch.target_output.ne(PAD).sum() == batch.tokens == batch.target_lengths.sum()
        for row in range(int((batch.target_lengths > 0).sum())):
            source = batch.source.values[row, : batch.source.lengths[row]].tolist()
            target = batch.target_output[row, : batch.target_lengths[row]].tolist()
            assert source.pop() == target.pop() == EOS
            assert batch.target_input[row, : len(target) + 1].tolist() == [BOS, *target]
            found.append((source, target))
    assert sorted(found) == sorted(pairs)


def test_batches_come_in_the_order_of_the_plan():
    store = store_of(PAIRS * 30)
    plan = Plan(store, config=BatchConfig(tokens=30), seed=4)
    expected = [collate(store, planned=planned) for planned in plan.batches(2, start=3)]
    for found, wanted in zip(batches(store, plan=plan, epoch=2, start=3, ahead=2), expected, strict=True):
        assert torch.equal(found.source.values, wanted.source.values)
        assert torch.equal(found.target_output, wanted.target_output)
    placed = batches(store, plan=plan, epoch=2, place=lambda batch: batch._replace(tokens=-1))
    assert {batch.tokens for batch in placed} == {-1}


def test_ranks_share_a_batch_and_know_its_tokens():
    store, planned = store_of(PAIRS), Planned(np.arange(4), Shape(4, 4, 4))
    parts = [collate(store, planned=planned, shard=Shard(rank, 3)) for rank in range(3)]
    whole = collate(store, planned=planned)
    assert {part.shared_tokens for part in parts} == {whole.tokens} == {sum(part.tokens for part in parts)}
    rows = [row for part in parts for row in part.target_output.tolist() if any(row)]
    assert sorted(rows) == sorted(whole.target_output.tolist())


def test_a_batch_moves_and_its_lengths_stay():
    batch = collate(store_of(PAIRS), planned=Planned(np.array([0]), Shape(1, 4, 2)))
    batch = batch._replace(guide=torch.zeros(1, 2, 4)).to(torch.device("meta"))
    moved = (batch.source.values, batch.target_input, batch.target_output, batch.guide)
    assert {tensor.device.type for tensor in moved} == {"meta"}
    assert {lengths.device.type for lengths in (batch.source.lengths, batch.target_lengths)} == {"cpu"}  # Padded's law
    assert batch.tokens == 2


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_workers_change_neither_batches_nor_their_order(workers):
    store = store_of(PAIRS * 30)
    plans = [Plan(store, config=BatchConfig(tokens=30, workers=count), seed=4) for count in (1, workers)]
    expected, found = ([*batches(store, plan=plan, epoch=2, start=1)] for plan in plans)
    assert len(found) == len(expected) > 20
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.source.values, other.source.values)
        assert torch.equal(one.target_input, other.target_input)
        assert torch.equal(one.target_output, other.target_output)
        assert one.tokens == other.tokens


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_order_is_kept_however_long_each_takes(workers):
    waits = np.random.default_rng(workers).uniform(0, 0.004, 60)

    def slow(number):
        time.sleep(waits[number])
        return number, threading.current_thread()

    made = [*prefetch(range(60), make=slow, workers=workers, ahead=5)]
    assert [number for number, _ in made] == [*range(60)]
    assert len({thread for _, thread in made}) == workers


def test_without_workers_everything_is_made_by_the_reader_when_it_asks():
    items = prefetch(range(9), make=lambda _: threading.current_thread(), workers=0, ahead=4)
    assert next(items) is threading.current_thread()
    made = []
    next(prefetch(range(9), make=made.append, workers=0, ahead=4))
    assert made == [0]


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_errors_of_the_plan_are_raised_to_the_reader_in_their_place(workers):
    def broken():
        yield "first"
        yield "second"
        raise ValueError("the third one")

    items = prefetch(broken(), make=str, workers=workers, ahead=2)
    assert [next(items), next(items)] == ["first", "second"]
    with pytest.raises(ValueError, match="the third one"):
        next(items)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_errors_of_the_making_are_raised_to_the_reader_in_their_place(workers):
    items = prefetch([4, 2, 0, 1], make=lambda number: 8 // number, workers=workers, ahead=4)
    assert [next(items), next(items)] == [2, 4]
    with pytest.raises(ZeroDivisionError):
        next(items)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_reader_that_stops_ends_the_threads(workers):
    before = threading.active_count()
    items = prefetch(iter(range(1000)), make=int, workers=workers, ahead=2)
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_than_asked_is_made_ahead(workers):
    made = []
    items = prefetch(range(100), make=made.append, workers=workers, ahead=3)
    next(items)
    threading.Event().wait(0.3)
    assert len(made) <= 1 + 3
    items.close()
