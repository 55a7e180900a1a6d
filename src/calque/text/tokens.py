"""Tokens: what stands between white space, for corpora that are tokenised already.

    the <unk> of N <s> 's   ->   the <unk> of N ␛<s> 's

Nothing is normalised and nothing split off. A literal `<unk>` is the unknown piece itself. The other special pieces
have no such meaning in a text: as tokens they are written with an ␛ before them, and so are tokens that look like that.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field

from calque.config import Config
from calque.errors import TextError
from calque.text.cleaning import ESCAPE
from calque.text.tokenizer import Tokenizer, refuse_surrogates
from calque.text.vocabulary import PIECES, UNK, Vocabulary

UNKNOWN = PIECES[UNK]
_RESERVED = frozenset(PIECES) - {UNKNOWN}


class TokensConfig(Config):
    kind: Literal["tokens"] = "tokens"

    vocabulary_size: int | None = Field(default=None, gt=len(PIECES))
    """At most this many pieces, the four special ones included: the most frequent tokens; all of them unless set."""

    joint: bool = False
    """One vocabulary for both sides."""

    minimum_count: int = Field(default=1, ge=1)
    """Tokens seen fewer times than this are left out."""


class TokensTokenizer(Tokenizer):
    """Law: detokenise(tokenise(s)) is s with every run of white space made one space, and none at its ends."""

    kind = "tokens"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._characters = frozenset("".join(map(_undo, vocabulary.pieces[len(PIECES) :])))

    @classmethod
    def train(cls, config: TokensConfig, *, lines: Iterable[str]) -> Self:
        """The tokenizer of the corpus's most frequent tokens."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_tokenise(line))
        counts.pop(UNKNOWN, None)
        if not counts:
            raise TextError(f"nothing to learn tokens from: every line is empty or all {UNKNOWN}")
        size = config.vocabulary_size or len(PIECES) + len(counts)
        return cls(Vocabulary.from_counts(counts, size=size, minimum_count=config.minimum_count))

    def normalised(self, text: str) -> str:
        return refuse_surrogates(text)

    def tokenise(self, text: str) -> list[str]:
        return _tokenise(text)

    def detokenise(self, pieces: Sequence[str]) -> str:
        return " ".join(map(_undo, pieces))

    def surface(self, piece: str) -> str:
        return f" {_undo(piece)}"

    def represents(self, character: str) -> bool:
        return character in self._characters or character.isspace()

    def unknown_characters(self, text: str) -> Counter[str]:
        """Those of `<unk>` are not lost with it: it says itself that something is."""
        return super().unknown_characters(" ".join(token for token in text.split() if token != UNKNOWN))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(Vocabulary.from_bytes(data))


def _tokenise(text: str) -> list[str]:
    return [ESCAPE + token if _is_reserved(token) else token for token in refuse_surrogates(text).split()]


def _undo(piece: str) -> str:
    """The token that a piece spells."""
    return piece.removeprefix(ESCAPE) if _is_reserved(piece) else piece


def _is_reserved(token: str) -> bool:
    """Whether it is a special piece, or one behind any number of ␛."""
    return token.lstrip(ESCAPE) in _RESERVED
