"""Truncation of texts to as many pieces as a model reads, without tokenising all of a very long text."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from calque.text import NumberedText

FIRST, MOST = 32, 128  # characters tokenised per piece that is read, at first and at most


class Truncated(NamedTuple):
    """The first pieces of a text, as ids, and whether there are more."""

    numbered: NumberedText
    cut: bool  # the text goes on


def truncate(
    texts: Sequence[str], *, limit: int, size: int, read: Callable[[Sequence[str]], list[NumberedText]]
) -> list[Truncated]:
    """The first `limit` pieces of each text; ids from `size` on are those of copied words.

    Law: the result equals the first pieces of the whole text, although `read` (the tokenizer) sees only its beginning.
    A tokenizer may segment the end of its input differently if the text continues, so it reads twice as many pieces as
    are kept or, if pieces are very long, MOST characters per kept piece.
    """
    numbered: dict[int, NumberedText] = {}
    characters, unfinished = FIRST * limit, list(range(len(texts)))
    while unfinished:
        prefixes = read([texts[place][:characters] for place in unfinished])
        numbered.update(zip(unfinished, prefixes, strict=True))
        if characters >= MOST * limit:
            break
        unfinished = [
            place for place in unfinished if len(texts[place]) > characters and len(numbered[place].ids) < 2 * limit
        ]
        characters *= 2
    return [
        Truncated(
            numbered[place].shortened(limit, size=size),
            len(numbered[place].ids) > limit or len(text) > MOST * limit,
        )
        for place, text in enumerate(texts)
    ]
