"""The parts of beam search. The whole is held to enumeration in tests/laws/test_oracle.py."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.search.beam import best_candidates
from calque.search.combine import ensemble
from calque.search.step import Marks, StepOutput, forbid

scores = st.sampled_from([0.0, -0.5, -1.0, -float("inf")]) | st.floats(-9, 0)


@settings(deadline=None)
@given(rows=st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(scores, min_size=n, max_size=n), min_size=1)))
def test_best_candidates_are_the_first_of_a_stable_sort(rows: list[list[float]]) -> None:
    for count in (1, 3, 20):
        values, places = best_candidates(torch.tensor(rows, dtype=torch.float64), count=count)
        for row, found_values, found in zip(rows, values.tolist(), places.tolist(), strict=True):
            best = sorted(range(len(row)), key=lambda place, row=row: -row[place])[:count]
            assert found_values == [row[place] for place in best]
            # Which of the impossible candidates come last does not matter: they are dead.
            assert [place for place in found if row[place] > -torch.inf] == [
                place for place in best if row[place] > -torch.inf
            ]


def test_forbid_hides_marks_everywhere_and_the_end_where_it_comes_early() -> None:
    log_probs = torch.randn(3, 2, 5)
    marks = Marks(start=1, end=2, never=(0, 1))
    allowed = forbid(log_probs, marks=marks, length=2, minimum=torch.tensor([1, 2, 3]))
    for sentence, end_is_early in enumerate([False, False, True]):
        hidden = {0, 1, 2} if end_is_early else {0, 1}
        for token in range(5):
            expected = torch.full((2,), -torch.inf) if token in hidden else log_probs[sentence, :, token]
            assert torch.equal(allowed[sentence, :, token], expected)


def test_an_ensemble_means_probabilities_and_gives_each_step_its_own_state() -> None:
    def member(shift: int):
        def step(tokens, state, context):
            return StepOutput((context + shift * state[:, None]).log_softmax(-1)), state + tokens

        return step

    tokens, states = torch.tensor([3, 4]), (torch.tensor([0.5, 1.0]), torch.tensor([-2.0, 0.0]))
    contexts = (torch.randn(2, 5), torch.randn(2, 5))
    both, after = ensemble([member(1), member(2)])(tokens, states, contexts)
    alone = [member(n + 1)(tokens, states[n], contexts[n]) for n in range(2)]
    mean = sum(output.log_probs.exp() for output, _ in alone) / 2
    torch.testing.assert_close(both.log_probs.exp(), mean)
    assert all(torch.equal(one, state) for one, (_, state) in zip(after, alone, strict=True))
