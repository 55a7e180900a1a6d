"""The plan of an epoch's batches: a pure function of seed and epoch, made as it is read and never held whole.

Blocks of neighbouring pairs are shuffled; the pairs of a window of blocks are sorted by length and cut into
batches; the window's batches are shuffled. Nothing depends on who reads the plan, or from where on.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from calque.config import Config
from calque.data.buckets import Histogram, Shape, boundaries, find_shapes
from calque.data.store import Span, Store

Array = NDArray[Any]

BLOCK = 1024  # pairs
WINDOW = 64 * BLOCK  # pairs
_CHUNK = 1 << 20  # rows of a store looked at together
_BLOCKS, _ORDER, _WINDOW = range(3)  # what a random generator is for


class BatchConfig(Config):
    """How pairs are put into batches."""

    tokens: int | Literal["auto"] = 4096
    """The most positions of a batch, source and target and padding together; auto finds the most that the device can
    take, once, and writes it here."""
    shapes: Literal["exact", "static"] = "exact"
    """Exact: as wide as the longest pair of the batch. Static: a few fixed shapes, for compiled graphs."""
    workers: int = Field(default=1, ge=0, le=64)
    """Threads that make batches ahead of the training; 0 makes them between the steps. The batches are the same."""

    @field_validator("tokens", mode="before")
    @classmethod
    def _number_or_auto(cls, value: Any) -> Any:
        if value != "auto" and (not isinstance(value, int) or isinstance(value, bool) or value < 2):
            raise ValueError("input should be a whole number greater than or equal to 2, or 'auto'")
        return value

    @property
    def budget(self) -> int:
        """`tokens`, once it is known."""
        if self.tokens == "auto":
            raise ValueError("batch.tokens is still to be found for this device")
        return self.tokens


class Shard(NamedTuple):
    """One rank among those that share every batch."""

    rank: int
    ranks: int


WHOLE = Shard(0, 1)


class Planned(NamedTuple):
    """One batch to be made: which pairs, and how large (`rows` may be more than there are pairs)."""

    indices: Array
    shape: Shape

    def shard(self, shard: Shard) -> "Planned":
        """The rows of one rank.   Law: the ranks' pairs are all pairs, each once, and their shapes are equal."""
        rows = -(-self.shape.rows // shard.ranks)
        return Planned(self.indices[shard.rank :: shard.ranks], self.shape._replace(rows=rows))


class Plan:
    """The batches of every epoch over a store.   Law: batches(epoch, start=k) is batches(epoch) without its first k."""

    def __init__(self, store: Store, *, config: BatchConfig, seed: int, limit: int = 16) -> None:
        self.store = store
        self.config = config
        self.seed = seed
        static = config.shapes == "static"
        self.shapes = static_shapes(store, budget=config.budget, limit=limit) if static else ()

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]:
        """The batches of one epoch from the `start`-th on; the ones before are planned but not built."""
        windows = _windows(self.store.spans, seed=self.seed, epoch=epoch)
        match self.config.shapes:
            case "exact":
                planned = self._exact(windows, epoch=epoch)
            case "static":
                planned = self._static(windows, epoch=epoch)
        return islice(planned, start, None)

    def _exact(self, windows: Iterator[Array], *, epoch: int) -> Iterator[Planned]:
        for number, indices in enumerate(windows):
            generator = _generator(self.seed, _WINDOW, epoch, number)
            yield from _shuffled(self._cut(generator.permutation(indices)), generator)

    def _cut(self, indices: Array) -> list[Planned]:
        """The pairs in batches of nearly equal length."""
        sources, targets = self._lengths(indices)
        # Neighbours stay close in both lengths: strips of two target lengths, in which sources rise and fall in turn.
        strips = targets // 2
        order = np.lexsort((targets, np.where(strips % 2, sources, -sources), strips))
        indices, sources, targets = indices[order], sources[order], targets[order]
        batches: list[Planned] = []
        start = 0
        while start < len(indices):
            most = self.config.budget // int(sources[start] + targets[start])
            ahead = slice(start, start + max(1, most))
            width = np.maximum.accumulate(sources[ahead]) + np.maximum.accumulate(targets[ahead])
            fits = width * np.arange(1, len(width) + 1) <= self.config.budget
            rows = max(1, int(fits.sum()))  # a pair longer than the budget has a batch to itself
            at = slice(start, start + rows)
            batches.append(Planned(indices[at], Shape(rows, int(sources[at].max()), int(targets[at].max()))))
            start += rows
        return batches

    def _static(self, windows: Iterator[Array], *, epoch: int) -> Iterator[Planned]:
        waiting = [np.zeros(0, dtype=np.int64) for _ in self.shapes]
        for number, indices in enumerate(windows):
            generator = _generator(self.seed, _WINDOW, epoch, number)
            indices = generator.permutation(indices)
            kinds = self._kinds(indices)
            full: list[Planned] = []
            for kind, shape in enumerate(self.shapes):
                pairs = np.concatenate([waiting[kind], indices[kinds == kind]])
                whole = len(pairs) // shape.rows * shape.rows
                full += [Planned(part, shape) for part in pairs[:whole].reshape(-1, shape.rows)]
                waiting[kind] = pairs[whole:]
            yield from _shuffled(full, generator)
        yield from _shuffled(_last(self.shapes, waiting), _generator(self.seed, _WINDOW, epoch, -1))

    def _kinds(self, indices: Array) -> Array:
        """The cheapest shape that holds each pair."""
        sources, targets = self._lengths(indices)
        kinds = np.full(len(indices), -1)
        for kind, shape in enumerate(self.shapes):
            kinds[(kinds < 0) & (sources <= shape.source) & (targets <= shape.target)] = kind
        assert (kinds >= 0).all()
        return kinds

    def _lengths(self, indices: Array) -> tuple[Array, Array]:
        sources, targets = self.store.source_lengths[indices], self.store.target_lengths[indices]
        return sources.astype(np.int64), targets.astype(np.int64)


