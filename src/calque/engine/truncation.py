"""The truncate of texts: as much as a model reads, without the cost of all that stands behind it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from calque.text import NumberedText

FIRST, MOST = 32, 128  # characters looked at for each piece that is read


class Truncated(NamedTuple):
    """The first pieces of a text."""

    opened: NumberedText
    cut: bool  # there is more of the text


def truncate(
    texts: Sequence[str], *, limit: int, size: int, read: Callable[[Sequence[str]], list[NumberedText]]
) -> list[Truncated]:
    """The first `limit` pieces of each text, `size` being the first number of words that are copied.

    Law: they are the first pieces of the whole text; `read` sees at most a few hundred characters for each of them. A
    tokenizer may cut the end of what it sees otherwise than if the text went on, so it is shown twice as many pieces as
    are kept, or MOST characters for each where pieces are so long that this is not enough.
    """
    found: dict[int, NumberedText] = {}
    characters, left = FIRST * limit, list(range(len(texts)))
    while left:
        opened = read([texts[place][:characters] for place in left])
        found.update(zip(left, opened, strict=True))
        if characters >= MOST * limit:
            break
        left = [place for place in left if len(texts[place]) > characters and len(found[place].ids) < 2 * limit]
        characters *= 2
    return [
        Truncated(found[place].shortened(limit, size=size), len(found[place].ids) > limit or len(text) > MOST * limit)
        for place, text in enumerate(texts)
    ]
