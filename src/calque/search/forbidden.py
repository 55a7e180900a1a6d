"""Words that must not appear, however they would be cut into pieces.

Letters: N hypotheses, V vocabulary, t tokens so far.
"""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from calque.text.scripts import begins_apart, is_unspaced


class Forbidden:
    """No hypothesis spells one of the words between boundaries: the text's ends, spaces and punctuation.

    In a word of a script without spaces (Chinese, Japanese, Thai) there are none: it is forbidden wherever it stands.
    `surfaces` [V] is what each token adds to the text, in UTF-8; marks add nothing. It is a constraint as those in
    constraints.py are, and looks at the text that tokens spell, so that no other spelling in pieces gets past it.
    """

    def __init__(self, words: Sequence[str], *, surfaces: Sequence[bytes], end: int) -> None:
        self.words = [word.encode() for word in words if word]
        self.bounded = {word.encode(): not any(map(is_unspaced, word)) for word in words}
        self.surfaces = surfaces
        self.end = end
        self.apart = torch.tensor([not surface or begins_apart(surface) for surface in surfaces])
        self.is_whole = bool(self.apart.all())  # every token is a word of its own: it cannot go on to a longer one
        inner = [token for token, surface in enumerate(surfaces) if _parts(surface)]
        everything = range(len(surfaces))
        self.candidates = {word: inner if self.bounded[word] else everything for word in self.words}
        self.holding = {
            word: [token for token in self.candidates[word] if word in surfaces[token]] for word in self.words
        }
        self.closing = {
            word: [
                token for token, each in enumerate(surfaces) if each and (each.endswith(word) or word.endswith(each))
            ]
            for word in self.words
        }
        self._banned = lru_cache(maxsize=1 << 14)(self._banned_after)
        self._banned_last = lru_cache(maxsize=1 << 12)(self._banned_at_the_end)
        self.unknown: Sequence[Sequence[bytes]] = ()
        self.maximum: Tensor | None = None

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

    def start(self, sentences: int, *, device: torch.device) -> Tensor:
        """[N,t], what was said."""
        return torch.zeros(sentences, 0, dtype=torch.long, device=device)

    def read(self, tokens: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, tokens[:, None]], dim=1)

    def allow(self, log_probs: Tensor, state: Tensor, *, sentence: Tensor) -> Tensor:
        banned = torch.zeros(log_probs.shape, dtype=torch.bool)
        size = len(self.surfaces)
        is_last = [False] * len(sentence)
        if self.maximum is not None:
            is_last = (self.maximum[sentence] == state.shape[1] + 1).tolist()
        for row, (tokens, place) in enumerate(zip(state.tolist(), sentence.tolist(), strict=True)):
            more = self.unknown[place] if self.unknown else ()
            text = self._text(tokens, more)
            mask = self._banned_last(text) if is_last[row] else self._banned(text)
            if mask is not None:
                banned[row, :size] = mask
            for number, surface in enumerate(more):
                banned[row, size + number] = self._may_not_follow(text, surface)
        return log_probs.masked_fill(banned.to(log_probs.device), -torch.inf) if bool(banned.any()) else log_probs

    def _text(self, tokens: Sequence[int], more: Sequence[bytes]) -> bytes:
        """The end of what tokens spell: as much as a word and what stands before it can need."""
        size = len(self.surfaces)
        there = (token for token in tokens if token < size + len(more))
        text = b"".join(self.surfaces[token] if token < size else more[token - size] for token in there)
        keep = max(map(len, self.words), default=0) + 4
        return text if len(text) <= keep else b"\0" + text[-keep:]  # the mark: this is not where the text begins

    def _may_not_follow(self, text: bytes, surface: bytes) -> bool:
        """Whether a copied word would complete a forbidden one, or be it: copies are whole words."""
        whole = any(word in surface and surface.strip() == word for word in self.words)
        ends = any(
            self.bounded[word] and self._stands_at_the_end(text, word) and begins_apart(surface) for word in self.words
        )
        return whole or ends or any(self._completes(text, surface, word) for word in self.words)

    def _spells(self, text: bytes, word: bytes) -> list[int]:
        """Tokens after which the text ends with the word."""
        return [
            token
            for token, surface in enumerate(self.surfaces)
            if surface.endswith(word) and self._stands_at_the_end(text + surface, word)
        ]

    def _banned_after(self, text: bytes) -> Tensor | None:
        """[V], which tokens may not come after a text; None for none."""
        tokens: set[int] = set()
        ends_a_word = False
        for word in self.words:
            if self.bounded[word]:
                ends_a_word = ends_a_word or self._stands_at_the_end(text, word)
                if self.is_whole:
                    tokens.update(self._spells(text, word))
            begun = not text or any(text.endswith(word[:size]) for size in range(1, len(word) + 1))
            candidates = self.candidates[word] if begun else self.holding[word]
            tokens.update(token for token in candidates if self._completes(text, self.surfaces[token], word))
        if not tokens and not ends_a_word:
            return None
        found = self.apart.clone() if ends_a_word else torch.zeros(len(self.surfaces), dtype=torch.bool)
        found[sorted(tokens)] = True
        return found

    def _banned_at_the_end(self, text: bytes) -> Tensor | None:
        """The same where the text is cut after the token: a word that stands there then is a word too."""
        found = self._banned(text)
        tokens = [
            token
            for word in self.words
            for token in self.closing[word]
            if self._stands_at_the_end(text + self.surfaces[token], word)
        ]
        if not tokens:
            return found
        found = torch.zeros(len(self.surfaces), dtype=torch.bool) if found is None else found.clone()
        found[tokens] = True
        return found

    def _completes(self, text: bytes, surface: bytes, word: bytes) -> bool:
        """Whether the word stands in text + surface, the end of it (or its boundary) in the surface."""
        whole, begin = text + surface, len(text)
        place = whole.find(word, max(0, begin - len(word)))
        while place != -1:
            after = place + len(word)
            if not self.bounded[word]:
                if after > begin:
                    return True
            elif after < len(whole) and after >= begin and self._is_apart(whole, place) and begins_apart(whole[after:]):
                return True
            place = whole.find(word, place + 1)
        return False

    def _stands_at_the_end(self, text: bytes, word: bytes) -> bool:
        return text.endswith(word) and self._is_apart(text, len(text) - len(word))

    def _is_apart(self, text: bytes, place: int) -> bool:
        """Whether what stands before a place of the text is its beginning or no letter."""
        if place == 0:
            return True
        before = text[max(0, place - 4) : place].decode(errors="ignore")
        return bool(before) and not before[-1].isalnum() and before[-1] != "\0"


def _parts(surface: bytes) -> bool:
    """Whether a word ends within a token."""
    text = surface.decode(errors="ignore")
    return any(one.isalnum() and not other.isalnum() for one, other in pairwise(text))
