"""IBM Model 1 and the HMM against enumeration of all alignments, and EM against its law."""

from collections.abc import Iterator
from itertools import product
from math import log, prod

import numpy as np
import pytest
from tests.unit.statistics.corpora import column, random_corpus

from calque.statistics import cooccurrence, hmm, ibm1
from calque.statistics.cooccurrence import cooccurrences
from calque.statistics.em import Iteration, Observer
from calque.statistics.hmm import Transitions, train_hmm
from calque.statistics.ibm1 import TranslationModel, train_ibm1
from calque.statistics.jumps import Jumps

SHAPES = [(1, 1), (1, 4), (3, 1), (2, 3), (3, 4), (4, 2)]
SEEDS = range(8)


class Likelihoods(Observer):
    """Keeps the log-likelihood of each iteration."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def iteration(self, iteration: Iteration) -> None:
        self.values.append(iteration.log_likelihood)


def random_cells(words: int, targets: int, *, pairs: int = 3, seed: int = 0) -> np.ndarray:
    """Lexical probabilities [J,B,1+I]."""
    return np.random.default_rng(seed).uniform(0.01, 1, (targets, pairs, 1 + words))


def random_transitions(words: int, *, seed: int = 1, smoothing: float = 0.3) -> Transitions:
    weights = np.random.default_rng(seed).uniform(0.01, 1, 2 * (words + 2) + 1)
    return Transitions(0.75 * Jumps(weights, smoothing).matrix(words), 0.25)


def alignments(words: int, targets: int) -> Iterator[tuple[int, ...]]:
    """Every alignment: for each target word a source word from 1, or 0 for the empty word."""
    return product(range(words + 1), repeat=targets)


def hmm_probability(alignment: tuple[int, ...], cells: np.ndarray, transitions: Transitions) -> float:
    """P(f, a | e), as the paper says it; cells [J,1+I] of one pair."""
    probability, position = 1.0, 0
    for lexical, word in zip(cells, alignment, strict=True):
        if word:
            probability *= transitions.jump[position, word - 1] * lexical[word]
            position = word
        else:
            probability *= transitions.stay * lexical[0]
    return float(probability)


def ibm1_probability(alignment: tuple[int, ...], cells: np.ndarray) -> float:
    return prod(float(lexical[word]) / len(lexical) for lexical, word in zip(cells, alignment, strict=True))


@pytest.mark.parametrize(("words", "targets"), SHAPES)
def test_ibm1_is_the_sum_over_all_alignments(words: int, targets: int) -> None:
    cells = random_cells(words, targets)
    expected = ibm1.expected_alignments(cells)
    likelihoods = []
    for pair in range(cells.shape[1]):
        weights = {a: ibm1_probability(a, cells[:, pair]) for a in alignments(words, targets)}
        total = sum(weights.values())
        likelihoods.append(log(total))
        for j, i in product(range(targets), range(words + 1)):
            share = sum(weight for a, weight in weights.items() if a[j] == i) / total
            assert expected.posteriors[j, pair, i] == pytest.approx(share, rel=1e-9)
        best = max(weights, key=lambda a: weights[a])
        assert ibm1.most_likely_alignments(cells)[pair].tolist() == [i - 1 for i in best]
    assert expected.log_likelihood == pytest.approx(sum(likelihoods), rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("words", "targets"), SHAPES)
def test_the_hmm_is_the_sum_over_all_alignments(words: int, targets: int, seed: int) -> None:
    cells, transitions = random_cells(words, targets, seed=seed), random_transitions(words, seed=seed)
    expected = hmm.expected_alignments(cells, transitions=transitions)
    paths = hmm.most_likely_alignments(cells, transitions=transitions)
    jumps, likelihood = np.zeros_like(transitions.jump), 0.0
    for pair in range(cells.shape[1]):
        weights = {a: hmm_probability(a, cells[:, pair], transitions) for a in alignments(words, targets)}
        total = sum(weights.values())
        likelihood += log(total)
        posteriors = np.zeros((targets, words + 1))
        for alignment, weight in weights.items():
            position = 0
            for j, i in enumerate(alignment):
                posteriors[j, i] += weight / total
                if i:
                    jumps[position, i - 1] += weight / total
                    position = i
        np.testing.assert_allclose(expected.posteriors[:, pair], posteriors, rtol=1e-9)
        best = max(weights, key=lambda a: weights[a])
        assert paths[pair].tolist() == [i - 1 for i in best]
    assert expected.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    np.testing.assert_allclose(expected.jumps, jumps, rtol=1e-9)


def test_jumps_are_distributions_over_source_words() -> None:
    """Against the formula, written out."""
    weights = np.random.default_rng(3).uniform(0, 1, 2 * 5 + 1)
    for words in range(1, 6):
        matrix = Jumps(weights, 0.3).matrix(words)
        assert matrix.shape == (words + 1, words)
        for before in range(words + 1):
            total = sum(weights[5 + k - before] for k in range(1, words + 1))
            for i in range(1, words + 1):
                expected = 0.3 / words + 0.7 * weights[5 + i - before] / total
                assert matrix[before, i - 1] == pytest.approx(expected)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)


def test_long_sentences_do_not_underflow() -> None:
    words, targets = 200, 250
    cells = np.full((targets, 2, 1 + words), 1e-9)
    transitions = random_transitions(words)
    expected = hmm.expected_alignments(cells, transitions=transitions)
    assert expected.log_likelihood == pytest.approx(2 * targets * log(1e-9), rel=1e-9)
    np.testing.assert_allclose(expected.posteriors.sum(axis=2), 1, rtol=1e-9)
    assert hmm.most_likely_alignments(cells, transitions=transitions).shape == (2, targets)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2, 1.0])
def test_the_likelihood_never_falls(seed: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within each model; also with several blocks and chunks."""
    monkeypatch.setattr(cooccurrence, "BLOCK_CELLS", 100)
    monkeypatch.setattr(cooccurrence, "CHUNK_CELLS", 50)
    corpus = cooccurrences(*random_corpus(seed))
    assert len(corpus.blocks) > 2
    first, second = Likelihoods(), Likelihoods()
    model = train_ibm1(corpus, iterations=15, observer=first)
    train_hmm(corpus, model, iterations=25, smoothing=smoothing, observer=second)
    for values in (first.values, second.values):
        assert values[-1] > values[0]
        assert np.diff(values).min() >= -1e-9 * abs(values[0]), values


