"""A pairwise cover: few combinations of options in which every two values stand together at least once."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Choice = dict[str, Any]


def pairwise(
    options: Mapping[str, Sequence[Any]], *, allowed: Callable[[Choice], bool] = lambda _: True
) -> list[Choice]:
    """Combinations that cover every pair of values which some allowed combination holds; the same ones every time.

    Greedy: the next combination is the allowed one that holds most pairs not yet covered.
    """
    everything = [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]
    possible = [each for each in everything if allowed(each)]
    missing = set().union(*map(pairs, possible))
    chosen = []
    while missing:
        best = max(possible, key=lambda each: len(pairs(each) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def pairs(choice: Choice) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    """Every two settings of a combination."""
    return set(itertools.combinations(sorted(choice.items(), key=lambda item: item[0]), 2))


def name(choice: Choice) -> str:
    """A combination in a word: its values, and the names of what is on."""
    said = [key if value is True else str(value) for key, value in choice.items() if value is not False]
    return " ".join(said)
