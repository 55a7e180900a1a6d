"""A small engine for weighted rules: it draws derivations of a grammar and counts them.

A rule has a name, the number of distinct values it can derive, and a function that draws one at random. Choosing among
alternatives adds their counts, and building a node from independent parts multiplies theirs, so counts are exact.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Rule(Generic[T_co]):
    """A named production: `draw(random)` returns one of its `count` values."""

    name: str
    count: int
    draw: Callable[[Random], T_co]
    parts: "tuple[Rule[Any], ...]" = ()
    leaves: "tuple[tuple[float, Rule[Any]], ...]" = ()  # for a choice: the rules it leads to, by weight


def word(name: str, values: Sequence[T]) -> Rule[T]:
    """Returns a rule that draws one of the values, such as the words of a class; all are equally likely."""
    size = len(values)
    assert size, name
    return Rule(name, size, lambda random: values[int(random.random() * size)])


def build(name: str, make: Callable[..., T], *parts: Rule[Any]) -> Rule[T]:
    """Returns a rule that draws a value for each part independently and builds a node with `make(*values)`."""
    count = 1
    for part in parts:
        count *= part.count
    draws = tuple(part.draw for part in parts)
    return Rule(name, count, lambda random: make(*[draw(random) for draw in draws]), parts)


def choose(name: str, *options: tuple[float, Rule[T]]) -> Rule[T]:
    """Returns a rule that draws from one of several rules, chosen by weight; nested choices are flattened into one."""
    leaves = tuple(leaf for weight, rule in options for leaf in _leaves(weight, rule))
    totals = list(accumulate(weight for weight, _ in leaves))
    whole, draws = totals[-1], tuple(rule.draw for _, rule in leaves)

    def draw(random: Random) -> T:
        return draws[bisect(totals, random.random() * whole)](random)

    count = sum(rule.count for _, rule in options)
    return Rule(name, count, draw, tuple(rule for _, rule in options), leaves)


def _leaves(weight: float, rule: Rule[T]) -> Iterator[tuple[float, Rule[T]]]:
    """Yields the alternatives of a choice, which share its weight; yields any other rule itself, with its weight."""
    if not rule.leaves:
        yield weight, rule
    whole = sum(share for share, _ in rule.leaves)
    for share, leaf in rule.leaves:
        yield weight * share / whole, leaf


def productions(rule: Rule[Any]) -> dict[str, int]:
    """Maps the name of every rule with parts, in the tree below this rule, to the number of rules of that name."""
    return {name: len(rules) for name, rules in _by_name(rule).items()}


def _by_name(root: Rule[Any]) -> dict[str, set[int]]:
    names: dict[str, set[int]] = {}
    for rule in _walk(root, set()):
        if rule.parts:
            names.setdefault(rule.name, set()).add(id(rule))
    return names


def _walk(rule: Rule[Any], seen: set[int]) -> Iterator[Rule[Any]]:
    if id(rule) not in seen:
        seen.add(id(rule))
        yield rule
        for part in rule.parts:
            yield from _walk(part, seen)