def waste(plan: Plan, *, epoch: int) -> float:
    """The share of an epoch's positions that is padding, empty rows included."""
    real = padded = 0
    for indices, shape in plan.batches(epoch):
        real += int(plan.store.source_lengths[indices].sum(dtype=np.int64))
        real += int(plan.store.target_lengths[indices].sum(dtype=np.int64))
        padded += shape.positions
    return 1 - real / padded if padded else 0.0


def static_shapes(store: Store, *, budget: int, limit: int) -> tuple[Shape, ...]:
    """The shapes for a store's lengths; read in chunks, so its size does not matter."""
    spans = [(span, at) for span in store.spans if span.weight > 0 for at in _chunks(span)]
    sides = (store.source, store.target)
    longest = [max((int(side.lengths[at].max()) for _, at in spans), default=0) for side in sides]
    counts = [np.zeros(size + 1) for size in longest]
    for span, at in spans:
        for side, count in zip(sides, counts, strict=True):
            count += span.weight * np.bincount(side.lengths[at], minlength=len(count))
    sources, targets = map(boundaries, counts)
    table = np.zeros((len(sources), len(targets)))
    for span, at in spans:
        place = np.searchsorted(sources, store.source_lengths[at]) * len(targets)
        place += np.searchsorted(targets, store.target_lengths[at])
        table += span.weight * np.bincount(place, minlength=table.size).reshape(table.shape)
    return find_shapes(Histogram(sources, targets, table), budget=budget, limit=limit)


def _last(shapes: tuple[Shape, ...], waiting: list[Array]) -> list[Planned]:
    """The epoch's last pairs, in few batches: a shape's rest joins a larger shape's if that has room for it all."""
    batches: dict[int, Array] = {}
    for kind in reversed(range(len(shapes))):
        room = [
            large
            for large, pairs in batches.items()
            if shapes[large].source >= shapes[kind].source
            and shapes[large].target >= shapes[kind].target
            and shapes[large].rows - len(pairs) >= len(waiting[kind])
        ]
        home = room[-1] if room else kind
        if len(waiting[kind]):
            batches[home] = np.concatenate([batches.get(home, waiting[kind][:0]), waiting[kind]])
    return [Planned(pairs, shapes[kind]) for kind, pairs in batches.items()]


def _windows(spans: tuple[Span, ...], *, seed: int, epoch: int) -> Iterator[Array]:
    """Pair indices, a window at a time."""
    blocks = np.concatenate(
        [np.zeros((0, 2), dtype=np.int64)]
        + [_draw(span, seed=seed, corpus=corpus, epoch=epoch) for corpus, span in enumerate(spans)]
    )
    blocks = _generator(seed, _ORDER, epoch).permutation(blocks)
    ends = np.cumsum(blocks[:, 1] - blocks[:, 0])
    start = 0
    while start < len(blocks):
        held = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, held + WINDOW, side="right")))
        yield np.concatenate([np.arange(first, last) for first, last in blocks[start:stop]])
        start = stop


def _draw(span: Span, *, seed: int, corpus: int, epoch: int) -> Array:
    """The blocks of one corpus an epoch reads.

    Epochs read on in an endless row of shuffled rounds over the blocks, `weight` rounds an epoch: with weight 2 every
    pair comes twice an epoch, with ½ every pair comes once in two epochs.
    """
    size = min(BLOCK, max(1, (span.stop - span.start) // 64))
    starts = np.arange(span.start, span.stop, size)
    blocks = np.stack([starts, np.minimum(starts + size, span.stop)], axis=1)
    first, last = (int(round(turn * span.weight * len(blocks), 6)) for turn in (epoch, epoch + 1))
    rounds = range(first // max(1, len(blocks)), -(-last // max(1, len(blocks))))
    drawn = [_generator(seed, _BLOCKS, corpus, turn).permutation(blocks) for turn in rounds]
    skipped = first - rounds.start * len(blocks)
    return np.concatenate([blocks[:0], *drawn])[skipped : skipped + last - first]


def _shuffled(batches: list[Planned], generator: np.random.Generator) -> Iterator[Planned]:
    return (batches[index] for index in generator.permutation(len(batches)))


def _generator(seed: int, *purpose: int) -> np.random.Generator:
    """A generator of its own for each purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *(part + 1 for part in purpose)])))


def _chunks(span: Span) -> Iterator[slice]:
    return (slice(at, min(at + _CHUNK, span.stop)) for at in range(span.start, span.stop, _CHUNK))
