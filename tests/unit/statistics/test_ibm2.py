"""IBM Model 2 with a diagonal prior: against enumeration, against plain Python, and EM against its law."""

from itertools import product
from math import exp, log, prod

import numpy as np
import pytest
import torch
from tests.unit.statistics.corpora import column, random_corpus, translated

from calque.data.store import Column
from calque.statistics import cooccurrence, ibm2
from calque.statistics.cooccurrence import Cooccurrences, cooccurrences, digamma
from calque.statistics.diagonal import LARGEST, STEP, STEPS, Diagonal, Shape
from calque.statistics.em import Iteration, Observer
from calque.statistics.ibm1 import train_ibm1
from calque.statistics.ibm2 import DiagonalModel, train_ibm2
from calque.statistics.word_alignment import AlignmentSettings, align_words

SHAPES = [(1, 1), (1, 4), (3, 1), (2, 3), (3, 4), (4, 2)]


class Likelihoods(Observer):
    """Keeps the log-likelihood of each iteration."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def iteration(self, iteration: Iteration) -> None:
        self.values.append(iteration.log_likelihood)


def delta(i: int, j: int, shape: Shape, tension: float) -> float:
    """δ(i | j, I, J), with i and j from 1, as the paper says it."""
    sources, targets = shape
    weights = [exp(-tension * abs(k / sources - j / targets)) for k in range(1, sources + 1)]
    return weights[i - 1] / sum(weights)


@pytest.mark.parametrize("tension", [0.0, 0.5, 4.0, 14.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_prior_is_the_papers_distribution(shape: Shape, tension: float) -> None:
    matrix = Diagonal(tension).matrix(shape)
    expected = [[delta(i, j, shape, tension) for i in range(1, shape[0] + 1)] for j in range(1, shape[1] + 1)]
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)
    prior = DiagonalModel(np.zeros(0), Diagonal(tension), 0.1).prior(shape)
    assert (prior[:, 0] == 0.1).all()
    np.testing.assert_allclose(prior.sum(axis=1), 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_model_is_the_sum_over_all_alignments(shape: Shape, seed: int) -> None:
    words, targets = shape
    cells = np.random.default_rng(seed).uniform(0.01, 1, (targets, 3, 1 + words))
    model = DiagonalModel(np.zeros(0), Diagonal(3.0), 0.08)
    expected = ibm2.expected_alignments(cells, prior=model.prior(shape))
    likelihood = 0.0
    for pair in range(3):

        def probability(alignment: tuple[int, ...], pair: int = pair) -> float:
            priors = [0.92 * delta(i, j, shape, 3.0) if i else 0.08 for j, i in enumerate(alignment, start=1)]
            return prod(priors) * prod(float(cells[j, pair, i]) for j, i in enumerate(alignment))

        weights = {a: probability(a) for a in product(range(words + 1), repeat=targets)}
        total = sum(weights.values())
        likelihood += log(total)
        for j, i in product(range(targets), range(words + 1)):
            share = sum(weight for a, weight in weights.items() if a[j] == i) / total
            assert expected.posteriors[j, pair, i] == pytest.approx(share, rel=1e-9)
        best = max(weights, key=lambda a: weights[a])
        assert model.align(cells)[pair].tolist() == [i - 1 for i in best]
    assert expected.log_likelihood == pytest.approx(likelihood, rel=1e-12)


TOTALS = {shape: np.random.default_rng(sum(shape)).uniform(0, 30, shape[1]) for shape in SHAPES}


def quality(tension: float, distance: float) -> float:
    """Q(λ) of TOTALS, up to what does not depend on λ."""
    value = -tension * distance
    for (sources, targets), total in TOTALS.items():
        for j in range(1, targets + 1):
            weights = [exp(-tension * abs(i / sources - j / targets)) for i in range(1, sources + 1)]
            value -= float(total[j - 1]) * log(sum(weights))
    return value


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 1.0])
def test_the_tension_rises_or_falls_to_the_maximum_and_never_for_the_worse(share: float) -> None:
    words = sum(float(total.sum()) for total in TOTALS.values())
    distance = share * sum(
        float((total[:, None] * Diagonal(0).matrix(shape) * _distances(shape)).sum()) for shape, total in TOTALS.items()
    )
    diagonal, values = Diagonal(4.0), []
    for _ in range(400):
        values.append(quality(diagonal.tension, distance))
        diagonal = diagonal.reestimated(TOTALS, distance=distance)
    assert np.diff(values).min() >= -1e-9 * words
    grid = [quality(tension, distance) for tension in np.linspace(0, LARGEST, 2001)]
    assert values[-1] >= max(grid) - 1e-6 * words


def _distances(shape: Shape) -> np.ndarray:
    return np.array(
        [[abs(i / shape[0] - j / shape[1]) for i in range(1, shape[0] + 1)] for j in range(1, shape[1] + 1)]
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("learns", [False, True])
def test_the_likelihood_never_falls(seed: int, learns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With λ fixed and learnt; also with several blocks and chunks."""
    monkeypatch.setattr(cooccurrence, "BLOCK_CELLS", 100)
    monkeypatch.setattr(cooccurrence, "CHUNK_CELLS", 50)
    corpus = cooccurrences(*random_corpus(seed))
    likelihoods = Likelihoods()
    start = train_ibm1(corpus, iterations=2)
    model = train_ibm2(corpus, start, iterations=25, learns_tension=learns, tension=6.0, observer=likelihoods)
    assert (model.diagonal.tension == 6.0) != learns
    assert likelihoods.values[-1] > likelihoods.values[0]
    assert np.diff(likelihoods.values).min() >= -1e-9 * abs(likelihoods.values[0]), likelihoods.values


