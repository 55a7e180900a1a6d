"""Decides which rows make up the batches of an epoch: a pure function of seed and epoch, computed lazily.

Bucketed: blocks of neighbouring rows are shuffled; the rows of a window of blocks are sorted by length and cut into
batches; the window's batches are shuffled. Streams: running text is cut into streams that are read in parallel. The
batches depend neither on the process that reads them nor on the batch at which it starts.
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
_CHUNK = 1 << 20  # rows of a store in memory at a time
_BLOCKS, _ORDER, _WINDOW, _STREAMS = range(4)  # purposes of random generators


class BatchConfig(Config):
    """How rows are grouped into batches."""

    tokens: int | Literal["auto"] = 4096
    """The largest number of positions per batch, over all padded columns (source and target) and including padding;
    auto finds the largest number that fits the device when training begins, and writes it here."""
    shapes: Literal["exact", "static"] = "exact"
    """exact: a batch is as wide as its longest row; static: batches have a few fixed shapes, for CUDA graphs."""
    static_shapes: int = Field(default=16, ge=1, le=64)
    """The largest number of static shapes. More of them waste less on padding, fewer take less time to compile and
    capture."""
    workers: int = Field(default=1, ge=0, le=64)
    """The number of threads that prepare batches in advance; with 0, they are prepared between steps. The contents of
    batches do not depend on it."""

    @field_validator("tokens", mode="before")
    @classmethod
    def _number_or_auto(cls, value: Any) -> Any:
        if value != "auto" and (not isinstance(value, int) or isinstance(value, bool) or value < 2):
            raise ValueError("input should be a whole number greater than or equal to 2, or 'auto'")
        return value

    def order_settings(self) -> dict[str, Any]:
        """The settings that determine the batches of an epoch, by name.

        Settings of later versions are left out if they have their defaults, so that earlier checkpoints still match.
        """
        is_changed = self.static_shapes != type(self).model_fields["static_shapes"].default
        return self.model_dump(mode="json", exclude={"workers"} if is_changed else {"workers", "static_shapes"})

    @property
    def budget(self) -> int:
        """The value of `tokens`. Raises a ValueError if it is "auto" and has not been determined for the device yet."""
        if self.tokens == "auto":
            raise ValueError("batch.tokens is 'auto' and has not been determined for this device yet")
        return self.tokens


class Shard(NamedTuple):
    """One rank's share of a batch: `rank` is its number, from 0, among the `ranks` that divide the batch."""

    rank: int
    ranks: int


WHOLE = Shard(0, 1)


class Planned(NamedTuple):
    """A batch to be collated: the indices of its rows (for `Streams`, positions in the text), and its size.

    `size.rows` may exceed the number of indices: the remaining rows are padding rows, which fill up a static shape.
    """

    indices: Array
    size: Size

    def shard(self, shard: Shard) -> "Planned":
        """The part of the batch that one rank collates.

        Law: every row belongs to exactly one rank, and the ranks' sizes are equal.
        """
        rows = -(-self.size.rows // shard.ranks)
        return Planned(self.indices[shard.rank :: shard.ranks], self.size._replace(rows=rows))


class Order(Protocol):
    """Plans the batches of every epoch.

    Law: batches(epoch, start=k) is batches(epoch) without its first k batches.
    """

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]: ...


