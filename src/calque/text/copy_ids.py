"""Ids for words outside the vocabulary, so that a model can copy them from its source (See 2017, §2.2).

With V pieces in the vocabulary, the first unknown piece of a source is V, the next other one V + 1, and so on; a target
uses its source's numbers, and UNK for what its source does not have.
"""

from collections.abc import Sequence
from typing import NamedTuple

from calque.text.tokenizer import Tokenizer


class NumberedText(NamedTuple):
    """A text in ids, and the pieces that ids from V on stand for."""

    ids: list[int]
    unknown: tuple[str, ...]
    text: str = ""

    def shortened(self, limit: int, *, size: int) -> "NumberedText":
        """The first ids; words that stand behind them alone have no number any more, `size` being the first."""
        ids = self.ids[:limit]
        numbered = max((id - size + 1 for id in ids), default=0)
        return NumberedText(ids, self.unknown[: max(0, numbered)], self.text)


def number_source(tokenizer: Tokenizer, texts: Sequence[str]) -> list[NumberedText]:
    """The ids of each source, its unknown pieces numbered."""
    if tokenizer.is_closed:
        return [NumberedText(ids, (), text) for ids, text in zip(tokenizer.encode_many(texts), texts, strict=True)]
    size, opened = len(tokenizer.vocabulary), []
    for text in texts:
        pieces = tokenizer.tokenise(text)
        unknown = tuple(dict.fromkeys(piece for piece in pieces if piece not in tokenizer.vocabulary))
        opened.append(NumberedText(_ids(tokenizer, pieces, unknown=unknown, size=size), unknown, text))
    return opened


def number_target(tokenizer: Tokenizer, texts: Sequence[str], *, sources: Sequence[NumberedText]) -> list[list[int]]:
    """The ids of each target, with the numbers of its source's unknown pieces."""
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
    numbers = {piece: size + place for place, piece in enumerate(unknown)}
    return [numbers.get(piece, id) for piece, id in zip(pieces, ids, strict=True)]
