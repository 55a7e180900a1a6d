"""Maps each piece of a text to the word that it belongs to. Words are separated by white space."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from calque.text.scripts import as_bytes
from calque.text.tokenizer import Tokenizer


def words_of_pieces(tokenizer: Tokenizer, text: str) -> list[int]:
    """For each piece, the index (from 0) of its word. A piece that is a space belongs to the word after it."""
    words = tokenizer.normalised(text).split()
    pieces = tokenizer.tokenise(text)
    sizes = [len(b"".join(as_bytes(tokenizer.surface(piece)).split())) for piece in pieces]
    ends = list(accumulate(len(word.encode()) for word in words))
    if not words or sum(sizes) != ends[-1]:  # multi-byte spaces, or an escaped character split in two
        return _by_prefixes(tokenizer, pieces, words=len(words))
    starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    return [min(bisect_right(ends, start), len(words) - 1) for start in starts]


def _by_prefixes(tokenizer: Tokenizer, pieces: Sequence[str], *, words: int) -> list[int]:
    """The index of each piece's word, found by detokenising all pieces up to it: slow, but correct for any text."""
    indices = []
    for end in range(1, len(pieces) + 1):
        prefix = tokenizer.detokenise(pieces[:end])
        complete = len(prefix.split()) - (not prefix[-1:].isspace())
        indices.append(min(max(complete, 0), max(words - 1, 0)))
    return indices
