"""Which word each piece of a text belongs to, words being what stands between white space."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from calque.text.scripts import as_bytes
from calque.text.tokenizer import Tokenizer


def words_of_pieces(tokenizer: Tokenizer, text: str) -> list[int]:
    """The number of each piece's word, counted from 0; a piece that is a space belongs to the word behind it."""
    words = tokenizer.normalised(text).split()
    pieces = tokenizer.tokenise(text)
    sizes = [len(b"".join(as_bytes(tokenizer.surface(piece)).split())) for piece in pieces]
    ends = list(accumulate(len(word.encode()) for word in words))
    if not words or sum(sizes) != ends[-1]:  # spaces of several bytes, or an escaped character cut in two
        return _by_prefixes(tokenizer, pieces, words=len(words))
    starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    return [min(bisect_right(ends, start), len(words) - 1) for start in starts]


def _by_prefixes(tokenizer: Tokenizer, pieces: Sequence[str], *, words: int) -> list[int]:
    """The same for any text, slowly: how many words have begun when a piece is read."""
    found = []
    for end in range(1, len(pieces) + 1):
        read = tokenizer.detokenise(pieces[:end])
        begun = len(read.split()) - (not read[-1:].isspace())
        found.append(min(max(begun, 0), max(words - 1, 0)))
    return found
