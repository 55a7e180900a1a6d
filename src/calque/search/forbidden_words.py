"""Words that must not appear, however they would be cut into pieces.

Letters: B sentences, N hypotheses, V vocabulary.
"""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.forbidden_automaton import Ban, Ending, Words


class Said(NamedTuple):
    """What is known of hypotheses."""

    ending: Tensor  # [N], which of the endings that texts had so far
    size: Tensor  # [N], how many tokens they have
    sentence: Tensor  # [N], which of the batch's


class Forbidden:
    """No hypothesis spells one of the words, see `Words`; a constraint as those in constraints.py are.

    It looks at the text that tokens spell, so that no other spelling in pieces gets past it, and of the text at no more
    than its ending. Few endings matter: mostly no word has begun. What follows from each is found out once.
    """

    def __init__(self, words: Sequence[str], *, surfaces: Sequence[bytes]) -> None:
        self.words = Words(words, surfaces=surfaces)
        self.endings = [Ending()]
        self.numbers = {Ending(): 0}
        self.unknown: Sequence[Sequence[bytes]] = ()
        self.maximum: Tensor | None = None
        self.boundaries = torch.tensor(self.words.boundaries).nonzero().squeeze(1)
        self._next = lru_cache(maxsize=1 << 18)(self._number_after)
        self._may_copy = lru_cache(maxsize=1 << 16)(self.words.may_copy)

    def beside(self, unknown: Sequence[Sequence[bytes]]) -> "Forbidden":
        """The same for a batch whose sentences can copy words outside the vocabulary: what each of them adds."""
        other = copy(self)
        other.unknown = unknown
        return other

    def within(self, maximum: Tensor) -> "Forbidden":
        """The same for a batch that is cut at these lengths [B], where a word ends without a boundary."""
        other = copy(self)
        other.maximum = maximum
        return other

    def start(self, sentences: int, *, device: torch.device) -> Said:
        nothing = torch.zeros(sentences, dtype=torch.long, device=device)
        return Said(nothing, nothing, torch.arange(sentences, device=device))

    def read(self, tokens: Tensor, state: Said) -> Said:
        rows = zip(*(part.tolist() for part in (state.ending, tokens, state.sentence)), strict=True)
        numbers = [self._next(number, self._surface(token, sentence)) for number, token, sentence in rows]
        return Said(tokens.new_tensor(numbers), state.size + 1, state.sentence)

    def allow(self, log_probs: Tensor, state: Said, *, sentence: Tensor) -> Tensor:
        endings = [self.endings[number] for number in state.ending.tolist()]
        at_last = [False] * len(endings)
        if self.maximum is not None:
            at_last = (self.maximum[sentence] == state.size + 1).tolist()
        bans = [
            self.words.after_at_last(each) if is_last else self.words.after(each)
            for each, is_last in zip(endings, at_last, strict=True)
        ]
        copied = self._copied(endings, sentence.tolist()) if self.unknown else []
        return self._without(log_probs, bans, copied)

    def _without(self, log_probs: Tensor, bans: Sequence[Ban], copied: Sequence[tuple[int, int]]) -> Tensor:
        """[N,V] without each row's ban, and without copied words at (row, token)."""
        single = [(row, token) for row, ban in enumerate(bans) for token in ban.tokens] + list(copied)
        wide = [row for row, ban in enumerate(bans) if ban.boundaries]
        if not single and not wide:
            return log_probs
        allowed, device = log_probs.clone(), log_probs.device
        if single:
            rows, tokens = torch.tensor(single, device=device).unbind(1)
            allowed[rows, tokens] = -torch.inf
        if wide:
            allowed[torch.tensor(wide, device=device)[:, None], self.boundaries.to(device)] = -torch.inf
        return allowed

    def _copied(self, endings: Sequence[Ending], sentences: Sequence[int]) -> list[tuple[int, int]]:
        """The row and token of each copied word that may not come next."""
        size = len(self.words.surfaces)
        return [
            (row, size + number)
            for row, (ending, sentence) in enumerate(zip(endings, sentences, strict=True))
            for number, surface in enumerate(self.unknown[sentence])
            if not self._may_copy(ending, surface)
        ]

    def _surface(self, token: int, sentence: int) -> bytes:
        """What a token adds; nothing where it is no word of the sentence."""
        size = len(self.words.surfaces)
        if token < size:
            return self.words.surfaces[token]
        own = self.unknown[sentence] if self.unknown else ()
        return own[token - size] if token - size < len(own) else b""

    def _number_after(self, number: int, surface: bytes) -> int:
        """The ending of a text with one of the endings that goes on with a surface."""
        ending = self.words.ending(self.endings[number], surface)
        if ending not in self.numbers:
            self.numbers[ending] = len(self.endings)
            self.endings.append(ending)
        return self.numbers[ending]