class Bucketed:
    """Forms batches of rows of similar length, within a budget of positions.

    `widths` are the widths of the rows on each padded axis: source and target of pairs, or a single column.
    """

    def __init__(self, widths: Sequence[Widths], *, spans: Sequence[Span], config: BatchConfig, seed: int) -> None:
        self.widths = tuple(widths)
        self.spans = tuple(spans)
        self.config = config
        self.seed = seed
        is_static, limit = config.shapes == "static", config.static_shapes
        self.sizes = static_sizes(widths, spans=spans, budget=config.budget, limit=limit) if is_static else ()

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]:
        """The batches of one epoch from number `start` (from 0) on; earlier batches are computed, but not yielded."""
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
        """Batches of the rows sorted by length; each is padded to its longest row and within the budget if possible."""
        axes = [axis[indices] for axis in self.widths]
        order = _by_length(axes)
        indices, axes = indices[order], [axis[order] for axis in axes]
        total = np.sum(axes, axis=0)
        batches: list[Planned] = []
        start = 0
        while start < len(indices):
            limit = self.config.budget // max(1, int(total[start]))
            candidates = slice(start, start + max(1, limit))
            width = np.sum([np.maximum.accumulate(axis[candidates]) for axis in axes], axis=0)
            fits = width * np.arange(1, len(width) + 1) <= self.config.budget
            rows = max(1, int(fits.sum()))  # a row longer than the budget forms a batch alone
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
                full_rows = len(rows) // size.rows * size.rows
                full += [Planned(part, size) for part in rows[:full_rows].reshape(-1, size.rows)]
                waiting[bucket] = rows[full_rows:]
            yield from _shuffled(full, generator)
        yield from _shuffled(_last_batches(self.sizes, waiting), _generator(self.seed, _WINDOW, epoch, -1))

    def _buckets(self, indices: Array) -> Array:
        """For each row, the index in `self.sizes` of the smallest fixed batch size that is wide enough for the row."""
        axes = [axis[indices] for axis in self.widths]
        buckets = np.full(len(indices), -1)
        for bucket, size in enumerate(self.sizes):
            fits = np.all([axis <= width for axis, width in zip(axes, size.widths, strict=True)], axis=0)
            buckets[(buckets < 0) & fits] = bucket
        assert (buckets >= 0).all()
        return buckets


class Streams:
    """Divides a running text of `length` tokens into `rows` streams of equal length, read `steps` tokens at a time.

    A batch's indices are the positions in the text at which its streams continue. Tokens at the end of the text that do
    not fill all streams are not read. With `jitter`, the number of tokens per batch and stream varies around `steps`
    (Merity et al. 2018, §4.1).
    """

    def __init__(self, length: int, *, rows: int, steps: int, seed: int, jitter: bool = False) -> None:
        self.rows = max(1, min(rows, length - 1))
        self.steps, self.seed, self.jitter = steps, seed, jitter
        self.stream = (length - 1) // self.rows  # tokens to predict per stream

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Planned]:
        """The batches of one epoch from number `start` (from 0) on."""
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
        """A random number of tokens to read per stream for a batch: usually near `steps`, sometimes near half of it."""
        middle = self.steps if generator.random() < 0.95 else self.steps / 2
        return max(5, min(round(generator.normal(middle, 5)), self.steps + 20))


def waste(order: Bucketed, *, epoch: int) -> float:
    """The share of padding (padding rows included) among all positions of the batches of an epoch."""
    real = padded = 0
    for indices, size in order.batches(epoch):
        real += sum(int(axis[indices].sum()) for axis in order.widths)
        padded += size.positions
    return 1 - real / padded if padded else 0.0


def static_sizes(widths: Sequence[Widths], *, spans: Sequence[Span], budget: int, limit: int) -> tuple[Size, ...]:
    """At most `limit` batch sizes chosen to fit the widths of all rows, which have one or two padded axes.

    The memory for the search does not depend on the number of rows.
    """
    if len(widths) == 1:
        zero = np.zeros(1, dtype=np.uint8)
        zero_widths = Widths(np.broadcast_to(zero, len(widths[0].lengths)))
        sizes = static_sizes([widths[0], zero_widths], spans=spans, budget=budget, limit=limit)
        return tuple(size._replace(widths=size.widths[:1]) for size in sizes)
    assert len(widths) == 2, "static shapes need one or two padded axes"
    chunks = [(span, at) for span in spans if span.weight > 0 for at in _chunks(span)]
    longest = [max((int(axis[at].max()) for _, at in chunks), default=0) for axis in widths]
    counts = [np.zeros(size + 1) for size in longest]
    for span, at in chunks:
        for axis, count in zip(widths, counts, strict=True):
            count += span.weight * np.bincount(axis[at], minlength=len(count))
    sources, targets = map(boundaries, counts)
    table = np.zeros((len(sources), len(targets)))
    for span, at in chunks:
        cells = np.searchsorted(sources, widths[0][at]) * len(targets)
        cells += np.searchsorted(targets, widths[1][at])
        table += span.weight * np.bincount(cells, minlength=table.size).reshape(table.shape)
    return find_sizes(Histogram(sources, targets, table), budget=budget, limit=limit)


