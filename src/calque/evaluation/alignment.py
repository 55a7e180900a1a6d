"""Word alignments extracted from attention, and their error rate. Letters: S source pieces, T target pieces."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

Link = tuple[int, int]


def words_of(starts: Sequence[bool]) -> list[int]:
    """The word index of each piece, from 0, given whether each piece starts a word; the first piece always does."""
    words, word = [], -1
    for index, is_start in enumerate(starts):
        word += 1 if is_start or index == 0 else 0
        words.append(word)
    return words


def align(attention: "Tensor", *, source_words: Sequence[int], target_words: Sequence[int]) -> list[Link]:
    """Links (source word, target word) extracted from attention, one per target word, in target order.

    A target word is linked to the source word that receives most of its pieces' attention [T,S]. Attention to the end
    mark, which follows the last source piece, counts towards no word. Ties go to the first source word.
    """
    pieces, words = len(source_words), max(source_words, default=-1) + 1
    rows = attention[: len(target_words), :pieces].tolist()
    totals = [[0.0] * words for _ in range(max(target_words, default=-1) + 1)]
    for target_word, row in zip(target_words, rows, strict=True):
        for source_word, weight in zip(source_words, row, strict=True):
            totals[target_word][source_word] += weight
    return [(max(range(words), key=total.__getitem__), word) for word, total in enumerate(totals) if any(total)]


def pharaoh(links: Sequence[Link]) -> str:
    """The links in Pharaoh format (`0-0 1-2`, source first), sorted by source word."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def alignment_error_rate(alignments: Sequence[Sequence[Link]], references: Sequence[Sequence[Link]]) -> float:
    """The error rate 1 − 2 |A ∩ R| / (|A| + |R|) over all pairs (Och and Ney 2003, with sure links only); 0 is perfect.

    >>> alignment_error_rate([[(0, 0), (1, 1)]], [[(0, 0), (1, 2)]])
    0.5
    """
    shared = sum(len(set(links) & set(gold)) for links, gold in zip(alignments, references, strict=True))
    total = sum(len(set(links)) + len(set(gold)) for links, gold in zip(alignments, references, strict=True))
    return 1 - 2 * shared / total if total else 0.0
