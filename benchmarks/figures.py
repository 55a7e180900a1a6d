"""The arithmetic of a comparison: rates from two sizes of the same work, ratios round by round, and their spread."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from benchmarks.errors import BenchmarkError
from benchmarks.processes import Usage

Item = TypeVar("Item")
Clock = Literal["cpu", "wall"]  # a field of Usage
UNITS: dict[Clock, str] = {"cpu": "CPU-s", "wall": "s"}


class Spread(NamedTuple):
    """The median, minimum and maximum over rounds."""

    median: float
    least: float
    greatest: float


class Measured(NamedTuple):
    """The number of tokens or sentences that one process produced, and its cost."""

    amount: float
    usage: Usage


def spread(values: Sequence[float]) -> Spread:
    """Median, minimum and maximum of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours ÷ theirs, round by round: whatever slows the machine for a whole round cancels out."""
    return [our / their for our, their in zip(ours, theirs, strict=True)]


def spread_of_ratios(speeds: Mapping[str, Sequence[float]], *, of: str) -> dict[str, Spread]:
    """For every other contender, the speed of `of` divided by that contender's speed."""
    return {name: spread(ratios(speeds[of], theirs)) for name, theirs in speeds.items() if name != of}


def clock_for(threads: int) -> Clock:
    """The clock to use: CPU time with one thread; wall time with more, as waiting threads use CPU time."""
    return "cpu" if threads == 1 else "wall"


def difference_rate(short: Measured, long: Measured, *, clock: Clock) -> float:
    """(amount of long - amount of short) ÷ (seconds of long - seconds of short).

    Start-up, data loading and the final save cost the same in both, so they cancel.
    """
    amount = long.amount - short.amount
    seconds = getattr(long.usage, clock) - getattr(short.usage, clock)
    if amount <= 0 or seconds <= 0:
        raise BenchmarkError(
            f"the long run processed {amount:,.0f} more tokens or sentences than the short run and took {seconds:.2f} "
            f"more {UNITS[clock]}; both differences must be positive: make the long run longer"
        )
    return float(amount / seconds)


def core_share(usages: Iterable[Usage]) -> float:
    """CPU seconds ÷ wall seconds: the share of the time in which single-threaded processes had a core."""
    costs = list(usages)
    return sum(usage.cpu for usage in costs) / sum(usage.wall for usage in costs)


def interleaved(contenders: Sequence[Item], *, rounds: int) -> Iterator[tuple[int, Item]]:
    """Yields (round, contender) for every measurement, in the order A B, B A, A B, …

    Every other round is reversed, so that a steady drift of the machine favours no contender.
    """
    for number in range(1, rounds + 1):
        for contender in contenders if number % 2 else reversed(contenders):
            yield number, contender
