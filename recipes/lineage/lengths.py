"""Sentences by length: longer ones made by joining neighbours, and where each falls."""

from collections.abc import Callable, Iterable, Sequence

BUCKETS: tuple[tuple[int, int], ...] = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60))
JOINED = (2, 3, 4)  # how many neighbouring sentences make a long one

UNSPACED = {"zh"}  # languages written without spaces between words


def bucket_name(bucket: tuple[int, int]) -> str:
    """`11-20`."""
    return f"{bucket[0]}-{bucket[1]}"


BUCKET_NAMES = tuple(map(bucket_name, BUCKETS))


def join_neighbours(lines: Sequence[str], *, size: int, language: str) -> list[str]:
    """Every `size` lines as one, none used twice; what is left over at the end is left out.

    >>> join_neighbours(["a b", "c", "d", "e", "f"], size=2, language="en")
    ['a b c', 'd e']
    """
    starts = range(0, len(lines) - size + 1, size)
    return [joined_line(lines[start : start + size], language=language) for start in starts]


def joined_line(lines: Sequence[str], *, language: str) -> str:
    """Lines as one, with a space between them where the language has any."""
    return ("" if language in UNSPACED else " ").join(lines)


def length(line: str, *, language: str) -> int:
    """Words between spaces; characters that are no spaces where a language has none between words."""
    words = line.split()
    return sum(map(len, words)) if language in UNSPACED else len(words)


def bucket_of(size: int) -> str | None:
    """The bucket a length falls in; None for what is longer than all, or empty."""
    return next((bucket_name(bucket) for bucket in BUCKETS if bucket[0] <= size <= bucket[1]), None)


def by_length(
    rows: Iterable[tuple[str, str, str]], *, language: str, score: Callable[[list[str], list[str]], float]
) -> dict[str, tuple[int, float | None]]:
    """For each bucket how many (source, reference, translation) rows fall in it, and what `score` gives them."""
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in BUCKET_NAMES}
    for source, reference, translation in rows:
        name = bucket_of(length(source, language=language))
        if name is not None:
            found[name].append((translation, reference))
    return {
        name: (len(pairs), score([one for one, _ in pairs], [other for _, other in pairs]) if pairs else None)
        for name, pairs in found.items()
    }
