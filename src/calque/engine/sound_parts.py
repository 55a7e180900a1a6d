"""Splits long recordings into parts, and joins the results of the parts.

Parts overlap. The first half of an overlap is taken from the result of the earlier part, the second half from that of
the later one, so that everything is heard with context on both sides.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class SoundPart(NamedTuple):
    """The positions of one part of a recording, on a grid of `stride` samples per position."""

    first: int  # position where it begins
    begin: int  # position from which its result counts
    end: int  # position up to which it counts


def split_sound(positions: int, *, longest: int, overlap: int) -> list[SoundPart]:
    """Parts of at most `longest` positions that cover a recording and overlap by `overlap` positions.

    >>> split_sound(10, longest=6, overlap=2)
    [SoundPart(first=0, begin=0, end=5), SoundPart(first=4, begin=5, end=10)]
    """
    if positions <= longest:
        return [SoundPart(0, 0, positions)]
    overlap = min(overlap, longest // 2)
    firsts = list(range(0, positions - overlap, longest - overlap))
    middles = [first + overlap // 2 for first in firsts[1:]]
    return [SoundPart(*part) for part in zip(firsts, [0, *middles], [*middles, positions], strict=True)]


def join_positions(parts: Sequence[SoundPart], values: Sequence[Tensor]) -> Tensor:
    """The values [S,V] of the whole recording, joined from those of its parts; half of each overlap is cut off."""
    return torch.cat(
        [value[part.begin - part.first : part.end - part.first] for part, value in zip(parts, values, strict=True)]
    )


class TimedToken(NamedTuple):
    """A token and the range of positions at which it is heard."""

    token: int
    first: int
    end: int  # after the last


def join_tokens(parts: Sequence[SoundPart], tokens: Sequence[Sequence[TimedToken]]) -> list[TimedToken]:
    """Joins the tokens of the parts; a part contributes the tokens that begin between its `begin` and its `end`."""
    return [
        TimedToken(token.token, token.first + part.first, token.end + part.first)
        for part, of_part in zip(parts, tokens, strict=True)
        for token in of_part
        if part.begin <= token.first + part.first < part.end
    ]
