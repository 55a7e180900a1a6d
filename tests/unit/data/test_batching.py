"""The order of batches: a function of seed and epoch; every row as often as its corpus weighs, in the budget (P3)."""

from collections import Counter
from collections.abc import Callable
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.data import batching as module
from calque.data.batching import BatchConfig, Bucketed, Order, Planned, Streams, static_sizes, waste
from calque.data.buckets import Size
from calque.data.pair_batch import pair_widths
from calque.data.store import Span, Store, Widths, store_of_pairs

KINDS = ("exact", "static")


def store(lengths, *, spans: tuple[Span, ...] | None = None) -> Store:
    pair_store = store_of_pairs([([5] * (source - 1), [6] * (target - 1)) for source, target in lengths])
    return Store(pair_store.columns, spans or pair_store.spans)


def bucketed(store: Store, *, seed: int, limit: int = 16, **config) -> Bucketed:
    return Bucketed(pair_widths(store), spans=store.spans, config=BatchConfig(static_shapes=limit, **config), seed=seed)


def one_axis(lengths, *, seed: int, **config) -> Bucketed:
    """Rows of a single column; widths and lengths are the same, as there are no marks."""
    widths = Widths(np.array(lengths, dtype=np.uint16))
    return Bucketed([widths], spans=[Span(0, len(lengths), 1.0)], config=BatchConfig(**config), seed=seed)


def random_store(size: int, *, seed: int = 0, longest: int = 30) -> Store:
    generator = np.random.default_rng(seed)
    source = generator.integers(2, longest, size)
    return store(zip(source, np.maximum(2, source + generator.integers(-3, 4, size)), strict=True))


def plain(batches) -> list[tuple[tuple[int, ...], tuple[int, tuple[int, ...]]]]:
    return [(tuple(batch.indices.tolist()), tuple(batch.size)) for batch in batches]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    monkeypatch.setattr(module, "WINDOW", 40)


lengths = st.lists(st.tuples(st.integers(2, 20), st.integers(2, 20)), min_size=1, max_size=150)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(lengths=lengths, seed=st.integers(0, 2**40), epoch=st.integers(0, 5), tokens=st.integers(40, 300))
def test_an_epoch_holds_every_pair_once_within_the_budget(kind, lengths, seed, epoch, tokens):
    order = bucketed(store(lengths), tokens=tokens, shapes=kind, seed=seed)
    indices_read: list[int] = []
    for indices, size in order.batches(epoch):
        assert 0 < len(indices) <= size.rows
        assert size.positions <= tokens
        source, target = size.widths
        assert all(lengths[index][0] <= source and lengths[index][1] <= target for index in indices)
        indices_read += indices.tolist()
    assert sorted(indices_read) == list(range(len(lengths)))


@settings(deadline=None)
@given(lengths=lengths, seed=st.integers(0, 9))
def test_exact_batches_are_as_wide_as_their_longest_pair(lengths, seed):
    for indices, size in bucketed(store(lengths), tokens=100, seed=seed).batches(0):
        longest = tuple(max(lengths[index][axis] for index in indices) for axis in (0, 1))
        assert size == (len(indices), longest)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(size=st.integers(1, 300), start=st.integers(0, 60), epoch=st.integers(0, 3))
