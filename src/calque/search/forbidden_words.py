"""The constraint of forbidden words, which holds however a word is segmented into pieces.

Letters: B sentences, N hypotheses, V vocabulary.
"""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.forbidden_automaton import Ban, ForbiddenAutomaton, Suffix


class TextState(NamedTuple):
    """The state of the forbidden-word constraint, one row per hypothesis."""

    suffix: Tensor  # [N], index of its text's suffix in `Forbidden.suffixes`
    size: Tensor  # [N], number of tokens
    sentence: Tensor  # [N], index in the batch


class Forbidden:
    """The constraint that no hypothesis may contain a forbidden word (see `ForbiddenAutomaton`).

    Words are matched against the text that the tokens spell, so that no other segmentation evades the constraint. Only
    the suffix of the text that determines the banned tokens is kept. Distinct suffixes are few, as usually no forbidden
    word has started, and the banned tokens are computed once per suffix. `spellings` are the strings to
    find in the concatenated surfaces of tokens, if they differ from the forbidden words in a translation's text.
    """

    def __init__(
        self, words: Sequence[str], *, surfaces: Sequence[bytes], spellings: Sequence[str] | None = None
    ) -> None:
        self.words = ForbiddenAutomaton(words if spellings is None else spellings, surfaces=surfaces)
        self.found_in = ForbiddenAutomaton(words, surfaces=()).found_in
        self.suffixes = [Suffix()]
        self.numbers = {Suffix(): 0}
        self.unknown: Sequence[Sequence[bytes]] = ()
        self.maximum: Tensor | None = None
        self.boundaries = torch.tensor(self.words.boundaries).nonzero().squeeze(1)
        self._next = lru_cache(maxsize=1 << 18)(self._append)
        self._may_copy = lru_cache(maxsize=1 << 16)(self.words.may_copy)

    def with_copied_words(self, unknown: Sequence[Sequence[bytes]]) -> "Forbidden":
        """A copy for a batch in which each sentence can copy its own out-of-vocabulary words, given as bytes."""
        constraint = copy(self)
        constraint.unknown = unknown
        return constraint

    def with_maximum(self, maximum: Tensor) -> "Forbidden":
        """A copy for a batch whose hypotheses are cut at these lengths [B]; the cut counts as a word boundary."""
        constraint = copy(self)
        constraint.maximum = maximum
        return constraint

    def start(self, sentences: int, *, device: torch.device) -> TextState:
        zeros = torch.zeros(sentences, dtype=torch.long, device=device)
        return TextState(zeros, zeros, torch.arange(sentences, device=device))

    def read(self, tokens: Tensor, state: TextState) -> TextState:
        rows = zip(*(part.tolist() for part in (state.suffix, tokens, state.sentence)), strict=True)
        numbers = [self._next(number, self._surface(token, sentence)) for number, token, sentence in rows]
        return TextState(tokens.new_tensor(numbers), state.size + 1, state.sentence)

    def allow(self, log_probs: Tensor, state: TextState, *, sentence: Tensor) -> Tensor:
        suffixes = [self.suffixes[number] for number in state.suffix.tolist()]
        at_maximum = [False] * len(suffixes)
        if self.maximum is not None:
            at_maximum = (self.maximum[sentence] == state.size + 1).tolist()
        bans = [
            self.words.after_last(suffix) if is_last else self.words.after(suffix)
            for suffix, is_last in zip(suffixes, at_maximum, strict=True)
        ]
        copied = self._forbidden_copies(suffixes, sentence.tolist()) if self.unknown else []
        return self._apply(log_probs, bans, copied)

    def _apply(self, log_probs: Tensor, bans: Sequence[Ban], copied: Sequence[tuple[int, int]]) -> Tensor:
        """The log-probabilities [N,V], with −∞ for each row's banned tokens and for the (row, token) pairs `copied`."""
        pairs = [(row, token) for row, ban in enumerate(bans) for token in ban.tokens] + list(copied)
        boundary_rows = [row for row, ban in enumerate(bans) if ban.boundaries]
        if not pairs and not boundary_rows:
            return log_probs
        allowed, device = log_probs.clone(), log_probs.device
        if pairs:
            rows, tokens = torch.tensor(pairs, device=device).unbind(1)
            allowed[rows, tokens] = -torch.inf
        if boundary_rows:
            allowed[torch.tensor(boundary_rows, device=device)[:, None], self.boundaries.to(device)] = -torch.inf
        return allowed

    def _forbidden_copies(self, suffixes: Sequence[Suffix], sentences: Sequence[int]) -> list[tuple[int, int]]:
        """The (row, token) of each out-of-vocabulary source word that the hypothesis in that row may not copy next."""
        size = len(self.words.surfaces)
        return [
            (row, size + number)
            for row, (suffix, sentence) in enumerate(zip(suffixes, sentences, strict=True))
            for number, surface in enumerate(self.unknown[sentence])
            if not self._may_copy(suffix, surface)
        ]

    def _surface(self, token: int, sentence: int) -> bytes:
        """The bytes that `token` adds to the text; none for the id of a copied word that the sentence does not have."""
        size = len(self.words.surfaces)
        if token < size:
            return self.words.surfaces[token]
        copied = self.unknown[sentence] if self.unknown else ()
        return copied[token - size] if token - size < len(copied) else b""

    def _append(self, number: int, surface: bytes) -> int:
        """The state of the automaton after reading `surface` in state `number`.

        A state stands for the longest suffix of the text so far that is the beginning of a forbidden word.
        """
        suffix = self.words.suffix(self.suffixes[number], surface)
        if suffix not in self.numbers:
            self.numbers[suffix] = len(self.suffixes)
            self.suffixes.append(suffix)
        return self.numbers[suffix]
