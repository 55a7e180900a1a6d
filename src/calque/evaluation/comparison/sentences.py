"""Compares systems sentence by sentence: which sentences differ most, and which of their words match the reference."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.evaluation.comparison.words import LONGEST, Words, ngrams
from calque.evaluation.segment_statistics import Array

OPERATIONS = {"equal": "=", "replace": "~", "delete": "-", "insert": "+"}
"""Edits from reference to hypothesis: `-` marks words that only the reference has, `+` only the hypothesis."""


def match_lengths(hypothesis: Words, reference: Words) -> list[int]:
    """For each hypothesis word, the length (0 to 4) of the longest n-gram that contains it and is in the reference."""
    known = set(ngrams(reference))
    lengths = [0] * len(hypothesis)
    for size in range(1, LONGEST + 1):
        for start in range(len(hypothesis) - size + 1):
            if tuple(hypothesis[start : start + size]) in known:
                lengths[start : start + size] = [size] * size
    return lengths


def word_difference(hypothesis: Words, reference: Words) -> list[list[Any]]:
    """The edits from reference to hypothesis: [operation, span of the reference, span of the hypothesis].

    >>> word_difference(["a", "red", "dog"], ["a", "dog", "."])
    [['=', [0, 1], [0, 1]], ['+', [1, 1], [1, 2]], ['=', [1, 2], [2, 3]], ['-', [2, 3], [3, 3]]]
    """
    matcher = SequenceMatcher(None, reference, hypothesis, autojunk=False)
    return [[OPERATIONS[name], [r1, r2], [h1, h2]] for name, r1, r2, h1, h2 in matcher.get_opcodes()]


def most_different(differences: Array, *, shown: int) -> NDArray[np.int64]:
    """The indices, in ascending order, of the sentences at which any system differs most from the baseline.

    `differences` [systems,S] are the sentence scores of each system minus those of the baseline. The sentences are the
    `shown` at which the highest difference of any system is largest, and the `shown` at which the lowest difference of
    any system is smallest: at most twice `shown` in all. If there are no more sentences than that, all are returned.
    """
    size = differences.shape[1]
    if size <= 2 * shown:
        return np.arange(size, dtype=np.int64)
    best, worst = differences.max(axis=0), differences.min(axis=0)
    chosen = set(np.argsort(-best, kind="stable")[:shown].tolist()) | set(
        np.argsort(worst, kind="stable")[:shown].tolist()
    )
    return np.array(sorted(chosen), dtype=np.int64)


def wins(baseline: Array, scores: Array, *, is_higher_better: bool) -> dict[str, int]:
    """How many sentences a system translates better than the baseline, worse, and equally well, by their scores [S]."""
    differences = (scores - baseline) * (1 if is_higher_better else -1)
    return {
        "better": int((differences > 0).sum()),
        "worse": int((differences < 0).sum()),
        "equal": int((differences == 0).sum()),
    }


def rounded(values: Sequence[float] | Array) -> list[float]:
    """The scores rounded to three decimals, for display."""
    return [round(float(value), 3) for value in values]