def test_a_later_start_is_the_same_list_without_its_beginning(kind, size, start, epoch):
    pair_store = random_store(size)
    assert_start_law(lambda: bucketed(pair_store, seed=3, tokens=120, shapes=kind), start=start, epoch=epoch)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_epoch_change_the_order(kind):
    def of(seed: int, epoch: int) -> list[tuple[tuple[int, ...], tuple[int, tuple[int, ...]]]]:
        order = bucketed(random_store(200), tokens=200, shapes=kind, seed=seed)
        return plain(order.batches(epoch))

    assert of(1, 0) == of(1, 0)
    assert len({str(of(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_windows_mix_far_apart_pairs():
    """A batch of equal lengths draws from the whole corpus, not from neighbours."""
    order = bucketed(store([(5, 5)] * 400), tokens=100, seed=0)
    spread = [int(batch.indices.max() - batch.indices.min()) for batch in order.batches(0)]
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
    order = bucketed(store([(4, 4)] * sum(sizes), spans=spans), tokens=100, seed=1)
    counts = Counter(index for batch in order.batches(epoch) for index in batch.indices.tolist())
    assert counts == {index: span.weight for span in spans for index in range(span.start, span.stop)}


@pytest.mark.parametrize(("weight", "epochs"), [(0.5, 2), (0.25, 4), (1.5, 2), (0.1, 10), (1 / 3, 3)])
@pytest.mark.parametrize("size", [1, 7, 100, 640])
def test_shares_come_out_even_over_the_epochs(weight, epochs, size):
    spans = (Span(0, size, weight),)
    order = bucketed(store([(4, 4)] * size, spans=spans), tokens=100, seed=1)
    read = [[index for batch in order.batches(epoch) for index in batch.indices.tolist()] for epoch in range(epochs)]
    assert Counter(index for epoch in read for index in epoch) == dict.fromkeys(range(size), round(weight * epochs))
    if size == 640:
        assert all(abs(len(epoch) - weight * size) <= 8 * 2 for epoch in read)


def test_a_pair_beyond_the_budget_has_a_batch_to_itself():
    for kind in KINDS:
        order = bucketed(store([(3, 3), (90, 90), (3, 3)]), tokens=50, shapes=kind, seed=0)
        sizes = {tuple(sorted(batch.indices.tolist())): batch.size for batch in order.batches(0)}
        assert sizes[(1,)] == (1, (90, 90))


def test_an_empty_store_has_no_batches():
    for kind in KINDS:
        order = bucketed(store([]), shapes=kind, seed=0)
        assert list(order.batches(0)) == []
        assert waste(order, epoch=0) == 0


def test_waste_counts_what_is_not_there():
    order = bucketed(store([(4, 4), (2, 4)]), tokens=100, seed=0)
    assert waste(order, epoch=0) == pytest.approx(2 / 16)


def test_static_orders_use_few_sizes_and_carry_rests_over():
    order = bucketed(random_store(3000), tokens=400, shapes="static", seed=0, limit=6)
    batches = list(order.batches(0))
    assert {batch.size for batch in batches} <= set(order.sizes)
    assert len(order.sizes) <= 6
    assert sum(len(batch.indices) < batch.size.rows for batch in batches) <= len(order.sizes)


def test_planned_memory_does_not_grow(monkeypatch):
    """Reading the first batch of a long order builds one window only."""
    built: list[int] = []
    cut = Bucketed._cut

    def spy(self: Bucketed, indices: np.ndarray) -> list[Planned]:
        built.append(len(indices))
        return cut(self, indices)

    monkeypatch.setattr(Bucketed, "_cut", spy)
    next(bucketed(random_store(4000), tokens=400, seed=0).batches(0))
    assert built == [40]


def test_weights_count_in_the_choice_of_sizes():
    lengths = [(5, 5)] * 50 + [(20, 20)] * 50
    rare = (Span(0, 50, 100.0), Span(50, 100, 0.01))

    def chosen(pairs: Store, *, limit: int) -> tuple[Size, ...]:
        return static_sizes(pair_widths(pairs), spans=pairs.spans, budget=400, limit=limit)

    assert chosen(store(lengths, spans=rare), limit=1) == chosen(store(lengths), limit=1)
    assert len(chosen(store(lengths), limit=2)) == 2


widths = st.lists(st.integers(0, 40), min_size=1, max_size=200)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(lengths=widths, seed=st.integers(0, 2**40), epoch=st.integers(0, 5), tokens=st.integers(40, 300))
def test_one_axis_is_read_whole_within_the_budget(kind, lengths, seed, epoch, tokens):
    order = one_axis(lengths, seed=seed, tokens=tokens, shapes=kind)
    indices_read: list[int] = []
    for indices, size in order.batches(epoch):
        (width,) = size.widths
        assert 0 < len(indices) <= size.rows
        assert size.positions == size.rows * width <= tokens
        longest = max(lengths[index] for index in indices)
        assert longest == width if kind == "exact" else longest <= width
        indices_read += indices.tolist()
    assert sorted(indices_read) == list(range(len(lengths)))


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(lengths=widths, start=st.integers(0, 40), epoch=st.integers(0, 3))
def test_one_axis_from_a_later_start_on(kind, lengths, start, epoch):
    assert_start_law(lambda: one_axis(lengths, seed=3, tokens=60, shapes=kind), start=start, epoch=epoch)


@pytest.mark.parametrize("kind", KINDS)
def test_one_axis_pads_little(kind, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 4000)
    lengths = np.random.default_rng(1).geometric(0.1, 3000).clip(1, 60)
    assert waste(one_axis(lengths, seed=0, tokens=600, shapes=kind), epoch=0) < {"exact": 0.03, "static": 0.15}[kind]


@settings(deadline=None)
@given(length=st.integers(2, 400), rows=st.integers(1, 9), steps=st.integers(1, 50), jitter=st.booleans())
def test_streams_read_the_text_on_from_batch_to_batch(length, rows, steps, jitter):
    """Every row continues where it stopped in the batch before; concatenated, the rows are the text."""
    text = np.random.default_rng(length).integers(0, 10**6, length)
    streams = Streams(length, rows=rows, steps=steps, seed=1, jitter=jitter)
    inputs: list[list[int]] = [[] for _ in range(streams.rows)]
    outputs: list[list[int]] = [[] for _ in range(streams.rows)]
    for indices, size in streams.batches(0):
        assert len(indices) == size.rows == streams.rows
        (width,) = size.widths
        assert 0 < width <= (steps + 20 if jitter else steps)
        for row, index in enumerate(indices.tolist()):
            inputs[row] += text[index : index + width].tolist()
            outputs[row] += text[index + 1 : index + 1 + width].tolist()
    assert [len(row) for row in outputs] == [len(row) for row in inputs]  # there is something behind every token
    read = [*chain.from_iterable(inputs)]
    assert read == text[: len(read)].tolist()
    assert [*chain.from_iterable(outputs)] == text[1 : len(read) + 1].tolist()
    assert length - 1 - len(read) < streams.rows  # what makes no whole row


@settings(deadline=None)
@given(length=st.integers(2, 500), start=st.integers(0, 30), epoch=st.integers(0, 3), jitter=st.booleans())
def test_streams_from_a_later_start_on(length, start, epoch, jitter):
    assert_start_law(lambda: Streams(length, rows=3, steps=7, seed=5, jitter=jitter), start=start, epoch=epoch)


def test_jitter_is_a_function_of_seed_and_epoch():
    def cuts(seed: int, epoch: int, *, jitter: bool = True) -> list[int]:
        streams = Streams(20_000, rows=4, steps=35, seed=seed, jitter=jitter)
        return [size.widths[0] for _, size in streams.batches(epoch)]

    assert cuts(1, 0) == cuts(1, 0)
    assert len({str(cuts(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
    assert set(cuts(1, 0, jitter=False)[:-1]) == {35}
    drawn = [width for epoch in range(50) for width in cuts(3, epoch)[:-1]]
    assert (min(drawn), max(drawn)) >= (5, 40) and max(drawn) <= 35 + 20
    assert np.mean(drawn) == pytest.approx(0.95 * 35 + 0.05 * 35 / 2, abs=0.5)
    assert np.mean(np.array(drawn) < 35 - 3 * 5) == pytest.approx(0.05 * 0.69, abs=0.01)


def test_no_text_has_no_batches():
    for length in (0, 1):
        assert list(Streams(length, rows=3, steps=5, seed=0).batches(0)) == []


def assert_start_law(make: Callable[[], Order], *, start: int, epoch: int) -> None:
    """batches(epoch, start=k) is batches(epoch) without its first k, whatever was read before."""
    whole = plain(make().batches(epoch))
    again = make()
    list(islice(again.batches(1), 2))
    assert plain(again.batches(epoch, start=start)) == whole[start:]
