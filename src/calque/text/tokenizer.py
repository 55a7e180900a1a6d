"""The tokenizer: text to pieces and ids, and back."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self
from unicodedata import is_normalized, normalize

from calque.errors import TextError
from calque.text.scripts import as_bytes, is_unspaced
from calque.text.vocabulary import BOS, EOS, PAD, Vocabulary
from calque.text.word_table import FlatIds, flat_ids

_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(text: str) -> str:
    """The text in Unicode's normalisation form C (NFC). Raises a TextError if it contains a lone surrogate."""
    return text if text.isascii() else normalize("NFC", refuse_surrogates(text))


def is_normalised(text: str) -> bool:
    """Whether `normalise` would return the text unchanged; False if it contains a lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return is_normalized("NFC", text)


def refuse_surrogates(text: str) -> str:
    """Returns the text unchanged; raises a TextError if it contains a lone surrogate, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    if found := _SURROGATE.search(text):
        raise TextError(
            f"character {found.start() + 1} is a lone surrogate (U+{ord(found[0]):04X}), which is not valid Unicode; "
            "decode the text as UTF-8 with an error handler such as errors='replace'"
        )
    return text


class Tokenizer(ABC):
    """Splits text into pieces with ids.   Law: detokenise(tokenise(s)) == normalised(s).

    The words and tokens tokenizers also reduce runs of spaces to one and drop spaces at the ends.
    """

    kind: ClassVar[str]
    suffix: ClassVar[str] = "vocabulary"
    is_closed: ClassVar[bool] = False
    """Whether every piece of every text is in the vocabulary, so that none is unknown."""
    vocabulary: Vocabulary

    def normalised(self, text: str) -> str:
        """The text as `tokenise` reads it, by default in NFC. Raises a TextError if it contains a lone surrogate."""
        return normalise(text)

    @abstractmethod
    def tokenise(self, text: str) -> list[str]:
        """The pieces of the normalised text."""

    @abstractmethod
    def detokenise(self, pieces: Sequence[str]) -> str:
        """The text that the pieces spell. Every list of pieces spells some text."""

    @abstractmethod
    def represents(self, character: str) -> bool:
        """Whether any piece of the vocabulary contains this character."""

    def surface(self, piece: str) -> str | bytes:
        """The text that a piece adds when it follows other pieces, with its leading space if it has one."""
        return piece

    def starts_word(self, piece: str) -> bool:
        """Whether a piece begins a word: it starts with a space, or with a character of a script without spaces."""
        surface = self.surface(piece)
        text = surface.decode(errors="ignore") if isinstance(surface, bytes) else surface
        return text[:1] == " " or any(map(is_unspaced, text[:1]))

    def surfaces(self) -> list[bytes]:
        """For each id, the text that its piece adds, in UTF-8. Padding, begin and end of sentence add none."""
        surfaces = [as_bytes(self.surface(piece)) for piece in self.vocabulary.pieces]
        return [b"" if id in (PAD, BOS, EOS) else surface for id, surface in enumerate(surfaces)]

    def spelled(self, text: str) -> str:
        """The concatenated `surfaces` of the text's pieces, without the leading space."""
        return self.normalised(text)

    def encode(self, text: str) -> list[int]:
        """The ids of the text's pieces, without those of begin and end of sentence."""
        return self.vocabulary.ids(self.tokenise(text))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, as `encode` returns them."""
        return [self.encode(text) for text in texts]

    def encode_flat(self, texts: Sequence[str]) -> FlatIds:
        """The ids of all texts in one flat array, which is faster for whole corpora."""
        return flat_ids(self.encode_many(texts))

    def decode(self, ids: Sequence[int], *, unknown: Sequence[str] = ()) -> str:
        """The text that the ids spell. Padding, begin and end are dropped, and the unknown piece becomes `<unk>`.

        Ids beyond the vocabulary stand for the pieces in `unknown` (calque/text/copy_ids.py).
        """
        size = len(self.vocabulary)
        kept = (id for id in ids if id not in (PAD, BOS, EOS))
        return self.detokenise([self.vocabulary.piece(id) if id < size else unknown[id - size] for id in kept])

    def unknown_characters(self, text: str) -> Counter[str]:
        """The counts of characters that no piece contains. They are lost or, with byte fallback, spelled in bytes."""
        characters = self.normalised(text)
        unknown = {character for character in set(characters) if not self.represents(character)}
        return Counter(character for character in characters if character in unknown) if unknown else Counter()

    def to_bytes(self) -> bytes:
        """The contents of the tokenizer's file."""
        return self.vocabulary.to_bytes()

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tokenizer whose `to_bytes` returned the data. Raises a TextError if the data is invalid."""


class Tokenizers(NamedTuple):
    """A tokenizer for each side. If both sides share a vocabulary, it is the same object."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target
