"""Pairwise covers: few combinations of options in which every pair of values occurs at least once."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

Choice = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairwise(
    options: Mapping[str, Sequence[Any]], *, read: Callable[[Choice], Choice | None] = lambda choice: choice
) -> list[Choice]:
    """Combinations that cover every pair of settings that some combination uses; deterministic.

    `read` returns the settings of a combination that have an effect in it, or None if it cannot be built; settings
    without effect do not count and are left out of the result.
    """
    return cover(distinct(map(read, product(options))))


def product(options: Mapping[str, Sequence[Any]]) -> Iterable[Choice]:
    """Every combination of options."""
    return (dict(zip(options, values, strict=True)) for values in itertools.product(*options.values()))


def cover(choices: Iterable[Choice], *, met: Collection[Pair] = frozenset()) -> list[Choice]:
    """A subset of the combinations that covers all pairs of all combinations, except those in `met`.

    Greedy: the next combination is the one with most uncovered pairs.
    """
    possible = [(choice, pairs(choice).difference(met)) for choice in choices]
    missing = set().union(*(covered for _, covered in possible))
    chosen = []
    while missing:
        best, covered = max(possible, key=lambda candidate: len(candidate[1] & missing))
        chosen.append(best)
        missing -= covered
    return chosen


def pairs(choice: Choice) -> set[Pair]:
    """All pairs of settings of a combination."""
    return set(itertools.combinations(sorted(choice.items(), key=lambda item: item[0]), 2))


def distinct(choices: Iterable[Choice | None]) -> Collection[Choice]:
    """The distinct combinations, without None."""
    return {tuple(choice.items()): choice for choice in choices if choice is not None}.values()


def name(choice: Choice) -> str:
    """A name for a combination: its values, and the names of switches that are on."""
    words = [key if value is True else str(value) for key, value in choice.items() if value is not False]
    return " ".join(words)