def _by_length(axes: Sequence[Array]) -> Array:
    """An order of rows in which neighbours have similar widths; `axes` holds the rows' widths on each padded axis.

    With two axes, rows are grouped into strips of two adjacent widths on the second axis. Within a strip, rows are
    sorted by their width on the first axis, ascending in one strip and descending in the next.
    """
    if len(axes) == 1:
        return np.argsort(axes[0], kind="stable")
    sources, targets = axes[:2]
    strips = targets // 2
    return np.lexsort((targets, np.where(strips % 2, sources, -sources), strips))


def _last_batches(sizes: tuple[Size, ...], waiting: list[Array]) -> list[Planned]:
    """The last batches of an epoch, made of the rows that are still `waiting` for a batch of each of the `sizes`.

    The rows that wait for one size are added to the batch of a wider size if it has room for all of them.
    """
    batches: dict[int, Array] = {}
    for bucket in reversed(range(len(sizes))):
        hosts = [
            larger
            for larger, rows in batches.items()
            if all(wide >= width for wide, width in zip(sizes[larger].widths, sizes[bucket].widths, strict=True))
            and sizes[larger].rows - len(rows) >= len(waiting[bucket])
        ]
        host = hosts[-1] if hosts else bucket
        if len(waiting[bucket]):
            batches[host] = np.concatenate([batches.get(host, waiting[bucket][:0]), waiting[bucket]])
    return [Planned(rows, sizes[bucket]) for bucket, rows in batches.items()]


def _windows(spans: tuple[Span, ...], *, seed: int, epoch: int) -> Iterator[Array]:
    """Yields the row indices of an epoch in windows of about WINDOW rows, each a series of randomly ordered blocks."""
    blocks = np.concatenate(
        [np.zeros((0, 2), dtype=np.int64)]
        + [_draw(span, seed=seed, corpus=corpus, epoch=epoch) for corpus, span in enumerate(spans)]
    )
    blocks = _generator(seed, _ORDER, epoch).permutation(blocks)
    ends = np.cumsum(blocks[:, 1] - blocks[:, 0])
    start = 0
    while start < len(blocks):
        rows_before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, rows_before + WINDOW, side="right")))
        yield np.concatenate([np.arange(low, high) for low, high in blocks[start:stop]])
        start = stop


def _draw(span: Span, *, seed: int, corpus: int, epoch: int) -> Array:
    """The blocks of rows, as first row and end, that an epoch reads from one corpus.

    Epochs read an endless sequence of shuffled rounds over the blocks, `span.weight` rounds per epoch: with weight 2
    every row is read twice per epoch, with ½ every row is read once in two epochs.
    """
    size = min(BLOCK, max(1, (span.stop - span.start) // 64))
    starts = np.arange(span.start, span.stop, size)
    blocks = np.stack([starts, np.minimum(starts + size, span.stop)], axis=1)
    start, stop = (int(round(boundary * span.weight * len(blocks), 6)) for boundary in (epoch, epoch + 1))
    rounds = range(start // max(1, len(blocks)), -(-stop // max(1, len(blocks))))
    shuffled = [_generator(seed, _BLOCKS, corpus, number).permutation(blocks) for number in rounds]
    skipped = start - rounds.start * len(blocks)
    return np.concatenate([blocks[:0], *shuffled])[skipped : skipped + stop - start]


def _shuffled(batches: list[Planned], generator: np.random.Generator) -> Iterator[Planned]:
    return (batches[index] for index in generator.permutation(len(batches)))


def _generator(seed: int, *purpose: int) -> np.random.Generator:
    """A random number generator for this seed and purpose, independent of the generators for all others."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *(part + 1 for part in purpose)])))


def _chunks(span: Span) -> Iterator[slice]:
    return (slice(at, min(at + _CHUNK, span.stop)) for at in range(span.start, span.stop, _CHUNK))
