"""Letter case: the most frequent form of a word, not counting first words."""

import numpy as np
from tests.unit.statistics.corpora import column

from calque.statistics.casing import capitalised, frequent_forms, is_capitalised, with_forms

PIECES = ["Ein", "ein", "Mann", "mann", "A", "."]


def test_frequent_forms() -> None:
    rows = column([[0, 2, 5], [0, 2, 1, 2], [0, 3], [4, 5], []])
    forms = frequent_forms(rows, PIECES)
    assert forms.tolist() == [1, 1, 2, 2, 4, 5], "ein occurs once elsewhere, Ein three times but only first"
    first = with_forms(rows, forms, everywhere=False)
    assert [first.row(number).tolist() for number in range(5)] == [[1, 2, 5], [1, 2, 1, 2], [1, 3], [4, 5], []]
    every = with_forms(rows, forms, everywhere=True)
    assert every.row(2).tolist() == [1, 2] and np.array_equal(every.lengths, rows.lengths)


def test_capitals() -> None:
    assert capitalised("„ein Mann“") == "„Ein Mann“" and capitalised("12.") == "12."
    assert is_capitalised("„Ein") and not is_capitalised("ein") and not is_capitalised("12")
