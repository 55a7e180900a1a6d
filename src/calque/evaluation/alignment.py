"""Which word was made from which, read off attention. Letters: S source pieces, T target pieces."""

from collections.abc import Sequence

from torch import Tensor

Link = tuple[int, int]


def words_of(starts: Sequence[bool]) -> list[int]:
    """The word that each piece belongs to, counted from 0, from whether it starts one; the first always does."""
    words, word = [], -1
    for place, is_start in enumerate(starts):
        word += 1 if is_start or place == 0 else 0
        words.append(word)
    return words


def align(attention: Tensor, *, source_words: Sequence[int], target_words: Sequence[int]) -> list[Link]:
    """(source word, target word) for every target word, in the order of target words.

    A target word is linked to the source word on which its pieces' attention [T,S] rests most; attention to the end
    mark, which stands behind the last source piece, counts for no word. Ties go to the first.
    """
    pieces, words = len(source_words), max(source_words, default=-1) + 1
    rows = attention[: len(target_words), :pieces].tolist()
    totals = [[0.0] * words for _ in range(max(target_words, default=-1) + 1)]
    for word, row in zip(target_words, rows, strict=True):
        for place, weight in zip(source_words, row, strict=True):
            totals[word][place] += weight
    return [(max(range(words), key=total.__getitem__), word) for word, total in enumerate(totals) if any(total)]


def pharaoh(links: Sequence[Link]) -> str:
    """The links as `0-0 1-2`, source first, in the order of the source."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
