"""Ids for out-of-vocabulary words, so that a model can copy them from the source (See et al. 2017, §2.2).

With V pieces in the vocabulary, the first unknown piece of a source has id V, the next distinct one V + 1, and so on; a
target uses the ids of its source, and UNK for pieces that its source does not contain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from calque.text.tokenizer import Tokenizer


class NumberedText(NamedTuple):
    """A text as ids, and the unknown pieces that the ids V, V + 1, … stand for."""

    ids: list[int]
    unknown: tuple[str, ...]
    text: str = ""

    def shortened(self, limit: int, *, size: int) -> "NumberedText":
        """The first `limit` ids, without unknown pieces that occur only after them; `size` is V."""
        ids = self.ids[:limit]
        count = max((id - size + 1 for id in ids), default=0)
        return NumberedText(ids, self.unknown[: max(0, count)], self.text)


def number_source(tokenizer: Tokenizer, texts: Sequence[str]) -> list[NumberedText]:
    """Each source as ids, with its unknown pieces numbered from V."""
    if tokenizer.is_closed:
        return [NumberedText(ids, (), text) for ids, text in zip(tokenizer.encode_many(texts), texts, strict=True)]
    size, numbered = len(tokenizer.vocabulary), []
    for text in texts:
        pieces = tokenizer.tokenise(text)
        unknown = tuple(dict.fromkeys(piece for piece in pieces if piece not in tokenizer.vocabulary))
        numbered.append(NumberedText(_ids(tokenizer, pieces, unknown=unknown, size=size), unknown, text))
    return numbered


def number_target(tokenizer: Tokenizer, texts: Sequence[str], *, sources: Sequence[NumberedText]) -> list[list[int]]:
    """Each target as ids; an unknown piece that occurs in the target's source gets the same id as in the source."""
    if tokenizer.is_closed:
        return tokenizer.encode_many(texts)
    size = len(tokenizer.vocabulary)
    return [
        _ids(tokenizer, tokenizer.tokenise(text), unknown=source.unknown, size=size)
        for text, source in zip(texts, sources, strict=True)
    ]


def _ids(tokenizer: Tokenizer, pieces: Sequence[str], *, unknown: Sequence[str], size: int) -> list[int]:
    ids = tokenizer.vocabulary.ids(pieces)
    if not unknown:
        return ids
    unknown_ids = {piece: size + index for index, piece in enumerate(unknown)}
    return [unknown_ids.get(piece, id) for piece, id in zip(pieces, ids, strict=True)]
