"""Which rows make up the batches of an epoch: a pure function of seed and epoch, made as it is read.

Bucketed: blocks of neighbouring rows are shuffled; the rows of a window of blocks are sorted by length and cut into
batches; the window's batches are shuffled. Streams: running text, cut into streams that are read side by side. Nothing
depends on who reads an order, or from where on.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from calque.config import Config
from calque.data.buckets import Histogram, Size, boundaries, find_sizes
from calque.data.store import Span, Widths

Array = NDArray[Any]

BLOCK = 1024  # rows
WINDOW = 64 * BLOCK  # rows
_CHUNK = 1 << 20  # rows of a store looked at together
_BLOCKS, _ORDER, _WINDOW, _STREAMS = range(4)  # what a random generator is for


class BatchConfig(Config):
    """How rows are put into batches."""

    tokens: int | Literal["auto"] = 4096
    """The most positions of a batch, of all padded columns (source and target) and with padding; auto finds the most
    that the device can take, once, and writes it here."""
    shapes: Literal["exact", "static"] = "exact"
    """Exact: as wide as the longest row of the batch. Static: a few fixed shapes, for compiled graphs."""
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
    """A batch to be made: which rows (of a store, or where streams go on), and its size.

    `size.rows` may be more than there are rows: the others only fill a static shape.
    """

    indices: Array
    size: Size

    def shard(self, shard: Shard) -> "Planned":
        """The rows of one rank.   Law: the ranks' rows are all rows, each once, and their sizes are equal."""
        rows = -(-self.size.rows // shard.ranks)
        return Planned(self.indices[shard.rank :: shard.ranks], self.size._replace(rows=rows))


class Order(Protocol):
    """The batches of every epoch.   Law: batches(epoch, start=k) is batches(epoch) without its first k."""

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]: ...


class Bucketed:
    """Rows of similar length together, within a budget of positions.

    `widths` are the lengths of each padded axis: source and target of a pair, or one column alone.
    """

    def __init__(
        self, widths: Sequence[Widths], *, spans: Sequence[Span], config: BatchConfig, seed: int, limit: int = 16
    ) -> None:
        self.widths = tuple(widths)
        self.spans = tuple(spans)
        self.config = config
        self.seed = seed
        is_static = config.shapes == "static"
        self.sizes = static_sizes(widths, spans=spans, budget=config.budget, limit=limit) if is_static else ()

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]:
        """The batches of one epoch from the `start`-th on; the ones before are planned but not built."""
        windows = _windows(self.spans, seed=self.seed, epoch=epoch)
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
        """The rows in batches of nearly equal length."""
        axes = [axis[indices] for axis in self.widths]
        order = _by_length(axes)
        indices, axes = indices[order], [axis[order] for axis in axes]
        total = np.sum(axes, axis=0)
        batches: list[Planned] = []
        start = 0
        while start < len(indices):
            most = self.config.budget // max(1, int(total[start]))
            ahead = slice(start, start + max(1, most))
            width = np.sum([np.maximum.accumulate(axis[ahead]) for axis in axes], axis=0)
            fits = width * np.arange(1, len(width) + 1) <= self.config.budget
            rows = max(1, int(fits.sum()))  # a row longer than the budget has a batch to itself
            at = slice(start, start + rows)
            batches.append(Planned(indices[at], Size(rows, tuple(int(axis[at].max()) for axis in axes))))
            start += rows
        return batches

    def _static(self, windows: Iterator[Array], *, epoch: int) -> Iterator[Planned]:
        waiting = [np.zeros(0, dtype=np.int64) for _ in self.sizes]
        for number, indices in enumerate(windows):
            generator = _generator(self.seed, _WINDOW, epoch, number)
            indices = generator.permutation(indices)
            buckets = self._buckets(indices)
            full: list[Planned] = []
            for bucket, size in enumerate(self.sizes):
                rows = np.concatenate([waiting[bucket], indices[buckets == bucket]])
                whole = len(rows) // size.rows * size.rows
                full += [Planned(part, size) for part in rows[:whole].reshape(-1, size.rows)]
                waiting[bucket] = rows[whole:]
            yield from _shuffled(full, generator)
        yield from _shuffled(_last(self.sizes, waiting), _generator(self.seed, _WINDOW, epoch, -1))

    def _buckets(self, indices: Array) -> Array:
        """The cheapest size that holds each row."""
        axes = [axis[indices] for axis in self.widths]
        buckets = np.full(len(indices), -1)
        for bucket, size in enumerate(self.sizes):
            fits = np.all([axis <= width for axis, width in zip(axes, size.widths, strict=True)], axis=0)
            buckets[(buckets < 0) & fits] = bucket
        assert (buckets >= 0).all()
        return buckets