COUNTS = {words: np.random.default_rng(words).uniform(0, 1, (words + 1, words)) ** 6 for words in (1, 2, 5)}


def quality(jumps: Jumps) -> float:
    """The log-likelihood of COUNTS."""
    return sum(float((matrix * np.log(jumps.matrix(words))).sum()) for words, matrix in COUNTS.items())


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_jumps_are_reestimated_to_a_maximum_and_never_for_the_worse(smoothing: float) -> None:
    jumps, values = Jumps.uniform(5, smoothing=smoothing), []
    for _ in range(300):
        values.append(quality(jumps))
        jumps = jumps.reestimated(COUNTS)
    assert np.diff(values).min() >= -1e-12
    for width, factor in product(range(len(jumps.weights)), (0.9, 0.99, 1.01, 1.1)):
        weights = jumps.weights.copy()
        weights[width] *= factor
        assert quality(Jumps(weights, smoothing)) <= quality(jumps) + 1e-4


def test_relative_frequencies_of_jumps_are_not_the_maximum() -> None:
    """Why `Jumps.reestimated` divides by what the sentences allow."""
    by_width = np.zeros(11)
    for matrix in COUNTS.values():
        for (before, i), count in np.ndenumerate(matrix):
            by_width[5 + (i + 1) - before] += count
    jumps = Jumps.uniform(5, smoothing=0)
    for _ in range(50):
        jumps = jumps.reestimated(COUNTS)
    assert quality(jumps) > quality(Jumps(by_width + 1e-9, 0)) + 1e-3


