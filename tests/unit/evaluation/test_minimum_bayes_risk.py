"""Minimum Bayes risk by its definition."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from calque.evaluation.minimum_bayes_risk import minimum_bayes_risk

DRAWN = ["the cat sat", "the cat sat", "a cat sat there", "dogs bark", "the cat sits"]


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_it_is_the_candidate_with_the_highest_mean_utility(utility: str) -> None:
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True)
    means = [sum(metric.sentence_score(one, [other]).score / 100 for other in DRAWN) / len(DRAWN) for one in DRAWN]
    ranked = minimum_bayes_risk(DRAWN, utility=utility)
    assert [each.place for each in ranked] == sorted(
        range(len(DRAWN)), key=lambda place: (-round(means[place], 9), place)
    )
    for each in ranked:
        assert each.utility == pytest.approx(means[each.place], abs=1e-6)


def test_what_is_drawn_often_wins() -> None:
    assert DRAWN[minimum_bayes_risk(DRAWN, utility="chrf")[0].place] == "the cat sat"
    assert minimum_bayes_risk(["x"], utility="chrf")[0] == (0, 1.0)
