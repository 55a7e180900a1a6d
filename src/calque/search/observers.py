"""Observers of the steps of search, and the hook by which a caller abandons the search for a sentence.

Observers must not change anything, and search computes nothing for observers alone.

Letters: B unfinished sentences, K hypotheses per sentence, C candidates.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from calque.search.scoring import SentenceLengths
from calque.search.step import Live


class Candidates(NamedTuple):
    """The extensions that were compared at one step, best first; in diverse beam search, group by group."""

    log_probs: Tensor  # [B,C], of the whole hypothesis including the new token; −∞ if impossible
    parents: Tensor  # [B,C], index of the hypothesis that each one extends
    tokens: Tensor  # [B,C], the new tokens


class SearchStep(NamedTuple):
    """One step of search: the candidates that it compared, and what became of them."""

    length: int  # of the candidates, in tokens
    sentence: Tensor  # [B], index in the initial batch
    candidates: Candidates
    live: Live  # [B,K], the hypotheses that are kept
    parents: Tensor  # [B,K], index of the hypothesis that each kept one extends
    ended: Live  # [B,K], hypotheses that end at this step; −∞ in slots without one
    scores: Tensor  # [B,K], of the ended hypotheses; −∞ in slots without one
    done: Tensor  # [B], sentences whose search ends with this step
    matched: Tensor | None = None  # [B,C], how many tokens of required phrases each candidate has matched: its bank
    lengths: SentenceLengths | None = None  # what scores depend on beside log-probabilities, in beam search


@runtime_checkable
class SearchObserver(Protocol):
    """An object that search calls after every step."""

    def search_step(self, step: SearchStep) -> None:
        """Called after every step, with tensors that must not be modified."""
        ...


class Hooks(NamedTuple):
    """The callbacks that search calls at every step."""

    observer: SearchObserver | None = None
    give_up: Callable[[], Collection[int]] | None = None
    """Returns the sentences whose search the caller abandons, as indices in the initial batch."""

    def given_up(self, sentences: Tensor) -> Tensor | None:
        """A mask [B] of the sentences whose search `give_up` abandons, or None if there are none.

        `sentences` [B] are the indices, in the initial batch, of all sentences that are still searched.
        """
        indices = self.give_up() if self.give_up is not None else ()
        return torch.isin(sentences, torch.tensor(list(indices), device=sentences.device)) if indices else None


NO_HOOKS = Hooks()
