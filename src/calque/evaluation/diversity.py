"""Diversity of outputs: distinct-n (Li et al. 2016), and how often the most frequent output occurs."""

from collections import Counter
from collections.abc import Sequence


def distinct(texts: Sequence[str], *, n: int) -> float:
    """The number of distinct word n-grams in the texts, as a percentage of all n-grams; 0 if there are none.

    >>> distinct(["i do not know", "i do not care"], n=2)
    66.66666666666667
    """
    ngrams: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        words = text.split()
        ngrams.update(zip(*(words[start:] for start in range(n)), strict=False))
    return 100 * len(ngrams) / max(1, ngrams.total())


def most_frequent_share(texts: Sequence[str]) -> float:
    """The percentage of texts equal to the most frequent one; high if a model answers everything alike."""
    return 100 * max(Counter(texts).values()) / len(texts) if texts else 0.0
