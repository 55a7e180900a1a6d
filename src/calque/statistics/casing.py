"""Letter case in statistical models: the first word of a sentence is capitalised, whatever its usual form."""

from collections.abc import Sequence

import numpy as np

from calque.data.store import Array, Column


def frequent_forms(column: Column, pieces: Sequence[str]) -> Array:
    """For each id, the id of the most frequent spelling of the same word, not counting the first words of sentences.

    Spellings differ in case only. A word that occurs only at the beginning of sentences keeps its most frequent form
    there; ties go to the lower id.
    """
    rows = np.flatnonzero(column.lengths)
    ids, lengths = column.gather(rows)
    counts = np.bincount(ids, minlength=len(pieces)).astype(np.float64)
    first = np.bincount(ids[np.cumsum(lengths) - lengths], minlength=len(pieces))
    weights = (counts - first) + counts * 1e-6
    best: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        known = best.setdefault(piece.lower(), number)
        if weights[number] > weights[known]:
            best[piece.lower()] = number
    return np.array([best[piece.lower()] for piece in pieces], dtype=np.int32)


def with_forms(column: Column, forms: Array, *, everywhere: bool) -> Column:
    """The column with the first word of each row (or, if `everywhere`, every word) in its most frequent form."""
    ids, lengths = column.gather(np.arange(len(column.lengths)))
    ids = ids.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    if everywhere:
        ids = forms[ids].astype(np.int64)
    else:
        first = starts[lengths > 0]
        ids[first] = forms[ids[first]]
    return Column(ids, starts, lengths)


def capitalised(text: str) -> str:
    """The text with its first letter in upper case."""
    for place, character in enumerate(text):
        if character.isalpha():
            return text[:place] + character.upper() + text[place + 1 :]
    return text


def is_capitalised(text: str) -> bool:
    """Whether the first letter of a text is in upper case."""
    return next((character.isupper() for character in text if character.isalpha()), False)
