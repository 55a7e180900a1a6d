"""Minimum Bayes risk against its definition."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from calque.evaluation.minimum_bayes_risk import minimum_bayes_risk

SAMPLES = ["the cat sat", "the cat sat", "a cat sat there", "dogs bark", "the cat sits"]


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_candidates_are_ranked_by_mean_utility(utility: str) -> None:
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True)
    means = [
        sum(metric.sentence_score(hypothesis, [reference]).score / 100 for reference in SAMPLES) / len(SAMPLES)
        for hypothesis in SAMPLES
    ]
    ranked = minimum_bayes_risk(SAMPLES, utility=utility)
    assert [candidate.place for candidate in ranked] == sorted(
        range(len(SAMPLES)), key=lambda place: (-round(means[place], 9), place)
    )
    for candidate in ranked:
        assert candidate.utility == pytest.approx(means[candidate.place], abs=1e-6)


def test_a_frequent_sample_wins() -> None:
    assert SAMPLES[minimum_bayes_risk(SAMPLES, utility="chrf")[0].place] == "the cat sat"
    assert minimum_bayes_risk(["x"], utility="chrf")[0] == (0, 1.0)
