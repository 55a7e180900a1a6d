"""Words: runs of letters, marks and digits. Every punctuation character is a piece of its own, with joiners.

    Don't (panic)!   ->   Don ￭'￭ t (￭ panic ￭) ￭!

The joiner ￭ marks a side without a space, so that the pieces restore the text exactly, except that runs of spaces are
reduced to one and spaces at the ends are dropped. Ids also lose words that are not in the vocabulary.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, Self
from unicodedata import category

from pydantic import Field

from calque.config import Config
from calque.errors import TextError
from calque.text.cleaning import Escape
from calque.text.tokenizer import Tokenizer, normalise
from calque.text.vocabulary import PIECES, Vocabulary

JOINER = "￭"
_ESCAPE = Escape(JOINER)
_MEMORABLE = 64


class WordsConfig(Config):
    kind: Literal["words"] = "words"

    vocabulary_size: int = Field(default=30_000, gt=len(PIECES))
    """The maximum number of pieces: the four special ones and the most frequent words of the corpus."""

    joint: bool = False
    """Use one vocabulary for both sides."""

    minimum_count: int = Field(default=1, ge=1)
    """Words that occur less often than this are left out of the vocabulary."""


class WordsTokenizer(Tokenizer):
    """Splits text into words and punctuation marks with joiners.

    Law: detokenise(tokenise(s)) is NFC(s) with every run of spaces reduced to one space, and none at the ends.
    """

    kind = "words"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._characters = frozenset("".join(vocabulary.pieces[len(PIECES) :])) - {JOINER} | {" "}

    @classmethod
    def train(cls, config: WordsConfig, *, lines: Iterable[str]) -> Self:
        """A tokenizer whose vocabulary is the most frequent words of the lines."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_tokenise(line))
        if not counts:
            raise TextError("there is nothing to learn words from: every line is empty")
        size, minimum_count = config.vocabulary_size, config.minimum_count
        return cls(Vocabulary.from_counts(counts, size=size, minimum_count=minimum_count))

    def tokenise(self, text: str) -> list[str]:
        return list(_tokenise(text))

    def detokenise(self, pieces: Sequence[str]) -> str:
        spaced = " ".join(pieces)
        return _ESCAPE.undo(spaced.replace(f" {JOINER}", "").replace(f"{JOINER} ", "").replace(JOINER, ""))

    def surface(self, piece: str) -> str:
        space = "" if piece.startswith(JOINER) else " "
        return space + _ESCAPE.undo(piece.replace(JOINER, ""))

    def surfaces(self) -> list[bytes]:
        """The text that each piece adds, in UTF-8. A joiner on the right is kept; it cancels the next leading space."""
        joined = (JOINER.encode() if piece.endswith(JOINER) else b"" for piece in self.vocabulary.pieces)
        return [surface + joiner for surface, joiner in zip(super().surfaces(), joined, strict=True)]

    def spelled(self, text: str) -> str:
        pieces = self.tokenise(text)
        surfaces = (self.surface(piece) + (JOINER if piece.endswith(JOINER) else "") for piece in pieces)
        return "".join(surfaces).removeprefix(" ")

    def represents(self, character: str) -> bool:
        return self._characters.issuperset(_ESCAPE.apply(character))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(Vocabulary.from_bytes(data))


def _tokenise(text: str) -> Iterator[str]:
    for chunk in filter(None, _ESCAPE.apply(normalise(text)).split(" ")):
        yield from _remembered(chunk) if len(chunk) <= _MEMORABLE else _split(chunk)


def _split(chunk: str) -> tuple[str, ...]:
    """The pieces of a text without spaces. Joiners ￭ tie punctuation to any piece before it and to a word after it."""
    parts = [part for alone, run in groupby(chunk, key=_stands_alone) for part in (run if alone else ["".join(run)])]
    words = [not _stands_alone(part[0]) for part in parts]
    left = [JOINER if at and not word else "" for at, word in enumerate(words)]
    right = [JOINER if follows and not word else "" for word, follows in zip(words, [*words[1:], False], strict=True)]
    return tuple(map("".join, zip(left, parts, right, strict=True)))


_remembered = lru_cache(maxsize=1 << 16)(_split)


@lru_cache(maxsize=1 << 16)
def _stands_alone(character: str) -> bool:
    """Whether the character is a piece of its own, as punctuation, symbols, separators and control characters are."""
    kind = category(character)
    return kind[0] in "PSZ" or kind == "Cc"
