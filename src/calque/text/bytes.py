"""Bytes: a text becomes its UTF-8 bytes. Nothing is trained and nothing is unknown, but sequences are long."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from calque.config import Config
from calque.errors import TextError
from calque.text.tokenizer import Tokenizer, normalise
from calque.text.vocabulary import PIECES, Vocabulary

BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_BYTES = {piece: bytes([byte]) for byte, piece in enumerate(BYTE_PIECES)}


class BytesConfig(Config):
    kind: Literal["bytes"] = "bytes"


class BytesTokenizer(Tokenizer):
    """Splits text into UTF-8 bytes. Source and target share one vocabulary: the special pieces and the 256 bytes."""

    kind = "bytes"
    is_closed = True

    def __init__(self) -> None:
        self.vocabulary = Vocabulary([*PIECES, *BYTE_PIECES])

    def tokenise(self, text: str) -> list[str]:
        return [BYTE_PIECES[byte] for byte in normalise(text).encode()]

    def detokenise(self, pieces: Sequence[str]) -> str:
        return pieces_text(pieces)

    def surface(self, piece: str) -> bytes:
        return _BYTES.get(piece, b"")

    def represents(self, character: str) -> bool:
        return True

    def encode(self, text: str) -> list[int]:
        return [byte + len(PIECES) for byte in normalise(text).encode()]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        tokenizer = cls()
        if Vocabulary.from_bytes(data) != tokenizer.vocabulary:
            raise TextError(
                "the vocabulary of a bytes tokenizer must be the special pieces and the 256 bytes; this one differs"
            )
        return tokenizer


def pieces_text(pieces: Iterable[str]) -> str:
    """The text that byte pieces and other pieces spell. Invalid UTF-8 becomes U+FFFD."""
    return b"".join(map(piece_bytes, pieces)).decode(errors="replace")


def piece_bytes(piece: str) -> bytes:
    """The byte that a byte piece stands for, or the UTF-8 bytes of any other piece."""
    return _BYTES.get(piece) or piece.encode()
