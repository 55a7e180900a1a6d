"""Hidden Markov models: against enumeration of all state sequences, and against hmmlearn."""

from itertools import pairwise, product
from math import log

import numpy as np
import pytest
from tests.unit.statistics.corpora import column

from calque.data.store import Column
from calque.statistics import hidden_markov
from calque.statistics.em import Iteration, Observer
from calque.statistics.hidden_markov import (
    HiddenMarkov,
    baum_welch,
    expected_states,
    log_likelihoods,
    most_likely_states,
    state_posteriors,
)

ROWS = [[3, 1, 0, 2], [], [2], [0, 0, 4], [1, 1, 4, 3, 0], [4, 2]]


class Likelihoods(Observer):
    """Keeps the log-likelihood of each iteration."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def iteration(self, iteration: Iteration) -> None:
        self.values.append(iteration.log_likelihood)


def random_model(seed: int, *, states: int = 3, symbols: int = 5) -> HiddenMarkov:
    """Probabilities of very different sizes."""
    random = np.random.default_rng(seed)
    tables = (random.uniform(0, 1, shape) ** 3 for shape in ((states,), (states, states), (states, symbols)))
    return HiddenMarkov(*(table / table.sum(axis=-1, keepdims=True) for table in tables))


def random_rows(seed: int, *, count: int = 30, symbols: int = 5) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [random.integers(0, symbols, random.integers(0, 12)).tolist() for _ in range(count)]


def joint(model: HiddenMarkov, symbols: list[int], states: tuple[int, ...]) -> float:
    """P(x, y), as the textbook says it."""
    probability = float(model.start[states[0]])
    for before, after in pairwise(states):
        probability *= float(model.transitions[before, after])
    for state, symbol in zip(states, symbols, strict=True):
        probability *= float(model.emissions[state, symbol])
    return probability


@pytest.fixture(params=[1, 8, 1 << 20])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of one sequence, of few, and of all."""
    monkeypatch.setattr(hidden_markov, "CELLS", request.param)


@pytest.mark.usefixtures("batches")
def test_everything_equals_the_sum_over_all_paths(seed: int) -> None:
    model, sequences = random_model(seed), column(ROWS)
    start, transitions, emissions = (np.zeros_like(table) for table in model)
    likelihoods = log_likelihoods(model, sequences)
    posteriors, best = state_posteriors(model, sequences), most_likely_states(model, sequences)
    for n, symbols in enumerate(ROWS):
        if not symbols:
            assert likelihoods[n] == 0 and posteriors[n].shape == (0, 3) and len(best[n]) == 0
            continue
        weights = {y: joint(model, symbols, y) for y in product(range(3), repeat=len(symbols))}
        total = sum(weights.values())
        assert likelihoods[n] == pytest.approx(log(total), rel=1e-12)
        shares = np.zeros((len(symbols), 3))
        for states, weight in weights.items():
            start[states[0]] += weight / total
            for before, after in pairwise(states):
                transitions[before, after] += weight / total
            for t, (state, symbol) in enumerate(zip(states, symbols, strict=True)):
                emissions[state, symbol] += weight / total
                shares[t, state] += weight / total
        np.testing.assert_allclose(posteriors[n], shares, rtol=1e-9, atol=1e-15)
        assert weights[tuple(best[n])] == pytest.approx(max(weights.values()), rel=1e-12)
    expected = expected_states(model, sequences)
    assert expected.log_likelihood == pytest.approx(likelihoods.sum(), rel=1e-12)
    np.testing.assert_allclose(expected.start, start, rtol=1e-9)
    np.testing.assert_allclose(expected.transitions, transitions, rtol=1e-9)
    np.testing.assert_allclose(expected.emissions, emissions, rtol=1e-9, atol=1e-15)