class Streams:
    """Running text: `rows` streams of equal length, read `steps` tokens at a time.

    A batch's indices are where each stream goes on in the text, which has `length` tokens; what is left at the end of
    the text and makes no whole row is not read. With `jitter`, lengths vary around `steps` (Merity et al. 2018, §4.1).
    """

    def __init__(self, length: int, *, rows: int, steps: int, seed: int, jitter: bool = False) -> None:
        self.rows = max(1, min(rows, length - 1))
        self.steps, self.seed, self.jitter = steps, seed, jitter
        self.stream = (length - 1) // self.rows  # tokens to predict per stream

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]:
        """The batches of one epoch from the `start`-th on."""
        return islice(self._all(epoch), start, None)

    def _all(self, epoch: int) -> Iterator[Planned]:
        begins = np.arange(self.rows, dtype=np.int64) * self.stream
        generator = _generator(self.seed, _STREAMS, epoch)
        at = 0
        while at < self.stream:
            steps = min(self._draw(generator) if self.jitter else self.steps, self.stream - at)
            yield Planned(begins + at, Size(self.rows, (steps,)))
            at += steps

    def _draw(self, generator: np.random.Generator) -> int:
        """About `steps`, and now and then half as many, so that cuts fall elsewhere in each epoch."""
        middle = self.steps if generator.random() < 0.95 else self.steps / 2
        return max(5, min(round(generator.normal(middle, 5)), self.steps + 20))


def waste(order: Bucketed, *, epoch: int) -> float:
    """The share of an epoch's positions that is padding, empty rows included."""
    real = padded = 0
    for indices, size in order.batches(epoch):
        real += sum(int(axis[indices].sum()) for axis in order.widths)
        padded += size.positions
    return 1 - real / padded if padded else 0.0


def static_sizes(widths: Sequence[Widths], *, spans: Sequence[Span], budget: int, limit: int) -> tuple[Size, ...]:
    """The batch sizes for rows of one or two axes; read in chunks, so the number of rows does not matter."""
    if len(widths) == 1:
        nothing = np.zeros(1, dtype=np.uint8)
        flat = Widths(np.broadcast_to(nothing, len(widths[0].lengths)))
        sizes = static_sizes([widths[0], flat], spans=spans, budget=budget, limit=limit)
        return tuple(size._replace(widths=size.widths[:1]) for size in sizes)
    assert len(widths) == 2, "static shapes are searched over two axes"
    chunks = [(span, at) for span in spans if span.weight > 0 for at in _chunks(span)]
    longest = [max((int(axis[at].max()) for _, at in chunks), default=0) for axis in widths]
    counts = [np.zeros(size + 1) for size in longest]
    for span, at in chunks:
        for axis, count in zip(widths, counts, strict=True):
            count += span.weight * np.bincount(axis[at], minlength=len(count))
    first, second = map(boundaries, counts)
    table = np.zeros((len(first), len(second)))
    for span, at in chunks:
        place = np.searchsorted(first, widths[0][at]) * len(second)
        place += np.searchsorted(second, widths[1][at])
        table += span.weight * np.bincount(place, minlength=table.size).reshape(table.shape)
    return find_sizes(Histogram(first, second, table), budget=budget, limit=limit)


def _by_length(axes: Sequence[Array]) -> Array:
    """An order in which neighbours are close on every axis.

    With two: strips of two lengths of the second, in which the first rises and falls in turn.
    """
    if len(axes) == 1:
        return np.argsort(axes[0], kind="stable")
    first, second = axes[:2]
    strips = second // 2
    return np.lexsort((second, np.where(strips % 2, first, -first), strips))


def _last(sizes: tuple[Size, ...], waiting: list[Array]) -> list[Planned]:
    """The epoch's last rows, in few batches: a bucket's rest joins a larger bucket's if that has room for it all."""
    batches: dict[int, Array] = {}
    for bucket in reversed(range(len(sizes))):
        room = [
            larger
            for larger, rows in batches.items()
            if all(wide >= own for wide, own in zip(sizes[larger].widths, sizes[bucket].widths, strict=True))
            and sizes[larger].rows - len(rows) >= len(waiting[bucket])
        ]
        home = room[-1] if room else bucket
        if len(waiting[bucket]):
            batches[home] = np.concatenate([batches.get(home, waiting[bucket][:0]), waiting[bucket]])
    return [Planned(rows, sizes[bucket]) for bucket, rows in batches.items()]


def _windows(spans: tuple[Span, ...], *, seed: int, epoch: int) -> Iterator[Array]:
    """Row indices, a window at a time."""
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
    """The blocks of one corpus that an epoch reads.

    Epochs read on in an endless row of shuffled rounds over the blocks, `weight` rounds per epoch: with weight 2 every
    row comes twice per epoch, with ½ every row comes once in two epochs.
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
