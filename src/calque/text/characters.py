"""Characters: every character (code point of the NFC form) is a piece."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field

from calque.config import Config
from calque.errors import TextError
from calque.text.tokenizer import Tokenizer, normalise
from calque.text.vocabulary import PIECES, Vocabulary


class CharactersConfig(Config):
    kind: Literal["characters"] = "characters"

    vocabulary_size: int = Field(default=8000, gt=len(PIECES))
    """The maximum number of pieces: the four special ones and the most frequent characters of the corpus."""

    joint: bool = False
    """Use one vocabulary for both sides."""


class CharactersTokenizer(Tokenizer):
    """Splits text into characters. Pieces keep the whole text; ids lose characters outside the vocabulary."""

    kind = "characters"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def train(cls, config: CharactersConfig, *, lines: Iterable[str]) -> Self:
        """A tokenizer whose vocabulary is the most frequent characters of the lines."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(normalise(line))
        if not counts:
            raise TextError("there is nothing to learn characters from: every line is empty")
        return cls(Vocabulary.from_counts(counts, size=config.vocabulary_size))

    def tokenise(self, text: str) -> list[str]:
        return list(normalise(text))

    def detokenise(self, pieces: Sequence[str]) -> str:
        return "".join(pieces)

    def represents(self, character: str) -> bool:
        return character in self.vocabulary

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(Vocabulary.from_bytes(data))
