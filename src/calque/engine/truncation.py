"""The beginnings of texts: as much as a model reads, without the cost of all that stands behind it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from calque.text import Opened

FIRST, MOST = 32, 128  # characters looked at for each piece that is read


class Beginning(NamedTuple):
    """The first pieces of a text."""

    opened: Opened
    cut: bool  # there is more of the text


def beginnings(
    texts: Sequence[str], *, limit: int, size: int, read: Callable[[Sequence[str]], list[Opened]]
) -> list[Beginning]:
    """The first `limit` pieces of each text, `size` being the first number of words that are copied.

    Law: they are the first pieces of the whole text; `read` sees at most a few hundred characters for each of them. A
    tokenizer may cut the end of what it sees otherwise than if the text went on, so it is shown twice as many pieces as
    are kept, or MOST characters for each where pieces are so long that this is not enough.
    """
    found: dict[int, Opened] = {}
    characters, left = FIRST * limit, list(range(len(texts)))
    while left:
        opened = read([texts[place][:characters] for place in left])
        found.update(zip(left, opened, strict=True))
        if characters >= MOST * limit:
            break
        left = [place for place in left if len(texts[place]) > characters and len(found[place].ids) < 2 * limit]
        characters *= 2
    return [
        Beginning(found[place].shortened(limit, size=size), len(found[place].ids) > limit or len(text) > MOST * limit)
        for place, text in enumerate(texts)
    ]
