"""Hidden Markov models of sequences of symbols: likelihood, posteriors, best states, Baum-Welch (Rabiner 1989).

Letters: B sequences, T symbols, Y states, V symbols of the alphabet. The alignment model of Vogel et al. is in hmm.py,
the estimation of taggers in tag_tables.py.

>>> model = baum_welch(HiddenMarkov.random(3, symbols=10, seed=1), sequences, iterations=50)
>>> most_likely_states(model, sequences)[0]
array([2, 0, 1])
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from calque.data.store import Array, Column
from calque.statistics.cooccurrence import Floats
from calque.statistics.em import SILENT, Iteration, Observer

NAME = "Baum-Welch"
CELLS = 1 << 20  # states of all positions that are computed together


class HiddenMarkov(NamedTuple):
    """P(x, y) = π(y₁) b(x₁ | y₁) Πₜ a(yₜ | yₜ₋₁) b(xₜ | yₜ), for symbols x and states y."""

    start: Floats  # π [Y]
    transitions: Floats  # a(column | row) [Y,Y]
    emissions: Floats  # b(column | row) [Y,V]

    @classmethod
    def random(cls, states: int, *, symbols: int, seed: int) -> "HiddenMarkov":
        """A model with random probabilities, as a start for Baum-Welch; with equal ones, states would stay equal."""
        generator = np.random.default_rng(seed)
        shapes = (states,), (states, states), (states, symbols)
        return cls(*(_normalised(generator.uniform(0.5, 1.5, shape)) for shape in shapes))

    @classmethod
    def counted(
        cls, states: Column, symbols: Column, *, sizes: tuple[int, int], smoothing: float = 0.0
    ) -> "HiddenMarkov":
        """The relative frequencies of a corpus with known states, with `smoothing` added to each count.

        `sizes` are the numbers of states and symbols. A state that never occurs has uniform probabilities.
        """
        rows = np.flatnonzero(states.lengths)
        (values, lengths), (ids, _) = states.gather(rows), symbols.gather(rows)
        is_first = np.zeros(len(values), dtype=bool)
        is_first[np.cumsum(lengths) - lengths] = True
        follows = np.flatnonzero(~is_first)
        counts = [
            np.bincount(values[is_first], minlength=sizes[0]).astype(np.float64),
            _pair_counts(values[follows - 1], values[follows], shape=(sizes[0], sizes[0])),
            _pair_counts(values, ids, shape=sizes),
        ]
        return cls(*(_normalised(count + smoothing) for count in counts))


class Expected(NamedTuple):
    """The expected counts of states, transitions and symbols in a corpus: the E-step of Baum-Welch."""

    log_likelihood: float
    start: Floats  # [Y], the expected number of sequences that begin in each state
    transitions: Floats  # [Y,Y]
    emissions: Floats  # [Y,V]


class Batch(NamedTuple):
    """Sequences of similar length, the longest first: the first active[t] of them have a symbol at t."""

    rows: Array  # [B], indices of sequences
    ids: Array  # [T,B], 0 after the end of a sequence
    active: Array  # [T]


class Trellis(NamedTuple):
    """The scaled forward and backward scores of a batch."""

    forward: Floats  # [T,B,Y], P(yₜ | x₁ … xₜ); 0 after the end
    backward: Floats  # [T,B,Y], so that forward · backward = P(yₜ | x)
    arriving: Floats  # [T,B,Y], b(xₜ | yₜ) · backward / zₜ
    log_likelihoods: Floats  # [B]


def expected_states(model: HiddenMarkov, sequences: Column) -> Expected:
    """The expected counts of a corpus: Σ P(yₜ = y | x) and Σ P(yₜ₋₁ = y', yₜ = y | x) over all positions."""
    start, transitions, emissions = (np.zeros_like(table) for table in model)
    log_likelihood = 0.0
    for batch in _batches(sequences, states=len(model.start)):
        trellis = _trellis(model, batch)
        posteriors = trellis.forward * trellis.backward
        start += posteriors[0].sum(axis=0)
        width = len(model.start)
        transitions += trellis.forward[:-1].reshape(-1, width).T @ trellis.arriving[1:].reshape(-1, width)
        for state in range(width):
            emissions[state] += np.bincount(
                batch.ids.ravel(), weights=posteriors[:, :, state].ravel(), minlength=emissions.shape[1]
            )
        log_likelihood += float(trellis.log_likelihoods.sum())
    return Expected(log_likelihood, start, model.transitions * transitions, emissions)


def baum_welch(model: HiddenMarkov, sequences: Column, *, iterations: int, observer: Observer = SILENT) -> HiddenMarkov:
    """The model after EM on sequences whose states are not known (Baum et al. 1970).

    Law: the log-likelihood never falls. A state that no sequence is expected to visit keeps its probabilities.
    """
    symbols = int(sequences.lengths.sum(dtype=np.int64))
    for number in range(1, iterations + 1):
        expected = expected_states(model, sequences)
        observer.iteration(Iteration(NAME, number, expected.log_likelihood, symbols))
        model = HiddenMarkov(
            _normalised(expected.start, model.start),
            _normalised(expected.transitions, model.transitions),
            _normalised(expected.emissions, model.emissions),
        )
    return model


def log_likelihoods(model: HiddenMarkov, sequences: Column) -> Floats:
    """log P(x) of each sequence; 0 for an empty one."""
    result = np.zeros(len(sequences.lengths))
    for batch in _batches(sequences, states=len(model.start)):
        result[batch.rows] = _trellis(model, batch).log_likelihoods
    return result


def state_posteriors(model: HiddenMarkov, sequences: Column) -> list[Floats]:
    """P(yₜ = y | x) [T,Y] of each sequence."""
    result = [np.zeros((0, len(model.start)))] * len(sequences.lengths)
    for batch in _batches(sequences, states=len(model.start)):
        trellis = _trellis(model, batch)
        posteriors = trellis.forward * trellis.backward
        for column, row in enumerate(batch.rows):
            result[row] = posteriors[: int(sequences.lengths[row]), column]
    return result


def most_likely_states(model: HiddenMarkov, sequences: Column) -> list[Array]:
    """The most likely state sequence for each sequence of symbols (Viterbi algorithm); ties go to the lower state."""
    result = [np.zeros(0, dtype=np.int64)] * len(sequences.lengths)
    with np.errstate(divide="ignore"):
        start, transitions, emissions = (np.log(table) for table in model)
    for batch in _batches(sequences, states=len(model.start)):
        length, rows = batch.ids.shape
        previous = np.tile(np.arange(len(start)), (length, rows, 1))  # after the end, a state stays what it is
        best = start + emissions[:, batch.ids[0]].T
        for t in range(1, length):
            count = batch.active[t]
            extended = best[:count, :, None] + transitions
            previous[t, :count] = extended.argmax(axis=1)
            best[:count] = extended.max(axis=1) + emissions[:, batch.ids[t, :count]].T
        if not np.isfinite(best.max(axis=1)).all():
            raise _impossible(batch.rows[np.flatnonzero(~np.isfinite(best.max(axis=1)))[0]])
        states = np.empty((length, rows), dtype=np.int64)
        states[-1] = best.argmax(axis=1)
        for t in reversed(range(1, length)):
            states[t - 1] = previous[t, np.arange(rows), states[t]]
        for column, row in enumerate(batch.rows):
            result[row] = states[: int(sequences.lengths[row]), column]
    return result


def _trellis(model: HiddenMarkov, batch: Batch) -> Trellis:
    """The result of the forward-backward algorithm for sequences x with states y, transitions a and emissions b.

        forward    αₜ(y) = b(xₜ | y) Σ_y' αₜ₋₁(y') a(y | y')
        backward   βₜ₋₁(y') = Σ_y a(y | y') b(xₜ | y) βₜ(y)

    αₜ is divided by its sum zₜ and βₜ₋₁ by the same zₜ, so that neither underflows, and log P(x) = Σₜ log zₜ (Rabiner
    1989, §V.A).
    """
    length, rows = batch.ids.shape
    shape = length, rows, len(model.start)
    likelihoods = model.emissions.T[batch.ids]  # [T,B,Y]
    forward, backward, arriving, scales = np.zeros(shape), np.ones(shape), np.zeros(shape), np.ones((length, rows, 1))
    for t, count in enumerate(batch.active):
        before = model.start if t == 0 else forward[t - 1, :count] @ model.transitions
        scores = before * likelihoods[t, :count]
        totals = scores.sum(axis=1, keepdims=True)
        if not totals.all():
            raise _impossible(batch.rows[np.flatnonzero(totals == 0)[0]])
        forward[t, :count] = scores / totals
        scales[t, :count] = totals
    for t in reversed(range(length)):
        count = batch.active[t]
        arriving[t, :count] = likelihoods[t, :count] * backward[t, :count] / scales[t, :count]
        if t:
            backward[t - 1, :count] = arriving[t, :count] @ model.transitions.T
    return Trellis(forward, backward, arriving, np.log(scales).sum(axis=(0, 2)))


def _batches(sequences: Column, *, states: int) -> Iterator[Batch]:
    """Yields the sequences that are not empty in batches of similar length; more `states` make smaller batches."""
    lengths = sequences.lengths.astype(np.int64)
    order = np.flatnonzero(lengths)
    order = order[np.argsort(-lengths[order], kind="stable")]
    while len(order):
        longest = int(lengths[order[0]])
        rows, order = np.split(order, [max(1, CELLS // (longest * states))])
        is_symbol = np.arange(longest)[:, None] < lengths[rows]
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        ids[is_symbol.T] = sequences.gather(rows)[0]
        yield Batch(rows, ids.T, is_symbol.sum(axis=1))


def _pair_counts(first: Array, second: Array, *, shape: tuple[int, int]) -> Floats:
    keys = first.astype(np.int64) * shape[1] + second
    counts: Floats = np.bincount(keys, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    return counts


def _normalised(counts: Floats, otherwise: Floats | None = None) -> Floats:
    """Each row divided by its sum; a row of zeros becomes the same row of `otherwise`, or uniform if that is None."""
    totals = counts.sum(axis=-1, keepdims=True)
    even = np.full_like(counts, 1 / counts.shape[-1]) if otherwise is None else otherwise.copy()
    shares: Floats = np.divide(counts, totals, out=even, where=totals > 0)
    return shares


def _impossible(row: int) -> ValueError:
    return ValueError(f"sequence {row} (counted from 0) has probability 0 under this model")
