"""Joins neighbouring sentences into long ones, and sorts sentences into buckets by length."""

from collections.abc import Callable, Iterable, Sequence

BUCKETS: tuple[tuple[int, int], ...] = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60))
JOINED = (2, 3, 4)  # numbers of neighbouring sentences that are joined

UNSPACED = {"zh"}  # languages written without spaces between words


def bucket_name(bucket: tuple[int, int]) -> str:
    """The name of a bucket, such as `11-20`."""
    return f"{bucket[0]}-{bucket[1]}"


BUCKET_NAMES = tuple(map(bucket_name, BUCKETS))


def join_neighbours(lines: Sequence[str], *, size: int, language: str) -> list[str]:
    """Joins every `size` consecutive lines; each line is used once, and remaining lines are dropped.

    >>> join_neighbours(["a b", "c", "d", "e", "f"], size=2, language="en")
    ['a b c', 'd e']
    """
    starts = range(0, len(lines) - size + 1, size)
    return [joined_line(lines[start : start + size], language=language) for start in starts]


def joined_line(lines: Sequence[str], *, language: str) -> str:
    """Lines joined, by a space if the language has spaces."""
    return ("" if language in UNSPACED else " ").join(lines)


def length(line: str, *, language: str) -> int:
    """The number of words or, in a language that is written without spaces, of characters."""
    words = line.split()
    return sum(map(len, words)) if language in UNSPACED else len(words)


def bucket_of(size: int) -> str | None:
    """The bucket of a length; None if it is zero or beyond the last bucket."""
    return next((bucket_name(bucket) for bucket in BUCKETS if bucket[0] <= size <= bucket[1]), None)


def by_length(
    rows: Iterable[tuple[str, str, str]], *, language: str, score: Callable[[list[str], list[str]], float]
) -> dict[str, tuple[int, float | None]]:
    """The number of (source, reference, translation) rows in every bucket, and their score."""
    buckets: dict[str, list[tuple[str, str]]] = {name: [] for name in BUCKET_NAMES}
    for source, reference, translation in rows:
        name = bucket_of(length(source, language=language))
        if name is not None:
            buckets[name].append((translation, reference))
    return {
        name: (len(pairs), score([pair[0] for pair in pairs], [pair[1] for pair in pairs]) if pairs else None)
        for name, pairs in buckets.items()
    }
