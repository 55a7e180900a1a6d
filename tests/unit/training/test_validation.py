"""Validation: loss with every token given and no smoothing, text searched greedily."""

import math
from pathlib import Path

import pytest
from calque.training.validation import Validation, ValidationSet, validate

from calque.data.batching import BatchConfig
from calque.data.store import store_of
from calque.engine import load
from calque.evaluation.metrics import bleu
from calque.search.settings import SearchConfig
from calque.training.progress import Progress
from calque.training.settings import TrainingConfig

LINES = ["a b c", "h g", "d d d d"]
REFERENCES = ["a b c", "g h", "d d d"]


def test_a_validation_is_what_the_translator_says_by_itself(trained: Path) -> None:
    translator = load(trained)
    source, target = translator.tokenizers
    store = store_of(list(zip(source.encode_many(LINES), target.encode_many(REFERENCES), strict=True)))
    search = SearchConfig(beam=4, length_penalty=1.0)
    translator.model.train()  # as it is in the middle of training: dropout must not be heard
    found = validate(translator, ValidationSet(store, LINES, REFERENCES), batch=BatchConfig(), search=search)
    assert translator.model.training
    translator.model.eval()
    assert found.loss == pytest.approx(translator.loss(LINES, REFERENCES), rel=1e-6)
    greedy = SearchConfig(beam=1, length_penalty=0)
    assert found.translations == [one.text for one in translator.stream(LINES, search=greedy)]
    assert found.bleu == bleu(found.translations, REFERENCES)
    matches = sum(one == other for one, other in zip(found.translations, REFERENCES, strict=True))
    assert found.exact_match == 100 * matches / 3
    assert found.length == found.numbers["length"] == sum(map(len, found.translations)) / sum(map(len, REFERENCES))
    short = validate(
        translator, ValidationSet(store, LINES, REFERENCES), batch=BatchConfig(), search=SearchConfig(maximum=1)
    )
    assert short.length == 3 / sum(map(len, REFERENCES))  # a letter each


def test_perplexity_is_the_exponential_of_the_loss_and_finite() -> None:
    assert Validation(2.5, 0.0, 0.0, 0.0, math.nan, []).perplexity == math.exp(2.5)
    assert math.isfinite(Validation(1e6, 0.0, 0.0, 0.0, math.nan, []).perplexity)


def test_a_bleu_that_is_chance_leaves_the_choice_to_the_loss() -> None:
    """As in the first steps of a run: BLEU 0.012 of words that happen to be right, and then 0 with a lower loss."""
    progress, config = Progress(), TrainingConfig()
    kept = []
    for loss, bleu_found in ((6.6, 0.012), (5.9, 0.0), (5.5, 0.9), (5.7, 0.95), (5.6, 1.2), (5.4, 1.1)):
        found = Validation(loss, bleu_found, 0.0, 0.0, math.nan, [])
        kept.append(progress.judge(found.value("bleu"), loss=found.loss, config=config))
    assert kept == [True, True, True, False, True, False]
    assert Validation(2.0, 0.5, 0.3, 0.2, 90.0, []).value("chrf") == 0.3
    assert Validation(2.0, 0.5, 0.3, 0.2, 90.0, []).value("ter") == -90.0