def test_hmmlearn_agrees(seed: int) -> None:
    """Its likelihoods, posteriors, best states and ten iterations of Baum-Welch from the same start."""
    learner = pytest.importorskip("hmmlearn.hmm")
    rows = [row for row in random_rows(seed) if row]
    model, sequences = random_model(seed), column(rows)
    flat, lengths = np.concatenate(rows)[:, None], [len(row) for row in rows]
    other = learner.CategoricalHMM(n_components=3, n_features=5, n_iter=10, tol=-np.inf, init_params="")
    other.startprob_, other.transmat_, other.emissionprob_ = model
    assert log_likelihoods(model, sequences).sum() == pytest.approx(other.score(flat, lengths), rel=1e-9)
    posteriors = np.concatenate(state_posteriors(model, sequences))
    np.testing.assert_allclose(posteriors, other.predict_proba(flat, lengths), rtol=1e-7, atol=1e-12)
    for symbols, states in zip(rows, most_likely_states(model, sequences), strict=True):
        theirs = other.predict(np.array(symbols)[:, None])  # may be another of several paths that are equally likely
        assert joint(model, symbols, states) == pytest.approx(joint(model, symbols, theirs), rel=1e-12)
    trained = baum_welch(model, sequences, iterations=10)
    other.fit(flat, lengths)
    for table, theirs in zip(trained, (other.startprob_, other.transmat_, other.emissionprob_), strict=True):
        np.testing.assert_allclose(table, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_never_falls(seed: int) -> None:
    likelihoods, sequences = Likelihoods(), column(random_rows(seed))
    model = baum_welch(HiddenMarkov.random(4, symbols=5, seed=seed), sequences, iterations=40, observer=likelihoods)
    assert np.diff(likelihoods.values).min() >= -1e-9 * abs(likelihoods.values[0])
    assert likelihoods.values[-1] > likelihoods.values[0]
    for table in model:
        np.testing.assert_allclose(table.sum(axis=-1), 1)


def sampled(model: HiddenMarkov, seed: int, *, count: int) -> tuple[Column, Column]:
    """Sequences of states and symbols that the model generates."""
    random, states, symbols = np.random.default_rng(seed), [], []
    for _ in range(count):
        row = [random.choice(len(model.start), p=model.start)]
        for _ in range(random.integers(3, 15)):
            row.append(random.choice(len(model.start), p=model.transitions[row[-1]]))
        states.append([int(state) for state in row])
        symbols.append([int(random.choice(model.emissions.shape[1], p=model.emissions[state])) for state in row])
    return column(states), column(symbols)


def test_counting_equals_loops_and_finds_the_model(seed: int) -> None:
    model = random_model(seed)
    states, symbols = sampled(model, seed, count=300)
    found = HiddenMarkov.counted(states, symbols, sizes=(3, 5), smoothing=0.5)
    counts = {"start": np.full(3, 0.5), "transitions": np.full((3, 3), 0.5), "emissions": np.full((3, 5), 0.5)}
    for n in range(300):
        row = states.row(n).tolist()
        counts["start"][row[0]] += 1
        for before, after in pairwise(row):
            counts["transitions"][before, after] += 1
        for state, symbol in zip(row, symbols.row(n).tolist(), strict=True):
            counts["emissions"][state, symbol] += 1
    for name, count in counts.items():
        np.testing.assert_allclose(getattr(found, name), count / count.sum(axis=-1, keepdims=True))
    often = counts["emissions"].sum(axis=-1) > 300  # states that are hardly ever visited cannot be estimated
    assert often.any()
    np.testing.assert_allclose(found.emissions[often], model.emissions[often], atol=0.12)


def test_states_are_found_without_being_told() -> None:
    """Two states that each prefer their own symbols, and that alternate."""
    model = HiddenMarkov(
        np.array([0.9, 0.1]),
        np.array([[0.1, 0.9], [0.8, 0.2]]),
        np.array([[0.6, 0.35, 0.03, 0.02], [0.02, 0.03, 0.35, 0.6]]),
    )
    states, symbols = sampled(model, 5, count=200)
    found = baum_welch(HiddenMarkov.random(2, symbols=4, seed=3), symbols, iterations=60)
    best = np.concatenate(most_likely_states(found, symbols))
    agreement = np.mean(best == np.concatenate([states.row(n) for n in range(200)]))
    assert max(agreement, 1 - agreement) > 0.9, "up to the names of the states"


def test_long_sequences_do_not_underflow() -> None:
    model = random_model(1)
    sequences = column([np.random.default_rng(2).integers(0, 5, 5000).tolist()])
    assert -50_000 < log_likelihoods(model, sequences)[0] < -3_000
    np.testing.assert_allclose(state_posteriors(model, sequences)[0].sum(axis=1), 1, rtol=1e-9)
    assert len(most_likely_states(model, sequences)[0]) == 5000


def test_an_impossible_sequence_is_named() -> None:
    model = HiddenMarkov(np.array([1.0, 0.0]), np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0]]))
    sequences = column([[0, 0], [0, 1]])
    for function in (log_likelihoods, state_posteriors, most_likely_states):
        with pytest.raises(ValueError, match="sequence 1 "):
            function(model, sequences)


def test_a_state_that_is_never_visited_keeps_its_probabilities() -> None:
    model = HiddenMarkov(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.3, 0.7]]), np.array([[0.5, 0.5], [0.2, 0.8]]))
    after = baum_welch(model, column([[0, 0, 1]]), iterations=3)
    np.testing.assert_allclose(after.transitions, model.transitions)
    np.testing.assert_allclose(after.emissions, [[2 / 3, 1 / 3], [0.2, 0.8]])
    assert np.isfinite(baum_welch(model, column([]), iterations=2).start).all()
