"""Tests of significance: equal to sacreBLEU's command line, and with the false-positive rate that they state."""

import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import environment
from tests.unit.evaluation.corpora import corrupted, make_corpus

from calque.errors import ConfigError, DataError
from calque.evaluation.segment_statistics import METRICS, Array, MetricName, SegmentMetric
from calque.evaluation.significance import (
    LEVEL,
    Method,
    compare_groups,
    paired_test,
    randomisation_p_value,
    sign_p_value,
)

KEYS: dict[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}


MAIN = (
    "import json; dumps = json.dumps; json.dumps = lambda *a, **k: dumps(*a, default=float, **k); "
    "from sacrebleu.sacrebleu import main; main()"
)
"""The command line as a program that can write NumPy numbers too: --paired-bs with chrF or TER fails otherwise."""


def _command_line(folder: Path, *options: str, program: tuple[str, str]) -> list[dict[str, Any]]:
    """What `sacrebleu` prints for the files in a folder."""
    reference, *systems = (str(folder / name) for name in ("reference", "first", "second", "third"))
    files = [reference, "-i", *systems]
    command = [sys.executable, *program, *files, *options, "--format", "json", "--quiet"]
    done = subprocess.run(command, capture_output=True, env=environment(), check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize(
    ("method", "options", "samples"),
    [
        ("bootstrap", ["--paired-bs", "--paired-bs-n", "300"], 300),
        ("randomisation", ["--paired-ar", "--paired-ar-n", "400"], 400),
    ],
)
def test_results_equal_the_command_line_of_sacrebleu(
    method: Method, options: list[str], samples: int, tmp_path: Path
) -> None:
    corpus = make_corpus(sentences=40, rates=(0.2, 0.25), seed=2)
    third = make_corpus(sentences=40, rates=(0.2, 0.4), seed=2).second
    systems = {"first": corpus.first, "second": corpus.second, "third": third}
    for name, lines in {"reference": corpus.references, **systems}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    metrics = [SegmentMetric(name, corpus.references) for name in METRICS]
    results = paired_test(systems, metrics, method=method, samples=samples)
    assert (results.samples, results.seed) == (samples, 12345)
    plain = _command_line(tmp_path, "-m", "bleu", *options, program=("-m", "sacrebleu"))
    expected = _command_line(tmp_path, "-m", *METRICS, *options, program=("-c", MAIN))
    assert [row["BLEU"] for row in expected] == [row["BLEU"] for row in plain]
    for name in METRICS:
        for row, result in zip(expected, results.systems[name], strict=True):
            assert row[KEYS[name]] == {
                "score": result.score,
                "p_value": result.p_value,
                "mean": result.mean,
                "ci": result.interval,
            }
    name = "bs" if method == "bootstrap" else "ar"
    assert all({f"{name}:{samples}", "seed:12345"} <= set(text.split("|")) for text in results.signatures.values())


@pytest.mark.parametrize("name", METRICS)
def test_the_vectorised_test_equals_sacrebleu(name: MetricName) -> None:
    corpus = make_corpus(sentences=50, rates=(0.2, 0.22), seed=3)
    metric = SegmentMetric(name, corpus.references)
    systems = {"first": corpus.first, "second": corpus.second}
    expected = paired_test(systems, [metric], method="randomisation", samples=700).systems[name][1].p_value
    first, second = (metric.statistics(hypotheses) for hypotheses in systems.values())
    for pair in ((first, second), (second, first)):
        p_value = randomisation_p_value(*pair, scores=metric.scores, samples=700, counts_ties=False)
        assert p_value == expected
        assert randomisation_p_value(*pair, scores=metric.scores, samples=700) >= p_value


def exchanged(first: Array, second: Array, *, generator: np.random.Generator) -> tuple[Array, Array]:
    """The statistics of two systems whose outputs were exchanged at random, sentence by sentence."""
    is_moved = generator.integers(2, size=(len(first), 1)).astype(bool)
    return np.where(is_moved, second, first), np.where(is_moved, first, second)


def false_positives(
    name: MetricName, *, repetitions: int, trials: int, sentences: int, seed: int, counts_ties: bool = False
) -> float:
    """How often the randomisation test calls the difference between two such systems significant."""
    corpus = make_corpus(sentences=sentences, rates=(0.15, 0.35), seed=seed)
    metric = SegmentMetric(name, corpus.references)
    first, second = metric.statistics(corpus.first), metric.statistics(corpus.second)
    generator = np.random.default_rng(seed)
    p_values = [
        randomisation_p_value(
            *exchanged(first, second, generator=generator),
            scores=metric.scores,
            samples=trials,
            counts_ties=counts_ties,
            seed=int(generator.integers(1 << 30)),
        )
        for _ in range(repetitions)
    ]
    return float(np.mean(np.array(p_values) < LEVEL))


def test_the_randomisation_test_is_wrong_as_often_as_it_says() -> None:
    """5 % ± 2 of 1,000 repetitions. Without exchanging, the systems differ clearly."""
    rate = false_positives("bleu", repetitions=1000, trials=500, sentences=120, seed=5)
    assert rate == pytest.approx(LEVEL, abs=0.02)
    corpus = make_corpus(sentences=120, rates=(0.15, 0.35), seed=5)
    metric = SegmentMetric("bleu", corpus.references)
    first, second = metric.statistics(corpus.first), metric.statistics(corpus.second)
    assert randomisation_p_value(first, second, scores=metric.scores, samples=500) < 0.01


@pytest.mark.full
@pytest.mark.parametrize("name", METRICS)
def test_the_false_positive_rate_of_every_metric(name: MetricName, seed: int) -> None:
    rate = false_positives(name, repetitions=4000, trials=1000, sentences=300, seed=seed)
    assert rate == pytest.approx(LEVEL, abs=0.02)


def test_ties_are_counted_where_few_sentences_differ() -> None:
    """Of one sentence, every trial repeats the difference: it cannot be significant, though sacreBLEU says so."""
    corpus = make_corpus(sentences=30, rates=(0.1, 0.6), seed=8)
    metric = SegmentMetric("bleu", corpus.references)
    first = metric.statistics(corpus.first)
    second = np.concatenate([metric.statistics(corpus.second)[:1], first[1:]])
    assert randomisation_p_value(first, second, scores=metric.scores, samples=500) == 1
    assert randomisation_p_value(first, second, scores=metric.scores, samples=500, counts_ties=False) < 0.01


def test_equal_systems_do_not_differ() -> None:
    corpus = make_corpus(sentences=30, seed=4)
    metric = SegmentMetric("bleu", corpus.references)
    rows = metric.statistics(corpus.first)
    results = compare_groups([[rows, rows], [rows]], scores=metric.scores, samples=200)
    assert results[1].difference == 0 and results[1].p_value == 1
    assert results[0].deviation == 0 and results[1].deviation is None


def test_groups_have_the_mean_and_the_deviation_of_their_systems() -> None:
    metric, groups = _groups(seeds=3)
    results = compare_groups(groups, scores=metric.scores, samples=300)
    for result, group in zip(results, groups, strict=True):
        scores = [metric.score(rows) for rows in group]
        assert result.mean == pytest.approx(statistics.fmean(scores))
        assert result.deviation == pytest.approx(statistics.stdev(scores))
        assert result.interval[0] < result.mean < result.interval[1]
    assert results[0].p_value is results[0].difference is None
    assert results[1].difference == pytest.approx(results[1].mean - results[0].mean)
    assert results[1].p_value is not None and results[1].p_value < 0.02


def test_the_bootstrap_over_seeds_and_sentences_equals_a_plain_one() -> None:
    """A second implementation, sentence by sentence and seed by seed; the intervals agree up to chance."""
    metric, groups = _groups(seeds=3)
    generator = random.Random(0)
    size, samples = len(groups[0][0]), 1500
    differences = []
    for _ in range(samples):
        places = generator.choices(range(size), k=size)
        means = []
        for group in groups:
            drawn = generator.choices(group, k=len(group))
            means.append(statistics.fmean(metric.score(rows[places]) for rows in drawn))
        differences.append(means[1] - means[0])
    expected = np.percentile(differences, (2.5, 97.5))
    result = compare_groups(groups, scores=metric.scores, samples=1500)[1]
    assert result.difference_interval == pytest.approx(tuple(expected), abs=0.15 * float(expected[1] - expected[0]))


def test_one_system_per_group_is_the_bootstrap_of_sentences() -> None:
    """As wide as sacreBLEU's confidence interval; more seeds widen it by their spread."""
    metric, groups = _groups(seeds=1)
    corpus = make_corpus(sentences=80, seed=6)
    systems = {"first": corpus.first, "second": _hypotheses(0.3, seed=106)}
    expected = paired_test(systems, [metric], method="bootstrap", samples=1000).systems["bleu"][0].interval
    low, high = compare_groups(groups, scores=metric.scores, samples=1000)[0].interval
    assert expected is not None
    assert (high - low) / 2 == pytest.approx(expected, rel=0.15)


def _groups(*, seeds: int) -> tuple[SegmentMetric, list[list[Array]]]:
    references = make_corpus(sentences=80, seed=6).references
    metric = SegmentMetric("bleu", references)
    return metric, [[metric.statistics(_hypotheses(rate, seed=seed)) for seed in range(seeds)] for rate in (0.35, 0.2)]


def _hypotheses(rate: float, *, seed: int) -> list[str]:
    """A system's output for the references of seed 6."""
    generator = random.Random(seed)
    references = make_corpus(sentences=80, seed=6).references
    return [" ".join(corrupted(line.split(), rate=rate, generator=generator)) for line in references]


def test_a_p_value_counts_the_rarer_sign_twice() -> None:
    assert sign_p_value(np.array([1.0] * 99)) == pytest.approx(2 / 100)
    assert sign_p_value(np.array([1.0] * 90 + [-1.0] * 9)) == pytest.approx(20 / 100)
    assert sign_p_value(np.array([0.0] * 50)) == 1


def test_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = SegmentMetric("bleu", ["a b"])
    with pytest.raises(DataError, match="at least two systems"):
        paired_test({"only": ["a b"]}, [metric], method="bootstrap")
    monkeypatch.setenv("SACREBLEU_SEED", "twelve")
    with pytest.raises(ConfigError, match="SACREBLEU_SEED is 'twelve'"):
        paired_test({"first": ["a b"], "second": ["a c"]}, [metric], method="bootstrap")
