"""Whether phrases stand in a text of tokens, each at a place of its own."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

Token = int


class Edges(NamedTuple):
    """Where words begin and end."""

    begins: Callable[[Token], bool]  # whether a token begins apart from whatever stands before it
    ends: Callable[[Token], bool]  # whether whatever comes after a token is apart from it

    def between(self, one: Token, other: Token) -> bool:
        """Whether a word may begin between two tokens."""
        return self.ends(one) or self.begins(other)


def can_share(phrases: Sequence[Sequence[Token]]) -> bool:
    """Whether two different phrases can stand in a text so that one has tokens of the other.

    Only then does it matter which phrase a token is counted for.
    """
    different = {tuple(phrase) for phrase in phrases}
    return any(_overlap(one, other) for one in different for other in different if one != other)


def all_said(tokens: Sequence[Token], phrases: Sequence[Sequence[Token]], *, edges: Edges) -> bool:
    """Whether all phrases stand in a text, no token being counted for two, each from where a word may begin.

    After a phrase the text ends, or a token comes that begins apart. For every length of the text it keeps the largest
    sets of phrases that can be counted so far: a set that another one holds is never better.
    """
    numbered = [tuple(phrase) for phrase in phrases]
    everything = (1 << len(numbered)) - 1
    counted: list[set[int]] = [{0}]
    for end in range(1, len(tokens) + 1):
        found = set(counted[-1])
        for number, phrase in enumerate(numbered):
            begin = end - len(phrase)
            if begin >= 0 and tuple(tokens[begin:end]) == phrase and _is_apart(tokens, begin, end, edges=edges):
                alike = [place for place in range(number) if numbered[place] == phrase]  # they are counted in order
                before = sum(1 << place for place in alike)
                found |= {
                    said | 1 << number for said in counted[begin] if said & before == before and not said >> number & 1
                }
        counted.append({said for said in found if not any(said != other and said & other == said for other in found)})
    return everything in counted[-1]


def _is_apart(tokens: Sequence[Token], begin: int, end: int, *, edges: Edges) -> bool:
    from_start = begin == 0 or edges.between(tokens[begin - 1], tokens[begin])
    return from_start and (end == len(tokens) or edges.begins(tokens[end]))


def _overlap(one: Sequence[Token], other: Sequence[Token]) -> bool:
    """Whether an end of one is a beginning of the other, or the one holds the other."""
    if any(one[-size:] == other[:size] for size in range(1, min(len(one), len(other)) + 1)):
        return True
    return any(one[place : place + len(other)] == other for place in range(len(one) - len(other) + 1))
