"""Diverse beam search (Vijayakumar et al. 2018, "Diverse Beam Search", §3).

Letters: B sentences, G groups, K' beams a group, K = G·K', V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from calque.search.beam import Extended, Live, extend


class Diverse:
    """Groups of beams, one after the other: each is pushed away from what the groups before it chose at this step.

    A token that n hypotheses of earlier groups have just taken is compared with `strength`·n less (Hamming diversity,
    eq. 2); what hypotheses are worth does not change. Ends are not counted: to end where another group did is no lack
    of variety, and a penalty on it would make translations run on.
    """

    def __init__(self, beams: int, *, groups: int, strength: float) -> None:
        if beams % groups:
            raise ValueError(f"{groups} groups cannot share {beams} beams evenly: beam must be a multiple of groups")
        self.beams, self.groups, self.strength = beams // groups, groups, strength

    def start(self, sentences: Tensor) -> None:
        return None

    def extend(self, live: Live, log_probs: Tensor, memory: None, *, end: int) -> tuple[Extended, None]:
        taken = log_probs.new_zeros(log_probs.shape[0], log_probs.shape[-1])  # [B,V]
        begins = live.tokens.shape[2] == 0  # all groups grow from the empty hypothesis
        width = 0 if begins else live.log_probs.shape[1] // self.groups
        parts = []
        for group in range(self.groups):
            own = slice(0, 1) if begins else slice(group * width, (group + 1) * width)
            bonus = -self.strength * taken[:, None]
            grown = extend(_of(live, own), log_probs[:, own], beams=self.beams, end=end, bonus=bonus)
            parts.append(grown._replace(parents=grown.parents + own.start))
            is_there = (grown.live.log_probs > -torch.inf).to(taken.dtype)
            taken = taken.scatter_add(1, grown.live.tokens[..., -1], is_there)
        live, ended = (_join([getattr(part, name) for part in parts]) for name in ("live", "ended"))
        ended = ended._replace(log_probs=ended.log_probs.masked_fill(_said_before(ended), -torch.inf))
        return Extended(live, torch.cat([part.parents for part in parts], dim=1), ended), None

    def missing_phrase(self, memory: None) -> None:
        return None


def _said_before(ended: Live) -> Tensor:
    """[B,K], what an earlier group ended with the same words: an answer is given once."""
    same = (ended.tokens[:, :, None] == ended.tokens[:, None]).all(dim=-1)  # [B,K,K]
    same = same & (ended.log_probs > -torch.inf)[:, None]
    return same.tril(-1).any(dim=-1)


def _of(live: Live, group: slice) -> Live:
    covered = None if live.covered is None else live.covered[:, group]
    return Live(live.log_probs[:, group], live.tokens[:, group], covered)


def _join(parts: list[Live]) -> Live:
    joined: list[Any] = [None if same[0] is None else torch.cat(list(same), dim=1) for same in zip(*parts, strict=True)]
    return Live(*joined)