def test_the_em_of_ibm1_equals_its_textbook_form() -> None:
    """Dictionaries and loops (Koehn 2010, figure 4.3), with the empty word."""
    source, target = random_corpus(5, pairs=30)
    corpus = cooccurrences(source, target)
    lexical = train_ibm1(corpus, iterations=4).lexical
    pairs = [
        ([*source.row(n).tolist(), "empty"], target.row(n).tolist())
        for n in range(30)
        if len(source.row(n)) and len(target.row(n))
    ]
    together = {(f, e) for es, fs in pairs for e in es for f in fs}
    t = {(f, e): 1 / sum(e == other for _, other in together) for f, e in together}
    for _ in range(4):
        counts, totals = dict.fromkeys(t, 0.0), {e: 0.0 for _, e in t}
        for es, fs in pairs:
            for f in fs:
                total = sum(t[f, e] for e in es)
                for e in es:
                    counts[f, e] += t[f, e] / total
                    totals[e] += t[f, e] / total
        t = {(f, e): count / totals[e] for (f, e), count in counts.items()}
    found = {}
    sources = len(corpus.offsets) - 2
    for row in range(sources + 1):
        for entry in range(corpus.offsets[row], corpus.offsets[row + 1]):
            found[int(corpus.targets[entry]), "empty" if row == sources else row] = lexical[entry]
    assert found == pytest.approx(t)


def test_blocks_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    corpora = [cooccurrences(*random_corpus(7))]
    monkeypatch.setattr(cooccurrence, "BLOCK_CELLS", 1)
    monkeypatch.setattr(cooccurrence, "CHUNK_CELLS", 1)
    corpora.append(cooccurrences(*random_corpus(7)))
    assert len(corpora[1].blocks) == corpora[1].pairs == corpora[0].pairs
    models = [train_hmm(corpus, train_ibm1(corpus, iterations=3), iterations=3) for corpus in corpora]
    np.testing.assert_allclose(models[0].lexical, models[1].lexical, rtol=1e-9)
    np.testing.assert_allclose(models[0].jumps.weights, models[1].jumps.weights, rtol=1e-9)


@pytest.mark.parametrize("largest", [5, 10**6, 1 << 52, 1 << 62])
def test_distinct_keys(largest: int, seed: int) -> None:
    """Those that fit into one number with their positions, and those that do not."""
    random = np.random.default_rng(seed)
    keys = random.choice(random.integers(0, largest, 300), 1000)
    distinct, indices = cooccurrence._distinct(keys)
    assert distinct.tolist() == sorted(set(keys.tolist()))
    assert distinct[indices].tolist() == keys.tolist()


def test_training_is_deterministic() -> None:
    corpus = cooccurrences(*random_corpus(9))
    first, second = (train_hmm(corpus, train_ibm1(corpus, iterations=3), iterations=3) for _ in range(2))
    assert first.lexical.tobytes() == second.lexical.tobytes()
    assert first.jumps.weights.tobytes() == second.jumps.weights.tobytes()


@pytest.mark.parametrize("rows", [[], [[]], [[], [1, 2]]])
def test_a_corpus_without_pairs_is_trained_on(rows: list[list[int]]) -> None:
    corpus = cooccurrences(column(rows), column([[]] * len(rows)), maximum=3)
    assert (corpus.pairs, corpus.words, len(corpus.targets)) == (0, 0, 0)
    model = train_hmm(corpus, train_ibm1(corpus, iterations=2), iterations=2)
    assert model.lexical.size == 0


def test_one_word_for_one_word() -> None:
    """Every jump is from the start."""
    corpus = cooccurrences(column([[1], [2]]), column([[1], [2]]))
    model = train_hmm(corpus, train_ibm1(corpus, iterations=2), iterations=5, smoothing=0)
    assert np.isfinite(model.lexical).all() and np.isfinite(model.jumps.matrix(1)).all()
    assert isinstance(train_ibm1(corpus, iterations=0), TranslationModel)