Pairs = list[tuple[list[int | str], list[int]]]
Table = dict[tuple[int, int | str], float]


def pairs_of(source: Column, target: Column) -> Pairs:
    rows = range(len(source.lengths))
    pairs: Pairs = [(["empty", *source.row(n).tolist()], target.row(n).tolist()) for n in rows]
    return [(es, fs) for es, fs in pairs if len(es) > 1 and fs]


def plainly(pairs: Pairs, lexical: Table, *, iterations: int, dirichlet: float | None) -> tuple[Table, float]:
    """EM with dictionaries and loops, with p₀ = 0.08 and λ from 4."""
    tension = 4.0
    for _ in range(iterations):
        counts = dict.fromkeys(lexical, 0.0)
        distance, linked = 0.0, []  # (j, I, J, posterior of all words but the empty one)
        for es, fs in pairs:
            shape = len(es) - 1, len(fs)
            for j, f in enumerate(fs, start=1):
                joint = [0.08 * lexical[f, "empty"]]
                joint += [0.92 * delta(i, j, shape, tension) * lexical[f, e] for i, e in enumerate(es[1:], start=1)]
                for i, e in enumerate(es):
                    share = joint[i] / sum(joint)
                    counts[f, e] += share
                    distance += share * abs(i / shape[0] - j / shape[1]) if i else 0
                linked.append((j, shape, 1 - joint[0] / sum(joint)))
        words = sum(share for _, _, share in linked)
        for _ in range(STEPS):
            expected = sum(
                share * delta(i, j, shape, tension) * abs(i / shape[0] - j / shape[1])
                for j, shape, share in linked
                for i in range(1, shape[0] + 1)
            )
            tension = min(max(tension + STEP * (expected - distance) / words, 0), LARGEST)
        lexical = _maximised(counts, dirichlet)
    return lexical, tension


def _maximised(counts: Table, dirichlet: float | None) -> Table:
    added = dirichlet or 0.0
    totals: dict[int | str, float] = {}
    for (_, e), count in counts.items():
        totals[e] = totals.get(e, 0.0) + count + added
    if dirichlet is None:
        return {(f, e): count / totals[e] for (f, e), count in counts.items()}
    psi = {e: float(torch.digamma(torch.tensor(total, dtype=torch.float64))) for e, total in totals.items()}
    return {
        (f, e): exp(float(torch.digamma(torch.tensor(count + dirichlet, dtype=torch.float64))) - psi[e])
        for (f, e), count in counts.items()
    }


def as_table(corpus: Cooccurrences, lexical: np.ndarray) -> Table:
    sources = len(corpus.offsets) - 2
    return {
        (int(corpus.targets[entry]), "empty" if row == sources else row): float(lexical[entry])
        for row in range(sources + 1)
        for entry in range(corpus.offsets[row], corpus.offsets[row + 1])
    }


@pytest.mark.parametrize("dirichlet", [None, 0.01, 0.5])
def test_training_equals_plain_python(dirichlet: float | None, seed: int) -> None:
    source, target = random_corpus(seed, pairs=20)
    corpus = cooccurrences(source, target)
    start = train_ibm1(corpus, iterations=1)
    model = train_ibm2(corpus, start, iterations=3, dirichlet=dirichlet)
    lexical, tension = plainly(
        pairs_of(source, target), as_table(corpus, start.lexical), iterations=3, dirichlet=dirichlet
    )
    assert as_table(corpus, model.lexical) == pytest.approx(lexical, rel=1e-7)
    assert model.diagonal.tension == pytest.approx(tension, rel=1e-7)


