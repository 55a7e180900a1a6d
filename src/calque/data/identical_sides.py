"""Warns about corpora with the same text on both sides: copying is a valid task, but often a file was passed twice."""

from collections.abc import Sequence
from operator import eq

from calque.data.corpora import Corpus, FilesConfig, paths

_NEARLY_ALL = 0.9  # share of the pairs


def count_identical(source: Sequence[str], target: Sequence[str]) -> int:
    """The number of rows whose source and target are the same text."""
    return sum(map(eq, source, target))


def identity_warnings(corpus: Corpus, *, identical: int, rows: int) -> list[str]:
    """A warning if source and target are the same text in nearly all of a corpus's `rows`."""
    if not rows or identical < _NEARLY_ALL * rows:
        return []
    names = " + ".join(str(path) for key, path in paths(corpus).items() if key != "alignments")
    is_twice = isinstance(corpus, FilesConfig) and corpus.source.samefile(corpus.target)
    which = "all" if identical == rows else f"{identical:,} of"
    return [
        f"{names}: {'source and target are the same file' if is_twice else 'source and target are identical'}: "
        f"{which} {rows:,} pairs have the same text on both sides, so the model will learn to copy; if this is not "
        "what you want, check the names of files and columns"
    ]
