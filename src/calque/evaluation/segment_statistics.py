"""Corpus metrics computed from statistics of each sentence, so that any subset of the sentences can be scored.

BLEU, chrF and TER are functions of sums over sentences: matched n-grams, lengths, edits. sacreBLEU extracts these
statistics once per system, one row per sentence; the score of a bucket, of a resample or of a single sentence is then
computed from the sum of its rows.
Letters: S sentences, R sums (one per resample or bucket), K statistics per sentence.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from calque.errors import ConfigError
from calque.evaluation.metrics import Splitting, choose_splitting, composed, sacrebleu_ter

Array = NDArray[np.float64]
MetricName = Literal["bleu", "chrf", "ter"]
TITLES: dict[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
METRICS: tuple[MetricName, ...] = tuple(TITLES)

_ORDERS = 4  # of BLEU's n-grams
_FACTOR = 4  # chrF: recall weighs β² = 4 times as much as precision


def metric_names(names: Sequence[str]) -> tuple[MetricName, ...]:
    """The given names, each once, in the order of METRICS; raises a ConfigError if a name is not in METRICS."""
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ConfigError(f"unknown metric {', '.join(map(repr, unknown))}: choose from {', '.join(METRICS)}")
    return tuple(name for name in METRICS if name in names)


class SegmentMetric:
    """A sacreBLEU metric with its references; extracts the statistics of each system once."""

    def __init__(self, name: MetricName, references: Sequence[str], *, splitting: Splitting = "auto") -> None:
        self.name = name
        self.is_higher_better = name != "ter"
        self.metric = _sacrebleu_metric(name, references, splitting=splitting)
        self._rows: dict[tuple[str, ...], list[list[float]]] = {}
        self._extract = self.metric._extract_corpus_statistics
        self.signature = str(self.metric.get_signature())
        # sacreBLEU's tests extract the statistics themselves, once per test
        setattr(self.metric, "_extract_corpus_statistics", self.rows)  # noqa: B010 - mypy forbids the assignment

    def rows(self, hypotheses: Sequence[str], references: Any = None) -> list[list[float]]:
        """sacreBLEU's statistics of each segment, S rows of K numbers; sacreBLEU's paired tests pass `references`."""
        key = tuple(hypotheses)
        if key not in self._rows:
            self._rows[key] = self._extract(composed(hypotheses), references)
        return self._rows[key]

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """The statistics of each segment, [S,K]."""
        return np.array(self.rows(hypotheses), dtype=np.float64)

    def scores(self, sums: Array) -> Array:
        """The corpus scores [R] of sums of segment statistics [R,K]; they equal sacreBLEU's."""
        match self.name:
            case "bleu":
                return _bleu(sums, effective_order=False)
            case "chrf":
                return _chrf(sums)
            case "ter":
                return _ter(sums)

    def score(self, statistics: Array) -> float:
        """The corpus score, given the statistics of all segments [S,K]."""
        return float(self.scores(statistics.sum(axis=0, keepdims=True))[0])

    def sentence_scores(self, statistics: Array) -> Array:
        """The score [S] of every segment; as in sacreBLEU, BLEU averages only the n-gram orders that a sentence has."""
        return _bleu(statistics, effective_order=True) if self.name == "bleu" else self.scores(statistics)


def _sacrebleu_metric(name: MetricName, references: Sequence[str], *, splitting: Splitting) -> BLEU | CHRF | TER:
    tokenize = choose_splitting(references) if splitting == "auto" else splitting
    cached = [composed(references)]
    match name:
        case "bleu":
            return BLEU(tokenize=tokenize, force=True, references=cached)
        case "chrf":
            return CHRF(references=cached)
        case "ter":
            return sacrebleu_ter(tokenize, references=cached)


def _bleu(sums: Array, *, effective_order: bool) -> Array:
    """The BLEU of each row of `sums`, with exponential smoothing (Chen and Cherry 2014, method 3), as in mteval-v13a.

    A row has the lengths of hypothesis and reference, then the number of matched n-grams of each order, then that of
    all n-grams of each order. With `effective_order`, orders without n-grams are ignored.
    """
    length, reference_length = sums[:, 0], sums[:, 1]
    matched, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS : 2 + 2 * _ORDERS]
    smoothed = np.where(matched > 0, matched, 0.5 ** np.cumsum(matched == 0, axis=1))
    exists = total > 0
    log_precisions = np.where(exists, np.log(smoothed / np.where(exists, total, 1)), 0)
    orders = exists.sum(axis=1) if effective_order else np.full(len(sums), _ORDERS)
    penalty = np.exp(np.minimum(0, 1 - reference_length / np.where(length > 0, length, 1)))
    scores: Array = 100 * penalty * np.exp(log_precisions.sum(axis=1) / np.maximum(orders, 1))
    is_zero = ~(matched > 0).any(axis=1) | (exists.sum(axis=1) < orders)
    scores[is_zero] = 0
    return scores


def _chrf(sums: Array) -> Array:
    """The chrF2 (Popović 2015) of each row of `sums`: by order, the n-grams in hypothesis, reference, and both."""
    hypothesis, reference, matched = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    exists = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(exists.sum(axis=1), 1)
    precision = np.where(exists, matched / np.where(exists, hypothesis, 1), 0).sum(axis=1) / orders
    recall = np.where(exists, matched / np.where(exists, reference, 1), 0).sum(axis=1) / orders
    denominator = _FACTOR * precision + recall
    scores: Array = 100 * (1 + _FACTOR) * precision * recall / np.where(denominator > 0, denominator, 1)
    return scores


def _ter(sums: Array) -> Array:
    """The TER (Snover 2006) of each row (edits, reference words) of `sums`; 100 % for edits of an empty reference."""
    edits, length = sums[:, 0], sums[:, 1]
    return 100 * np.where(length > 0, edits / np.where(length > 0, length, 1), edits > 0)