@pytest.mark.parametrize("dirichlet", [0.01, 0.1, 1.0])
def test_variational_bayes_never_lowers_its_bound(dirichlet: float, seed: int) -> None:
    """The bound is log P(f | e) under the weights exp E[log t], minus the divergence of the posterior from the prior.

    With ã = c + α for each entry, and sums over a source word's entries, the divergence is log Γ(Σ ã) − Σ log Γ(ã)
    − log Γ(nα) + n log Γ(α) + Σ (ã − α) (ψ(ã) − ψ(Σ ã)).
    """
    corpus = cooccurrences(*random_corpus(seed, pairs=40))
    bounds, start = [], train_ibm1(corpus, iterations=1)
    for iterations in range(2, 12):
        likelihoods = Likelihoods()
        train_ibm2(corpus, start, iterations=iterations, dirichlet=dirichlet, observer=likelihoods)
        before = train_ibm2(corpus, start, iterations=iterations - 2, dirichlet=dirichlet)
        counts = np.zeros_like(before.lexical)
        for block in corpus.blocks:
            values = block.gather(before.lexical)
            for chunk in block.chunks:
                cells = chunk.cells(values)
                cells[:] = ibm2.expected_alignments(
                    cells, prior=before.prior((chunk.sources, chunk.targets))
                ).posteriors
            block.add(counts, values)
        bounds.append(likelihoods.values[-1] - divergence(corpus, counts, dirichlet))
    assert np.diff(bounds).min() >= -1e-8 * abs(bounds[0]), bounds
    assert bounds[-1] > bounds[0]


def divergence(corpus: Cooccurrences, counts: np.ndarray, dirichlet: float) -> float:
    total = 0.0
    for start, stop in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True):
        posterior = torch.from_numpy(counts[start:stop]) + dirichlet
        if len(posterior):
            prior = torch.full_like(posterior, dirichlet)
            q, p = (torch.distributions.Dirichlet(part, validate_args=False) for part in (posterior, prior))
            total += float(torch.distributions.kl_divergence(q, p))
    return total


def test_digamma() -> None:
    values = np.concatenate([np.geomspace(1e-3, 1e6, 200), np.arange(1, 12), np.arange(1, 12) + 0.5])
    expected = torch.digamma(torch.from_numpy(values)).numpy()
    np.testing.assert_allclose(digamma(values), expected, rtol=1e-11, atol=1e-11)


def test_without_a_preference_it_is_ibm1() -> None:
    """λ = 0 and p₀ = 1/(I+1), in sentences of I = 3 words."""
    random = np.random.default_rng(2)
    source = column([random.integers(0, 9, 3).tolist() for _ in range(50)])
    target = column([random.integers(0, 9, random.integers(1, 6)).tolist() for _ in range(50)])
    corpus = cooccurrences(source, target)
    model = train_ibm2(
        corpus, train_ibm1(corpus, iterations=1), iterations=4, empty=0.25, tension=0.0, learns_tension=False
    )
    np.testing.assert_allclose(model.lexical, train_ibm1(corpus, iterations=5).lexical, rtol=1e-9)


def test_the_tension_of_a_generated_corpus_is_found(seed: int) -> None:
    """Words that occur once per sentence are drawn from source words by δ with λ = 6."""
    random, sources, targets = np.random.default_rng(seed), [], []
    for _ in range(800):
        source = random.permutation(60)[: random.integers(5, 12)]
        matrix = Diagonal(6.0).matrix((len(source), len(source)))
        sources.append(source.tolist())
        targets.append([int(source[random.choice(len(source), p=row)]) for row in matrix])
    corpus = cooccurrences(column(sources), column(targets))
    model = train_ibm2(corpus, train_ibm1(corpus, iterations=5), iterations=10, empty=0.01)
    assert model.diagonal.tension == pytest.approx(6.0, abs=1.0)


def test_positions_tell_repeated_words_apart(seed: int) -> None:
    """The word at the same place, among several that are equal."""
    random = np.random.default_rng(seed)
    rows = [random.integers(0, 4, random.integers(4, 9)).tolist() for _ in range(200)]
    aligned = align_words(column(rows), column(rows), settings=AlignmentSettings("ibm2"))
    links = [link for pair in range(200) for link in aligned.links(pair)]
    assert np.mean([source == target for source, target in links]) > 0.98


@pytest.mark.parametrize("dirichlet", [None, 0.01])
def test_a_dictionary_is_learnt(dirichlet: float | None) -> None:
    source, target, gold = translated(3, drop=0.2)
    aligned = align_words(source, target, settings=AlignmentSettings("ibm2", dirichlet=dirichlet))
    right = [set(aligned.links(pair)) == links for pair, links in enumerate(gold)]
    assert np.mean(right) > 0.95
    for word in range(40):
        assert aligned.lexicon.best(word, 1)[0].tolist() == [word + 100]


@pytest.mark.parametrize("rows", [[], [[]], [[], [1, 2]]])
@pytest.mark.parametrize("dirichlet", [None, 0.01])
def test_a_corpus_without_pairs_is_trained_on(rows: list[list[int]], dirichlet: float | None) -> None:
    corpus = cooccurrences(column(rows), column([[]] * len(rows)), maximum=3)
    model = train_ibm2(corpus, train_ibm1(corpus, iterations=2), iterations=2, dirichlet=dirichlet)
    assert model.lexical.size == 0
