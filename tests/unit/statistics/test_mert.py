"""Minimum error rate training: the exact line search against a fine grid, and tuning on a toy task."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from tests.unit.statistics.test_stack_decoder import random_model, sentence

from calque.statistics.mert import Candidates, Optimum, corpus_score, line_search, optimise, pad_candidates
from calque.statistics.phrase_model import UNKNOWN, Derivation
from calque.statistics.phrase_tuning import Tuner, TuningReport, TuningSettings
from calque.statistics.stack_decoder import EXHAUSTIVE, StackDecoder


def f_score(sums: np.ndarray) -> np.ndarray:
    """A metric that is no mean over segments: 2 · correct / (length + reference length)."""
    return 200 * sums[:, 0] / (sums[:, 1] + sums[:, 2])


def random_candidates(random: np.random.Generator, *, segments: int = 12, features: int = 4) -> Candidates:
    """Lists of different lengths, with equal features among them."""
    counts = random.integers(1, 15, segments)
    vectors = [random.integers(-3, 4, (count, features)).astype(float) for count in counts]
    statistics = []
    for count in counts:
        lengths = random.integers(5, 10, count)
        statistics.append(np.stack([random.integers(0, 5, count), lengths, np.full(count, 7)], axis=1).astype(float))
    return pad_candidates(vectors, statistics)


def test_the_line_search_is_exact(seed: int) -> None:
    random = np.random.default_rng(seed)
    gains = 0
    for _ in range(30):
        candidates = random_candidates(random)
        weights, direction = random.normal(size=4), random.normal(size=4)
        gamma, score = line_search(candidates, weights, direction, scores=f_score)
        grid = [
            corpus_score(candidates, weights + step * direction, scores=f_score) for step in np.linspace(-8, 8, 401)
        ]
        assert score >= max(grid) - 1e-3, "no point of the grid is better"
        assert corpus_score(candidates, weights + gamma * direction, scores=f_score) == pytest.approx(score)
        gains += gamma != 0
    assert gains > 20


def test_a_line_search_without_gain_stays(seed: int) -> None:
    candidates = random_candidates(np.random.default_rng(seed))
    weights = np.ones(4)
    assert line_search(candidates, weights, np.zeros(4), scores=f_score)[0] == 0
    constant = candidates._replace(statistics=np.ones_like(candidates.statistics))
    assert line_search(constant, weights, np.eye(4)[0], scores=f_score)[0] == 0


def test_optimisation_gains_and_leaves_fixed_weights(seed: int) -> None:
    random = np.random.default_rng(seed)
    candidates = random_candidates(random, segments=40)
    start = random.normal(size=4)
    tuned = np.array([True, True, False, True])
    before = corpus_score(candidates, start, scores=f_score)
    found, again = (
        optimise(candidates, start, tuned=tuned, scores=f_score, random=np.random.default_rng(1)) for _ in range(2)
    )
    assert found.score > before and found.weights[2] == start[2]
    assert (found.weights == again.weights).all(), "it depends on the seed alone"
    assert corpus_score(candidates, found.weights, scores=f_score) == pytest.approx(found.score)


class Overlap:
    """F-score of words against references, with the statistics of `f_score`."""

    def __init__(self, references: list[str]) -> None:
        self.references = references

    def statistics(self, hypotheses: list[str]) -> np.ndarray:
        rows = []
        for hypothesis, reference in zip(hypotheses, self.references, strict=True):
            words, others = hypothesis.split(), reference.split()
            rows.append(
                (sum(word == other for word, other in zip(words, others, strict=False)), len(words), len(others))
            )
        return np.array(rows, dtype=float)

    def scores(self, sums: np.ndarray) -> np.ndarray:
        return f_score(np.asarray(sums))


def test_tuning_finds_weights_like_those_that_made_the_references() -> None:
    """How much tuning gains depends on the model: these begin with weights of the wrong sign."""
    gains = [tuning_gain(seed) for seed in range(12)]
    assert min(gains) > 20 and sum(gains) / len(gains) > 50


def test_a_tuned_model_is_the_best_of_all_iterations(seed: int) -> None:
    assert tuning_gain(seed) >= 0


def tuning_gain(seed: int) -> float:
    """How much better a model with other weights gets by tuning; the references are translations of the true model."""
    teacher = random_model(seed)
    sources = [sentence(seed + number, 5) for number in range(12)]
    search = EXHAUSTIVE._replace(distortion=1, stack=30, pops=100)

    def text(_: int, derivation: Derivation) -> str:
        return " ".join(map(str, derivation.words))

    decoder = StackDecoder(teacher, search)
    measure = Overlap([text(0, next(decoder.derivations(ids))) for ids in sources])
    weights = {name: -0.3 for name in teacher.features if name != UNKNOWN} | {UNKNOWN: -1.0}
    reports: list[TuningReport] = []
    settings = TuningSettings(iterations=5, nbest=30, restarts=1)

    def tuned(report: Callable[[TuningReport], None]) -> dict[str, float]:
        tuner = Tuner(sources, measure, text=text, search=search, settings=settings, report=report)
        return dict(tuner.tune(teacher._replace(weights=weights)).weights)

    found = tuned(reports.append)
    assert found == tuned(lambda _: None), "tuning is deterministic"
    assert found[UNKNOWN] == -1.0
    decoder = StackDecoder(teacher._replace(weights=found), search)
    texts = [text(0, next(decoder.derivations(ids))) for ids in sources]
    score = float(measure.scores(measure.statistics(texts).sum(axis=0, keepdims=True))[0])
    assert score >= max(report.score for report in reports)
    assert reports[0].expected > reports[0].score
    return score - reports[0].score


def test_tuning_keeps_the_best_weights_and_their_scale(seed: int) -> None:
    """Every translation that was scored is known, so that the best of all iterations can be told from the last."""
    teacher = random_model(seed)
    sources = [sentence(seed + number, 4) for number in range(6)]
    search = EXHAUSTIVE._replace(distortion=1, stack=20, pops=60)

    def text(_: int, derivation: Derivation) -> str:
        return " ".join(map(str, derivation.words))

    def score_of(weights: Mapping[str, float]) -> float:
        decoder = StackDecoder(teacher._replace(weights=weights), search)
        texts = [text(0, next(decoder.derivations(ids))) for ids in sources]
        return float(measure.scores(measure.statistics(texts).sum(axis=0, keepdims=True))[0])

    decoder = StackDecoder(teacher, search)
    measure = Overlap([text(0, next(decoder.derivations(ids))) for ids in sources])
    generator = np.random.default_rng(seed)
    for _ in range(4):
        start = {name: float(generator.normal()) for name in teacher.features}
        reports: list[TuningReport] = []
        tuner = Tuner(
            sources, measure, text=text, search=search, settings=TuningSettings(3, 8, 1), report=reports.append
        )
        found = tuner.tune(teacher._replace(weights=start)).weights
        scores = [report.score for report in reports]
        assert scores[0] == pytest.approx(score_of(start)), "the first iteration begins with the given weights"
        assert score_of(found) >= max(scores) - 1e-9
        tuned = [name for name in teacher.features if name != UNKNOWN]
        size = sum(abs(start[name]) for name in tuned)
        assert sum(abs(found[name]) for name in tuned) == pytest.approx(size) and found[UNKNOWN] == start[UNKNOWN]


def test_weights_that_translate_worse_than_expected_are_not_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """MERT may be wrong about new translations: here its first weights are good and all later ones bad."""
    teacher = random_model(seed)
    sources = [sentence(seed + number, 4) for number in range(6)]
    search = EXHAUSTIVE._replace(distortion=1, stack=20, pops=60)

    def text(_: int, derivation: Derivation) -> str:
        return " ".join(map(str, derivation.words))

    decoder = StackDecoder(teacher, search)
    measure = Overlap([text(0, next(decoder.derivations(ids))) for ids in sources])
    bad = np.array([-teacher.weights.get(name, 0.0) for name in teacher.features])
    good = np.array([teacher.weights.get(name, 0.0) for name in teacher.features])
    proposals = iter([good, bad, 2 * bad, 3 * bad])
    monkeypatch.setattr(Tuner, "_optimise", lambda *_args, **_named: Optimum(next(proposals), 100.0))
    start = dict(zip(teacher.features, (1.5 * bad).tolist(), strict=True))
    tuner = Tuner(sources, measure, text=text, search=search, settings=TuningSettings(4, 8, 0))
    found = tuner.tune(teacher._replace(weights=start)).weights
    assert [found[name] for name in teacher.features] == good.tolist()
