"""Tokens: the text is split at white space only, for corpora that are already tokenised.

    the <unk> of N <s> 's   ->   the <unk> of N ␛<s> 's

There is no normalisation and no further splitting. A literal `<unk>` is the unknown piece itself. The other special
pieces have no special meaning in a text: a literal `<s>` is escaped with a leading ␛, and so is a token that already
looks like an escaped special piece.
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
    """The maximum number of pieces: the four special ones and the most frequent tokens; by default, all tokens."""

    joint: bool = False
    """Use one vocabulary for both sides."""

    minimum_count: int = Field(default=1, ge=1)
    """Tokens that occur less often than this are left out of the vocabulary."""


class TokensTokenizer(Tokenizer):
    """Splits text at white space only.

    Law: detokenise(tokenise(s)) is s with every run of white space reduced to one space, and none at the ends.
    """

    kind = "tokens"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._characters = frozenset("".join(map(_undo, vocabulary.pieces[len(PIECES) :])))

    @classmethod
    def train(cls, config: TokensConfig, *, lines: Iterable[str]) -> Self:
        """A tokenizer whose vocabulary is the most frequent tokens of the lines."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_tokenise(line))
        counts.pop(UNKNOWN, None)
        if not counts:
            raise TextError(f"there is nothing to learn tokens from: every line is empty or contains only {UNKNOWN}")
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
        """How often each character that no piece contains occurs, outside the unknown token `<unk>`."""
        return super().unknown_characters(" ".join(token for token in text.split() if token != UNKNOWN))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(Vocabulary.from_bytes(data))


def _tokenise(text: str) -> list[str]:
    return [ESCAPE + token if _is_reserved(token) else token for token in refuse_surrogates(text).split()]


def _undo(piece: str) -> str:
    """The token in a text that a vocabulary piece stands for: removes the ␛ that escapes a literal `<s>`, say."""
    return piece.removeprefix(ESCAPE) if _is_reserved(piece) else piece


def _is_reserved(token: str) -> bool:
    """Whether a token is a special piece other than `<unk>`, possibly with one or more escapes ␛ before it."""
    return token.lstrip(ESCAPE) in _RESERVED
