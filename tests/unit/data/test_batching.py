"""The plan: every pair as often as its corpus weighs, the same for the same seed and epoch, within the budget (P3)."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.data import batching as plan_module
from calque.data.batching import BatchConfig, Plan, Planned, static_shapes, waste
from calque.data.store import Span, Store, store_of

KINDS = ("exact", "static")


def store(lengths, *, spans: tuple[Span, ...] | None = None) -> Store:
    made = store_of([([5] * (source - 1), [6] * (target - 1)) for source, target in lengths])
    return Store(made.source, made.target, spans or made.spans)


def random_store(size: int, *, seed: int = 0, longest: int = 30) -> Store:
    generator = np.random.default_rng(seed)
    source = generator.integers(2, longest, size)
    return store(zip(source, np.maximum(2, source + generator.integers(-3, 4, size)), strict=True))


def plain(batches) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(tuple(batch.indices.tolist()), tuple(batch.shape)) for batch in batches]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(plan_module, "BLOCK", 8)
    monkeypatch.setattr(plan_module, "WINDOW", 40)


lengths = st.lists(st.tuples(st.integers(2, 20), st.integers(2, 20)), min_size=1, max_size=150)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(lengths=lengths, seed=st.integers(0, 2**40), epoch=st.integers(0, 5), tokens=st.integers(40, 300))
def test_an_epoch_holds_every_pair_once_within_the_budget(kind, lengths, seed, epoch, tokens):
    plan = Plan(store(lengths), config=BatchConfig(tokens=tokens, shapes=kind), seed=seed)
    seen: list[int] = []
    for indices, shape in plan.batches(epoch):
        assert 0 < len(indices) <= shape.rows
        assert shape.positions <= tokens
        assert all(lengths[index][0] <= shape.source and lengths[index][1] <= shape.target for index in indices)
        seen += indices.tolist()
    assert sorted(seen) == list(range(len(lengths)))


@settings(deadline=None)
@given(lengths=lengths, seed=st.integers(0, 9))
def test_exact_batches_are_as_wide_as_their_longest_pair(lengths, seed):
    for indices, shape in Plan(store(lengths), config=BatchConfig(tokens=100), seed=seed).batches(0):
        assert shape == (
            len(indices),
            max(lengths[index][0] for index in indices),
            max(lengths[index][1] for index in indices),
        )


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(size=st.integers(1, 300), start=st.integers(0, 60), epoch=st.integers(0, 3))
def test_a_later_start_is_the_same_list_without_its_beginning(kind, size, start, epoch):
    config = BatchConfig(tokens=120, shapes=kind)
    whole = plain(Plan(random_store(size), config=config, seed=3).batches(epoch))
    again = Plan(random_store(size), config=config, seed=3)
    list(islice(again.batches(1), 2))  # what was read before must not matter
    assert plain(again.batches(epoch, start=start)) == whole[start:]


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_epoch_change_the_order(kind):
    def of(seed: int, epoch: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        plan = Plan(random_store(200), config=BatchConfig(tokens=200, shapes=kind), seed=seed)
        return plain(plan.batches(epoch))

    assert of(1, 0) == of(1, 0)
    assert len({str(of(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_windows_mix_far_apart_pairs():
    """A batch of equal lengths draws from the whole corpus, not from neighbours."""
    plan = Plan(store([(5, 5)] * 400), config=BatchConfig(tokens=100), seed=0)
    spread = [int(batch.indices.max() - batch.indices.min()) for batch in plan.batches(0)]
    assert np.median(spread) > 100


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=3),
    weights=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    epoch=st.integers(0, 4),
)
def test_whole_weights_repeat_every_pair(sizes, weights, epoch):
    ends = np.cumsum(sizes)
    spans = tuple(Span(int(end - size), int(end), w) for size, end, w in zip(sizes, ends, weights, strict=False))
    plan = Plan(store([(4, 4)] * sum(sizes), spans=spans), config=BatchConfig(tokens=100), seed=1)
    counts = Counter(index for batch in plan.batches(epoch) for index in batch.indices.tolist())
    assert counts == {index: span.weight for span in spans for index in range(span.start, span.stop)}


@pytest.mark.parametrize(("weight", "epochs"), [(0.5, 2), (0.25, 4), (1.5, 2), (0.1, 10), (1 / 3, 3)])
@pytest.mark.parametrize("size", [1, 7, 100, 640])
def test_shares_come_out_even_over_the_epochs(weight, epochs, size):
    spans = (Span(0, size, weight),)
    plan = Plan(store([(4, 4)] * size, spans=spans), config=BatchConfig(tokens=100), seed=1)
    each = [[index for batch in plan.batches(epoch) for index in batch.indices.tolist()] for epoch in range(epochs)]
    assert Counter(index for epoch in each for index in epoch) == dict.fromkeys(range(size), round(weight * epochs))
    if size == 640:
        assert all(abs(len(epoch) - weight * size) <= 8 * 2 for epoch in each)


def test_a_pair_beyond_the_budget_has_a_batch_to_itself():
    for kind in KINDS:
        plan = Plan(store([(3, 3), (90, 90), (3, 3)]), config=BatchConfig(tokens=50, shapes=kind), seed=0)
        found = {tuple(sorted(batch.indices.tolist())): batch.shape for batch in plan.batches(0)}
        assert found[(1,)] == (1, 90, 90)


def test_an_empty_store_has_no_batches():
    for kind in KINDS:
        plan = Plan(store([]), config=BatchConfig(shapes=kind), seed=0)
        assert list(plan.batches(0)) == []
        assert waste(plan, epoch=0) == 0


def test_waste_counts_what_is_not_there():
    plan = Plan(store([(4, 4), (2, 4)]), config=BatchConfig(tokens=100), seed=0)
    assert waste(plan, epoch=0) == pytest.approx(2 / 16)


def test_static_plans_use_few_shapes_and_carry_rests_over():
    plan = Plan(random_store(3000), config=BatchConfig(tokens=400, shapes="static"), seed=0, limit=6)
    batches = list(plan.batches(0))
    assert {batch.shape for batch in batches} <= set(plan.shapes)
    assert len(plan.shapes) <= 6
    assert sum(len(batch.indices) < batch.shape.rows for batch in batches) <= len(plan.shapes)


def test_planned_memory_does_not_grow(monkeypatch):
    """Reading the first batch of a long plan builds one window only."""
    built: list[int] = []
    cut = Plan._cut

    def spy(self: Plan, indices: np.ndarray) -> list[Planned]:
        built.append(len(indices))
        return cut(self, indices)

    monkeypatch.setattr(Plan, "_cut", spy)
    next(Plan(random_store(4000), config=BatchConfig(tokens=400), seed=0).batches(0))
    assert built == [40]


def test_weights_count_in_the_choice_of_shapes():
    lengths = [(5, 5)] * 50 + [(20, 20)] * 50
    rare = (Span(0, 50, 100.0), Span(50, 100, 0.01))
    assert static_shapes(store(lengths, spans=rare), budget=400, limit=1) == static_shapes(
        store(lengths), budget=400, limit=1
    )
    assert len(static_shapes(store(lengths), budget=400, limit=2)) == 2
