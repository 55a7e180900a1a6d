"""Diverse beam search (Vijayakumar et al. 2018, "Diverse Beam Search", §3).

Letters: B sentences, G groups, K' beams per group, K = G·K', V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from calque.search.beam import Extended, extend
from calque.search.observers import Candidates
from calque.search.step import Live


class Diverse:
    """Diverse beam search: groups of beams are extended in turn, with a penalty on tokens that earlier groups chose.

    A token that n hypotheses of earlier groups have just chosen is penalised by `strength`·n in the comparison of
    candidates (Hamming diversity, eq. 2); log-probabilities do not change. End marks are not penalised: ending at the
    same length does not reduce diversity, and a penalty would produce overlong translations.
    """

    prunes = False

    def __init__(self, beams: int, *, groups: int, strength: float) -> None:
        if beams % groups:
            raise ValueError(f"{groups} groups cannot share {beams} beams evenly: beam must be a multiple of groups")
        self.beams, self.groups, self.strength = beams // groups, groups, strength

    def start(self, sentences: Tensor) -> None:
        return None

    def extend(self, live: Live, log_probs: Tensor, memory: None, *, end: int) -> tuple[Extended, None]:
        taken = log_probs.new_zeros(log_probs.shape[0], log_probs.shape[-1])  # [B,V]
        is_first = live.tokens.shape[2] == 0  # all groups extend the empty hypothesis
        width = 0 if is_first else live.log_probs.shape[1] // self.groups
        groups: list[Extended] = []
        for group in range(self.groups):
            group_slice = slice(0, 1) if is_first else slice(group * width, (group + 1) * width)
            bonus = -self.strength * taken[:, None]
            extended = extend(
                _slice(live, group_slice), log_probs[:, group_slice], beams=self.beams, end=end, bonus=bonus
            )
            candidates = extended.candidates._replace(parents=extended.candidates.parents + group_slice.start)
            groups.append(extended._replace(parents=extended.parents + group_slice.start, candidates=candidates))
            is_possible = (extended.live.log_probs > -torch.inf).to(taken.dtype)
            taken = taken.scatter_add(1, extended.live.tokens[..., -1], is_possible)
        live, ended = (_join([getattr(part, name) for part in groups]) for name in ("live", "ended"))
        ended = ended._replace(log_probs=ended.log_probs.masked_fill(_is_duplicate(ended), -torch.inf))
        parents = torch.cat([part.parents for part in groups], dim=1)
        return Extended(live, parents, ended, _join_candidates([part.candidates for part in groups])), None

    def missing_phrase(self, memory: None) -> None:
        return None


def _join_candidates(groups: list[Candidates]) -> Candidates:
    """The candidates of all groups of beams, concatenated group by group."""
    return Candidates(*(torch.cat(parts, dim=1) for parts in zip(*groups, strict=True)))


def _is_duplicate(ended: Live) -> Tensor:
    """Whether each hypothesis [B,K] in `ended` has the same tokens as one that an earlier group has ended."""
    same = (ended.tokens[:, :, None] == ended.tokens[:, None]).all(dim=-1)  # [B,K,K]
    same = same & (ended.log_probs > -torch.inf)[:, None]
    return same.tril(-1).any(dim=-1)


def _slice(live: Live, group: slice) -> Live:
    covered = None if live.covered is None else live.covered[:, group]
    return Live(live.log_probs[:, group], live.tokens[:, group], covered)


def _join(parts: list[Live]) -> Live:
    joined: list[Any] = [
        None if tensors[0] is None else torch.cat(list(tensors), dim=1) for tensors in zip(*parts, strict=True)
    ]
    return Live(*joined)
