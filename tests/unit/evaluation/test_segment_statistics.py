"""Scores from sums of statistics equal sacreBLEU's, for whole corpora, for parts of them and for single sentences."""

import numpy as np
import pytest
import sacrebleu
from tests.unit.evaluation.corpora import make_corpus

from calque.errors import ConfigError
from calque.evaluation.metrics import score_translations
from calque.evaluation.segment_statistics import METRICS, MetricName, SegmentMetric, metric_names

ODD = [
    ("", ""),
    ("", "two words"),
    ("two words", ""),
    ("same", "same"),
    ("nothing in common", "with this sentence"),
    ("a b c", "a b c"),
    ("the the the the the", "the cat"),
    ("one two three four five", "one two three four five six seven"),
    ("x", "a b c d e f g"),
]


@pytest.mark.parametrize("name", METRICS)
def test_scores_of_any_part_equal_sacrebleu(name: MetricName, seed: int) -> None:
    corpus = make_corpus(sentences=60, seed=seed)
    hypotheses = corpus.first + [hypothesis for hypothesis, _ in ODD]
    references = corpus.references + [reference for _, reference in ODD]
    metric = SegmentMetric(name, references)
    statistics = metric.statistics(hypotheses)
    generator = np.random.default_rng(seed)
    parts = [np.arange(len(references)), *(generator.integers(len(references), size=size) for size in (1, 2, 5, 20))]
    parts += [np.array([60 + place]) for place in range(len(ODD))]
    scores = metric.scores(np.stack([statistics[part].sum(axis=0) for part in parts]))
    for part, score in zip(parts, scores, strict=True):
        fresh = SegmentMetric(name, [references[place] for place in part], splitting="13a").metric
        expected = fresh.corpus_score([hypotheses[place] for place in part], None)
        assert score == pytest.approx(expected.score, rel=1e-12, abs=1e-12), part


@pytest.mark.parametrize("name", METRICS)
def test_sentence_scores_equal_sacrebleu(name: MetricName) -> None:
    corpus = make_corpus(sentences=30, seed=1)
    hypotheses = corpus.first + [hypothesis for hypothesis, _ in ODD]
    references = corpus.references + [reference for _, reference in ODD]
    metric = SegmentMetric(name, references)
    functions = {"bleu": sacrebleu.sentence_bleu, "chrf": sacrebleu.sentence_chrf, "ter": sacrebleu.sentence_ter}
    scores = metric.sentence_scores(metric.statistics(hypotheses))
    for score, hypothesis, reference in zip(scores, hypotheses, references, strict=True):
        expected = functions[name](hypothesis, [reference])
        assert score == pytest.approx(expected.score, rel=1e-12, abs=1e-12), (hypothesis, reference)


def test_scores_and_signatures_are_those_of_evaluate() -> None:
    for references in (make_corpus(sentences=20).references, ["今天天气很好。", "他去了北京,昨天。", "我不知道"]):
        hypotheses = references[::-1]
        scores = score_translations(hypotheses, references)
        for name in METRICS:
            metric, expected = SegmentMetric(name, references), getattr(scores, name)
            assert metric.score(metric.statistics(hypotheses)) == pytest.approx(expected.value, rel=1e-12)
            assert metric.signature == expected.signature


def test_metrics_are_checked() -> None:
    assert metric_names(["ter", "bleu", "ter"]) == ("bleu", "ter")
    with pytest.raises(ConfigError, match="unknown metric 'comet', 'bleurt': choose from bleu, chrf, ter"):
        metric_names(["comet", "bleu", "bleurt"])
