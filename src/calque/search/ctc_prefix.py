"""Decoding of CTC: the best path, and prefix beam search with an optional language model.

Prefix beam search (Hannun et al. 2014) keeps, for every prefix of a text, the probabilities of all paths so far that
collapse to it and end in a blank (b) or in its last token (n), and ranks prefixes by

    log P(prefix) + w log P_LM(prefix) + r |prefix|

where P_LM includes the end of the text once the recording ends. Letters: S positions, V vocabulary.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.search.step import Step

Prefix = tuple[int, ...]

NOTHING = -math.inf


class CtcHypothesis(NamedTuple):
    """One text that CTC search found."""

    tokens: Prefix
    score: float  # hypotheses are ranked by it
    log_prob: float  # log P(tokens) of CTC, over the paths that search kept


class Prior(NamedTuple):
    """A language model for prefix search: its step function and its state before the text."""

    step: Step
    state: Any
    start: int  # the token it reads before a text
    end: int
    weight: float  # w


def collapse(path: list[int], *, blank: int) -> Prefix:
    """The text of a path: repetitions become one token, then blanks are removed.

    >>> collapse([0, 5, 5, 0, 5, 7], blank=0)
    (5, 5, 7)
    """
    return tuple(
        token for place, token in enumerate(path) if token != blank and (place == 0 or path[place - 1] != token)
    )


def best_path(log_probs: Tensor, *, blank: int) -> CtcHypothesis:
    """The text of the most likely path, given log-probabilities [S,V]."""
    best = log_probs.max(dim=-1)
    total = float(best.values.sum())
    return CtcHypothesis(collapse(best.indices.tolist(), blank=blank), total, total)


def prefix_beam_search(
    log_probs: Tensor,
    *,
    beam: int,
    blank: int,
    nbest: int = 1,
    prior: Prior | None = None,
    reward: float = 0.0,
    candidates: int | None = None,
) -> list[CtcHypothesis]:
    """At most `nbest` texts, best first, given log-probabilities [S,V]; the `beam` best prefixes survive a position.

    A prefix is extended only by the `candidates` most likely tokens of a position; by default, by 2 × beam + 8.
    """
    values: NDArray[np.float64] = log_probs.double().cpu().numpy()
    count = min(values.shape[1], 2 * beam + 8 if candidates is None else candidates)
    language = None if prior is None else _Language(prior)
    live: dict[Prefix, tuple[float, float]] = {(): (0.0, NOTHING)}  # (b, n)
    for row in values:
        likely = np.argsort(-row, kind="stable")[:count].tolist()
        scores: list[float] = row.tolist()
        after: dict[Prefix, tuple[float, float]] = {}
        for prefix, (b, n) in live.items():
            total = _add(b, n)
            _keep(after, prefix, b=total + scores[blank], n=n + scores[prefix[-1]] if prefix else NOTHING)
            for token in likely:
                if token != blank:
                    before = b if prefix and token == prefix[-1] else total  # a repetition needs a blank between
                    _keep(after, (*prefix, token), b=NOTHING, n=before + scores[token])
        ranked = sorted(after, key=lambda prefix: (-_score(prefix, after[prefix], language, reward), prefix))
        live = {prefix: after[prefix] for prefix in ranked[:beam] if _add(*after[prefix]) > NOTHING}
        if language is not None:
            language.read(list(live))
    found = [
        CtcHypothesis(prefix, _score(prefix, paths, language, reward, ends=True), _add(*paths))
        for prefix, paths in live.items()
    ]
    return sorted(found, key=lambda hypothesis: (-hypothesis.score, hypothesis.tokens))[:nbest]


def _score(
    prefix: Prefix, paths: tuple[float, float], language: "_Language | None", reward: float, *, ends: bool = False
) -> float:
    prior = 0.0 if language is None else language.score(prefix, ends=ends)
    return _add(*paths) + prior + reward * len(prefix)


def _keep(prefixes: dict[Prefix, tuple[float, float]], prefix: Prefix, *, b: float, n: float) -> None:
    """Adds the probabilities of further paths to a prefix."""
    before = prefixes.get(prefix)
    prefixes[prefix] = (b, n) if before is None else (_add(before[0], b), _add(before[1], n))


def _add(first: float, second: float) -> float:
    """log(exp(first) + exp(second))."""
    high, low = (first, second) if first >= second else (second, first)
    return high if low == NOTHING else high + math.log1p(math.exp(low - high))


class _Language:
    """The weighted log-probabilities of prefixes under a language model, whose states are kept by prefix.

    Prefixes of one length have states of the same shapes, and their rows do not affect each other; they are read one
    by one, as a survivor is read only once.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self._next: dict[Prefix, list[float]] = {}  # log-probabilities of the token after a prefix
        self._states: dict[Prefix, Any] = {}
        self._totals: dict[Prefix, float] = {(): 0.0}
        self._read((), prior.start, prior.state)

    def score(self, prefix: Prefix, *, ends: bool) -> float:
        if ends:
            return self.prior.weight * (self._totals[prefix] + self._next[prefix][self.prior.end])
        return self.prior.weight * self._total(prefix)

    def read(self, prefixes: list[Prefix]) -> None:
        """Reads the last token of every new prefix, and forgets all others."""
        for prefix in prefixes:
            if prefix not in self._next:
                self._totals[prefix] = self._total(prefix)
                self._read(prefix, prefix[-1], self._states[prefix[:-1]])
        kept = set(prefixes)
        for known in (self._next, self._states, self._totals):
            for prefix in [prefix for prefix in known if prefix not in kept]:
                del known[prefix]

    def _total(self, prefix: Prefix) -> float:
        """The log-probability of a prefix that survived, or of one that extends a survivor."""
        if prefix in self._totals:
            return self._totals[prefix]
        return self._totals[prefix[:-1]] + self._next[prefix[:-1]][prefix[-1]]

    def _read(self, prefix: Prefix, token: int, state: Any) -> None:
        device = next(iter(_tensors(state)), torch.zeros(0)).device
        output, after = self.prior.step(torch.tensor([token], device=device), state, ())
        self._next[prefix], self._states[prefix] = output.log_probs[0].double().tolist(), after


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, tuple) else []
