"""The judge of translations: loss with teacher forcing and without smoothing, and greedy translations."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.data.batching import BatchConfig
from calque.data.store import store_of_pairs
from calque.engine import Translator, load
from calque.evaluation.confidence import calibrate
from calque.evaluation.metrics import bleu, chrf, exact_match, ter
from calque.experiment.judges import TRANSLATION_METRICS, HeldOutPairs, TranslationJudge
from calque.search.settings import SearchConfig
from calque.tasks.interfaces import Judgement, StoppedError
from calque.training.progress import Progress
from calque.training.settings import TrainingConfig

LINES = ["a b c", "h g", "d d d d"]
REFERENCES = ["a b c", "g h", "d d d"]


def judge_of(translator: Translator, *, search: SearchConfig | None = None, metric: str = "bleu") -> TranslationJudge:
    source, target = translator.tokenizers
    store = store_of_pairs(list(zip(source.encode_many(LINES), target.encode_many(REFERENCES), strict=True)))
    translator.search = search or SearchConfig(beam=4, length_penalty=1.0)
    return TranslationJudge(translator, HeldOutPairs(store, LINES, REFERENCES), batch=BatchConfig(), metric=metric)


def judgement_of(judge: TranslationJudge, *, parts: int = 1, stop: Callable[[], bool] = lambda: False) -> Judgement:
    return judge(judge.translator.model, parts=parts, stop=stop)


@pytest.fixture
def translator(trained: Path) -> Translator:
    return load(trained)


@pytest.mark.parametrize("parts", [1, 7, 10_000])
def test_a_judgement_is_that_of_the_translators_own_results(parts: int, translator: Translator) -> None:
    """In batches of any size, in any mode of the model."""
    judgement = judgement_of(judge_of(translator), parts=parts)
    assert judgement.loss == pytest.approx(translator.loss(LINES, REFERENCES), rel=1e-6)
    greedy = SearchConfig(beam=1, length_penalty=0)
    translations = [translation.text for translation in translator.stream(LINES, search=greedy)]
    matches = sum(translation == reference for translation, reference in zip(translations, REFERENCES, strict=True))
    assert judgement.values == {
        "loss": judgement.loss,
        "perplexity": math.exp(judgement.loss),
        "bleu": bleu(translations, REFERENCES),
        "chrf": chrf(translations, REFERENCES),
        "exact_match": 100 * matches / 3,
        "length": sum(map(len, translations)) / sum(map(len, REFERENCES)),
    }
    assert exact_match(translations, REFERENCES).value == judgement.values["exact_match"]
    assert [block.splitlines() for block in judgement.samples] == [
        [f"source       {source}", f"reference    {reference}", f"translation  {translation}"]
        for source, reference, translation in zip(LINES, REFERENCES, translations, strict=True)
    ]


def test_translations_are_limited_by_the_search_settings(translator: Translator) -> None:
    short = judgement_of(judge_of(translator, search=SearchConfig(maximum=1)))
    assert short.values["length"] == 3 / sum(map(len, REFERENCES))  # one letter each


def test_dropout_is_off_though_the_model_is_in_training_mode(translator: Translator) -> None:
    """Search and loss set the mode themselves and restore it."""
    judge = judge_of(translator)
    expected = judgement_of(judge).values
    translator.model.train()
    assert judgement_of(judge).values == expected
    assert translator.model.training


def test_reported_values_are_declared_and_ter_only_if_it_selects(translator: Translator) -> None:
    for metric in TRANSLATION_METRICS:
        judge = judge_of(translator, metric=metric)
        judgement = judgement_of(judge)
        assert tuple(judgement.values) == judge.reports
        assert ("ter" in judge.reports) == (metric == "ter")
        if metric == "ter":
            translations = [block.splitlines()[2].split(maxsplit=1)[1] for block in judgement.samples]
            assert judgement.values["ter"] == ter(translations, REFERENCES)
        chrf = f"chrF {judgement.values['chrf']:.1f}"
        scores = {"chrf": chrf, "ter": f"TER {judgement.values.get('ter', 0):.1f}", "exact_match": f" %, {chrf}"}
        assert (scores.get(metric, "validation loss") in judgement.summary) and ("TER" in judgement.summary) == (
            metric == "ter"
        )
    assert set(TRANSLATION_METRICS) - {"ter"} < set(judge_of(translator).reports)
    assert TranslationJudge.selects in TRANSLATION_METRICS


def test_confidence_is_written_to_the_model_folder(translator: Translator) -> None:
    lines = [f"{first} {second}" for first in "abcdefgh" for second in "abcdefgh"]
    source, target = translator.tokenizers
    store = store_of_pairs(list(zip(source.encode_many(lines), target.encode_many(lines), strict=True)))
    judge = TranslationJudge(translator, HeldOutPairs(store, lines, lines), batch=BatchConfig(), metric="bleu")
    artefacts = judgement_of(judge).artefacts
    greedy = SearchConfig(beam=1, length_penalty=0)
    candidates = [translation.candidates[0] for translation in translator.stream(lines, search=greedy)]
    per_piece = [candidate.log_prob / max(candidate.pieces, 1) for candidate in candidates]
    confidence = calibrate(per_piece, [candidate.text for candidate in candidates], lines)
    assert confidence is not None
    assert {name: json.loads(content) for name, content in artefacts.items()} == {
        "confidence.json": json.loads(json.dumps(confidence._asdict()))
    }


@pytest.mark.parametrize("batch", [1, 2])
def test_a_stop_ends_it_between_batches_and_leaves_no_trace(batch: int, translator: Translator) -> None:
    judge = judge_of(translator)
    expected = judgement_of(judge).values
    calls: list[int] = []

    def stop() -> bool:
        calls.append(len(calls) + 1)
        return len(calls) == batch

    with pytest.raises(StoppedError):
        judgement_of(judge, stop=stop)
    assert calls == [*range(1, batch + 1)]
    assert judgement_of(judge).values == expected
    assert calls == [*range(1, batch + 1)]  # the hook was removed


def test_below_chance_level_the_loss_decides() -> None:
    """As in the first steps of a run: BLEU 0.012 by chance, then 0 with a lower loss."""
    progress, config = Progress(), TrainingConfig()
    metric, best = TRANSLATION_METRICS["bleu"], []
    for loss, value in ((6.6, 0.012), (5.9, 0.0), (5.5, 0.9), (5.7, 0.95), (5.6, 1.2), (5.4, 1.1)):
        best.append(progress.judge(metric.worth(value), loss=loss, config=config))
    assert best == [True, True, True, False, True, False]
    assert TRANSLATION_METRICS["chrf"].worth(0.3) == 0.3
    assert TRANSLATION_METRICS["ter"].worth(90.0) == -90.0
