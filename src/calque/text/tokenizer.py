"""The tokenizer: text to pieces and ids, and back."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self
from unicodedata import normalize

from calque.errors import TextError
from calque.text.scripts import as_bytes, is_unspaced
from calque.text.vocabulary import BOS, EOS, PAD, Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(text: str) -> str:
    """The text in Unicode's NFC; text with a lone surrogate is refused."""
    return text if text.isascii() else normalize("NFC", refuse_surrogates(text))


def refuse_surrogates(text: str) -> str:
    """Returns the text unchanged; raises a TextError if it contains a lone surrogate, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    if found := _SURROGATE.search(text):
        raise TextError(
            f"character {found.start() + 1} is half a character (the lone surrogate U+{ord(found[0]):04X}), "
            "which is not Unicode text; read the text as UTF-8 and choose what to do with its errors"
        )
    return text


class Tokenizer(ABC):
    """Cuts text into the pieces of a vocabulary.   Law: detokenise(tokenise(s)) == normalised(s).

    Words and tokens keep single spaces.
    """

    kind: ClassVar[str]
    suffix: ClassVar[str] = "vocabulary"
    is_closed: ClassVar[bool] = False
    """Whether every text has only pieces of the vocabulary."""
    vocabulary: Vocabulary

    def normalised(self, text: str) -> str:
        """The text as it is read, in NFC unless said otherwise; text with a lone surrogate is refused."""
        return normalise(text)

    @abstractmethod
    def tokenise(self, text: str) -> list[str]:
        """The pieces of the text as it is read."""

    @abstractmethod
    def detokenise(self, pieces: Sequence[str]) -> str:
        """The text that the pieces spell; any list of pieces spells some text."""

    @abstractmethod
    def represents(self, character: str) -> bool:
        """Whether the vocabulary has a piece with this character in it."""

    def surface(self, piece: str) -> str | bytes:
        """What a piece adds to a text that goes on, where that does not depend on its neighbours."""
        return piece

    def starts_word(self, piece: str) -> bool:
        """Whether a piece begins a word: where there are spaces, one that has one before it; elsewhere, every piece."""
        surface = self.surface(piece)
        text = surface.decode(errors="ignore") if isinstance(surface, bytes) else surface
        return text[:1] == " " or any(map(is_unspaced, text[:1]))

    def surfaces(self) -> list[bytes]:
        """What each id adds to a text, in UTF-8: an unknown piece `<unk>`; padding, begin and end add nothing."""
        surfaces = [as_bytes(self.surface(piece)) for piece in self.vocabulary.pieces]
        return [b"" if id in (PAD, BOS, EOS) else surface for id, surface in enumerate(surfaces)]

    def spelled(self, text: str) -> str:
        """The text as the surfaces of its pieces spell it, without the space at its beginning."""
        return self.normalised(text)

    def encode(self, text: str) -> list[int]:
        """The ids of the text's pieces, without begin and end."""
        return self.vocabulary.ids(self.tokenise(text))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int], *, unknown: Sequence[str] = ()) -> str:
        """The text that the ids spell: padding, begin and end are dropped, the unknown piece reads `<unk>`.

        Ids behind the vocabulary stand for the pieces in `unknown` (calque/text/copy_ids.py).
        """
        size = len(self.vocabulary)
        kept = (id for id in ids if id not in (PAD, BOS, EOS))
        return self.detokenise([self.vocabulary.piece(id) if id < size else unknown[id - size] for id in kept])

    def unknown_characters(self, text: str) -> Counter[str]:
        """How often each character occurs that no piece has: lost, or spelled in bytes where there is byte fallback."""
        characters = self.normalised(text)
        unknown = {character for character in set(characters) if not self.represents(character)}
        return Counter(character for character in characters if character in unknown) if unknown else Counter()

    def to_bytes(self) -> bytes:
        """What the tokenizer's file holds."""
        return self.vocabulary.to_bytes()

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tokenizer whose `to_bytes` gave the data; otherwise a TextError."""


class Tokenizers(NamedTuple):
    """A tokenizer for each side; one and the same object when they share a vocabulary."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target
