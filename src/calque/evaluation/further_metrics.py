"""Metrics for tasks other than translation, by their names in `calque evaluate --metric`."""

from collections.abc import Callable, Mapping, Sequence

from calque.evaluation.diversity import distinct
from calque.evaluation.error_rates import error_rates
from calque.evaluation.metrics import Metric, composed
from calque.evaluation.rouge import rouge

Scorer = Callable[[Sequence[str], Sequence[str]], dict[str, Metric]]


def _rouge(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Metric]:
    found = rouge(hypotheses, references)
    values = {"rouge1": found.rouge1, "rouge2": found.rouge2, "rougeL": found.rougeL}
    return {name: Metric(value, found.signature) for name, value in values.items()}


def _distinct(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Metric]:
    return {
        f"distinct{n}": Metric(
            distinct(hypotheses, n=n), f"n:{len(hypotheses)}|references:{distinct(references, n=n):.2f}"
        )
        for n in (1, 2)
    }


def _token_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Metric]:
    outputs, expected = ([line.split() for line in composed(lines)] for lines in (hypotheses, references))
    rates = error_rates(outputs, [[reference] for reference in expected])
    return {"token_error_rate": Metric(rates.symbols, f"edits per token|n:{len(references)}")}


SCORERS: Mapping[str, Scorer] = {"rouge": _rouge, "distinct": _distinct, "token_error_rate": _token_error_rate}
"""rouge is for summaries, distinct for replies, token_error_rate (lower is better) for phonemes or words."""
