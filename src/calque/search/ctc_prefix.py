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
    """A text that CTC search found."""

    tokens: Prefix
    score: float  # hypotheses are ranked by it
    log_prob: float  # log P(tokens) of CTC, over the paths that search kept
    cut: bool = False  # whether a decoder's text was cut at the maximum length


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
    """At most `nbest` texts, best first, given log-probabilities [S,V]; each position keeps the `beam` best prefixes.

    A prefix is extended only by the `candidates` most likely tokens of a position, by default 2 × beam + 8.
    """
    values: NDArray[np.float64] = log_probs.double().cpu().numpy()
    count = min(values.shape[1], 2 * beam + 8 if candidates is None else candidates)
    root = _Node()
    language = None if prior is None else _Language(prior, root)
    live: dict[_Node, tuple[float, float]] = {root: (0.0, NOTHING)}  # (b, n)
    for row in values:
        likely = np.argsort(-row, kind="stable")[:count].tolist()
        scores: list[float] = row.tolist()
        after: dict[_Node, tuple[float, float]] = {}
        for node, (b, n) in live.items():
            total = _add(b, n)
            _keep(after, node, b=total + scores[blank], n=n + scores[node.token] if node.length else NOTHING)
            for token in likely:
                if token != blank:
                    before = b if node.length and token == node.token else total  # a repetition needs a blank between
                    _keep(after, node.child(token), b=NOTHING, n=before + scores[token])
        possible = [node for node, paths in after.items() if _add(*paths) > NOTHING]
        possible.sort(key=lambda node: (-_score(node, after[node], language, reward), node))
        live = {node: after[node] for node in possible[:beam]}
        for node in live:
            node.join()
        if language is not None:
            language.read(list(live))
    found = [
        CtcHypothesis(node.tokens, _score(node, paths, language, reward, ends=True), _add(*paths))
        for node, paths in live.items()
    ]
    return sorted(found, key=lambda hypothesis: (-hypothesis.score, hypothesis.tokens))[:nbest]


class _Node:
    """A prefix as a node of a trie: its last token, and the prefix before it.

    While a prefix is in the trie, it has only one node. So nodes are compared and hashed by identity, and the time per
    position does not depend on the length of the prefixes. Nodes are ordered lexicographically by their tokens.
    """

    __slots__ = ("children", "length", "parent", "token")

    def __init__(self, parent: "_Node | None" = None, token: int = -1) -> None:
        self.parent = parent
        self.token = token
        self.length: int = 0 if parent is None else parent.length + 1
        self.children: dict[int, _Node] = {}

    def child(self, token: int) -> "_Node":
        """The node of this prefix extended by `token`: the one in the trie or else a new one, not yet in the trie."""
        return self.children.get(token) or _Node(self, token)

    def join(self) -> None:
        """Adds the node to the trie."""
        if self.parent is not None:
            self.parent.children[self.token] = self

    @property
    def tokens(self) -> Prefix:
        reversed_tokens, node = [], self
        while node.parent is not None:
            reversed_tokens.append(node.token)
            node = node.parent
        return tuple(reversed(reversed_tokens))

    def __lt__(self, other: "_Node") -> bool:
        """Whether this prefix sorts first. Searches backwards for the difference, which is near the end in one beam."""
        shortest = min(self.length, other.length)
        first, second = self._of_length(shortest), other._of_length(shortest)
        if first is second:
            return self.length < other.length
        while first.parent is not None and second.parent is not None and first.parent is not second.parent:
            first, second = first.parent, second.parent
        return first.token < second.token

    def _of_length(self, length: int) -> "_Node":
        node = self
        while node.length > length and node.parent is not None:
            node = node.parent
        return node


def _score(
    node: _Node, paths: tuple[float, float], language: "_Language | None", reward: float, *, ends: bool = False
) -> float:
    prior = 0.0 if language is None else language.score(node, ends=ends)
    return _add(*paths) + prior + reward * node.length


def _keep(prefixes: dict[_Node, tuple[float, float]], node: _Node, *, b: float, n: float) -> None:
    """Adds log-probabilities of further paths to a prefix: `b` of paths that end in a blank, `n` in its last token."""
    before = prefixes.get(node)
    prefixes[node] = (b, n) if before is None else (_add(before[0], b), _add(before[1], n))


def _add(first: float, second: float) -> float:
    """log(exp(first) + exp(second))."""
    high, low = (first, second) if first >= second else (second, first)
    return high if low == NOTHING else high + math.log1p(math.exp(low - high))


class _Language:
    """Scores prefixes by their weighted log-probability under a language model; keeps the model's state for each.

    The model reads each prefix only once, one at a time. States of prefixes of the same length have the same shapes.
    """

    def __init__(self, prior: Prior, root: _Node) -> None:
        self.prior = prior
        self._next: dict[_Node, list[float]] = {}  # log-probabilities of the token after a prefix
        self._states: dict[_Node, Any] = {}
        self._totals: dict[_Node, float] = {root: 0.0}
        self._read(root, prior.start, prior.state)

    def score(self, node: _Node, *, ends: bool) -> float:
        if ends:
            return self.prior.weight * (self._totals[node] + self._next[node][self.prior.end])
        return self.prior.weight * self._total(node)

    def read(self, nodes: list[_Node]) -> None:
        """Lets the model read the last token of each new prefix, and forgets all prefixes that are not in `nodes`."""
        for node in nodes:
            if node not in self._next and node.parent is not None:
                self._totals[node] = self._total(node)
                self._read(node, node.token, self._states[node.parent])
        kept = set(nodes)
        for known in (self._next, self._states, self._totals):
            for node in [node for node in known if node not in kept]:
                del known[node]

    def _total(self, node: _Node) -> float:
        """The language model's log-probability of a prefix that it has read, or of such a prefix plus one token."""
        if node in self._totals or node.parent is None:
            return self._totals[node]
        return self._totals[node.parent] + self._next[node.parent][node.token]

    def _read(self, node: _Node, token: int, state: Any) -> None:
        device = next(iter(_tensors(state)), torch.zeros(0)).device
        output, after = self.prior.step(torch.tensor([token], device=device), state, ())
        self._next[node], self._states[node] = output.log_probs[0].double().tolist(), after


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, tuple) else []
