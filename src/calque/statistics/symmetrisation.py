"""Symmetrisation: one alignment from two, each of which links a word of one side to at most one word of the other.

Forward links have one source word per target word, backward links one target word per source word. The intersection of
the two has high precision, their union high recall; the other methods lie in between (Och and Ney 2003; Koehn et al.
2003).
"""

from collections.abc import Iterable, Set
from typing import Literal, assert_never, get_args

Link = tuple[int, int]
"""(source word, target word), counted from 0."""

Symmetrisation = Literal["intersection", "union", "grow-diag", "grow-diag-final-and", "forward", "backward"]
SYMMETRISATIONS: tuple[Symmetrisation, ...] = get_args(Symmetrisation)

_NEIGHBOURS = (  # steps of target and source words, in the order of Koehn's pseudo-code
    (-1, 0),
    (0, -1),
    (1, 0),
    (0, 1),
    (-1, -1),
    (-1, 1),
    (1, -1),
    (1, 1),
)


def symmetrise(forward: Set[Link], backward: Set[Link], *, method: Symmetrisation = "grow-diag-final-and") -> set[Link]:
    """The symmetrised links of a sentence pair, given the links of both directions."""
    match method:
        case "forward":
            return set(forward)
        case "backward":
            return set(backward)
        case "intersection":
            return set(forward & backward)
        case "union":
            return set(forward | backward)
        case "grow-diag":
            return grow_diag(forward & backward, union=forward | backward)
        case "grow-diag-final-and":
            grown = grow_diag(forward & backward, union=forward | backward)
            return final_and(final_and(grown, forward), backward)
        case _:
            assert_never(method)


def grow_diag(links: Set[Link], *, union: Set[Link]) -> set[Link]:
    """`links`, extended by links of the union until nothing changes.

    A link is added if it is next to an existing link, also diagonally, and one of its two words has no link yet.
    """
    grown = set(links)
    sources, targets = _linked_words(grown)
    order = sorted(union, key=lambda link: (link[1], link[0]))
    size = -1
    while size < len(grown):
        size = len(grown)
        for source, target in order:
            if (source, target) in grown:
                for target_step, source_step in _NEIGHBOURS:
                    link = source + source_step, target + target_step
                    if link in union and (link[0] not in sources or link[1] not in targets):
                        grown.add(link)
                        sources.add(link[0])
                        targets.add(link[1])
    return grown


def final_and(links: Set[Link], directed: Iterable[Link]) -> set[Link]:
    """`links`, extended by those links of one direction of which neither word has a link yet."""
    extended = set(links)
    sources, targets = _linked_words(extended)
    for source, target in sorted(directed, key=lambda link: (link[1], link[0])):
        if source not in sources and target not in targets:
            extended.add((source, target))
            sources.add(source)
            targets.add(target)
    return extended


def _linked_words(links: Iterable[Link]) -> tuple[set[int], set[int]]:
    """The source words and the target words that have a link."""
    sources, targets = set(), set()
    for source, target in links:
        sources.add(source)
        targets.add(target)
    return sources, targets
