"""Vocabularies: pieces and their ids. Every vocabulary starts with the same four special pieces."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calque.errors import TextError
from calque.parsing import parse_json

PAD, BOS, EOS, UNK = 0, 1, 2, 3
PIECES = ("<pad>", "<s>", "</s>", "<unk>")


class Vocabulary:
    """An immutable list of pieces; the index of a piece is its id.   Law: v.piece(v.id(p)) == p for every p in v."""

    __slots__ = ("_ids", "_pieces")

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = tuple(pieces)
        self._ids = {piece: id for id, piece in enumerate(self._pieces)}
        if self._pieces[: len(PIECES)] != PIECES:
            raise TextError(
                f"a vocabulary must start with {PIECES}; this one starts with {self._pieces[: len(PIECES)]}"
            )
        if len(self._ids) < len(self._pieces):
            duplicate = next(piece for id, piece in enumerate(self._pieces) if self._ids[piece] != id)
            raise TextError(f"the piece {duplicate!r} occurs more than once in the vocabulary")

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, size: int, minimum_count: int = 1) -> "Vocabulary":
        """A vocabulary of the special pieces and the most frequent ones, at most `size` in total.

        Ties are broken by code point.
        """
        frequent = (piece for piece, count in counts.items() if count >= minimum_count)
        ranked = sorted(frequent, key=lambda piece: (-counts[piece], piece))
        return cls([*PIECES, *ranked[: size - len(PIECES)]])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Vocabulary":
        """The vocabulary that `to_bytes` wrote."""
        try:
            pieces = [parse_json(line) for line in data.decode("ascii").splitlines()]
            "".join(pieces).encode()  # rejects values that are not strings, and lone surrogates
        except (ValueError, TypeError) as error:
            raise TextError(f"a vocabulary must have one JSON string per line: {error}") from None
        return cls(pieces)

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """The vocabulary saved at `path`."""
        try:
            return cls.from_bytes(path.read_bytes())
        except (OSError, TextError) as error:
            raise TextError(f"{path}: {error}") from None

    def save(self, path: Path) -> None:
        path.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The pieces as bytes, one JSON string per line, in ASCII: lossless even for pieces with line breaks."""
        return "".join(json.dumps(piece) + "\n" for piece in self._pieces).encode("ascii")

    @property
    def pieces(self) -> tuple[str, ...]:
        return self._pieces

    def id(self, piece: str) -> int:
        """The id of the piece, or UNK if it is not in the vocabulary."""
        return self._ids.get(piece, UNK)

    def ids(self, pieces: Iterable[str]) -> list[int]:
        return [self._ids.get(piece, UNK) for piece in pieces]

    def piece(self, id: int) -> str:
        if id < 0:
            raise IndexError(f"piece ids must be non-negative; found {id}")
        return self._pieces[id]

    def __len__(self) -> int:
        return len(self._pieces)

    def __contains__(self, piece: object) -> bool:
        return piece in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._pieces == other._pieces

    def __hash__(self) -> int:
        return hash(self._pieces)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} pieces)"
