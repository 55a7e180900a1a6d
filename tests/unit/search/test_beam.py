"""The parts of beam search; tests/laws/test_oracle.py compares the whole search with enumeration."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.search.step import Limits, Marks, forbid
from calque.tensors import best_candidates

scores = st.sampled_from([0.0, -0.5, -1.0, -float("inf")]) | st.floats(-9, 0)


@settings(deadline=None)
@given(rows=st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(scores, min_size=n, max_size=n), min_size=1)))
def test_best_candidates_are_the_first_of_a_stable_sort(rows: list[list[float]]) -> None:
    for count in (1, 3, 20):
        values, indices = best_candidates(torch.tensor(rows, dtype=torch.float64), count=count)
        for row, best_values, best_indices in zip(rows, values.tolist(), indices.tolist(), strict=True):
            expected = sorted(range(len(row)), key=lambda index, row=row: -row[index])[:count]
            assert best_values == [row[index] for index in expected]
            # The order of impossible candidates does not matter.
            assert [index for index in best_indices if row[index] > -torch.inf] == [
                index for index in expected if row[index] > -torch.inf
            ]


def test_best_candidates_of_long_rows_are_the_first_of_a_stable_sort() -> None:
    for width, levels in ((20_000, 1e9), (16_384, 50), (40_001, 3)):  # few levels: many ties
        rows = (torch.rand(5, width, dtype=torch.float64) * levels).round()
        rows[0, ::2] = -torch.inf
        rows[1] = -torch.inf
        exact = rows.sort(dim=1, descending=True, stable=True)
        for count in (1, 11, 400):
            values, indices = best_candidates(rows, count=count)
            assert torch.equal(values, exact.values[:, :count])
            is_possible = values > -torch.inf
            assert torch.equal(indices[is_possible], exact.indices[:, :count][is_possible])


def test_forbid_excludes_special_tokens_early_ends_and_words_where_only_the_end_is_allowed() -> None:
    log_probs = torch.randn(3, 2, 5)
    marks = Marks(start=1, end=2, never=(0, 1))
    limits = Limits(torch.tensor([5, 2, 3]), torch.tensor([1, 2, 3]))
    allowed = forbid(log_probs, marks=marks, length=2, limits=limits)
    for sentence, hidden in enumerate([{0, 1}, {0, 1, 3, 4}, {0, 1, 2}]):
        for token in range(5):
            expected = torch.full((2,), -torch.inf) if token in hidden else log_probs[sentence, :, token]
            assert torch.equal(allowed[sentence, :, token], expected)
