"""A pairwise cover: few combinations of options in which every two values stand together at least once."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

Choice = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairwise(
    options: Mapping[str, Sequence[Any]], *, read: Callable[[Choice], Choice | None] = lambda choice: choice
) -> list[Choice]:
    """Combinations that cover every pair of settings which some combination reads; the same ones every time.

    `read` says which settings of a combination do something in it, or None where it cannot be built: what is idle
    counts for nothing, and is left out of the combinations given.
    """
    return cover(distinct(map(read, product(options))))


def product(options: Mapping[str, Sequence[Any]]) -> Iterable[Choice]:
    """Every combination of options."""
    return (dict(zip(options, values, strict=True)) for values in itertools.product(*options.values()))


def cover(choices: Iterable[Choice], *, met: Collection[Pair] = frozenset()) -> list[Choice]:
    """Those of the combinations in which all pairs stand that stand in any, other than those met elsewhere.

    Greedy: the next one is that which holds most pairs not yet covered.
    """
    possible = [(each, pairs(each).difference(met)) for each in choices]
    missing = set().union(*(held for _, held in possible))
    chosen = []
    while missing:
        best, held = max(possible, key=lambda each: len(each[1] & missing))
        chosen.append(best)
        missing -= held
    return chosen


def pairs(choice: Choice) -> set[Pair]:
    """Every two settings of a combination."""
    return set(itertools.combinations(sorted(choice.items(), key=lambda item: item[0]), 2))


def distinct(choices: Iterable[Choice | None]) -> Collection[Choice]:
    """Every combination once, but for None."""
    return {tuple(choice.items()): choice for choice in choices if choice is not None}.values()


def name(choice: Choice) -> str:
    """A combination in a word: its values, and the names of what is on."""
    said = [key if value is True else str(value) for key, value in choice.items() if value is not False]
    return " ".join(said)
