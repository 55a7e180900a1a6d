"""Fixtures of training tests: a corpus, uninterrupted runs, and trainers for single steps."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Values, made_once, toy_corpus, toy_values
from tests.unit.training.objects import PAIRS, initial_model

from calque.config import check, override
from calque.data.store import store_of_pairs
from calque.engine import Translator, save_model
from calque.experiment import Experiment, Run
from calque.experiment.judges import HeldOutPairs, TranslationJudge
from calque.models.model import Sizes
from calque.search.settings import SearchConfig
from calque.tasks.translation import Translation
from calque.text import Tokenizers, Vocabulary, WordsTokenizer
from calque.text.vocabulary import PIECES
from calque.training.job import Job
from calque.training.loop import Trainer
from calque.training.records import Records
from calque.training.reporting import Reporter
from calque.training.settings import TrainingConfig


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def uninterrupted(corpus: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """`uninterrupted(family, *overrides)`, an uninterrupted run, trained once for each; do not change it."""
    return made_once(lambda *overrides: toy_values(corpus, *overrides), folder=lambda: tmp_path_factory.mktemp("whole"))


@pytest.fixture
def make_trainer(tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    """`make(family, *overrides of its model, **training settings)`: over PAIRS, in float64 and without dropout."""
    with Records(tmp_path) as records:

        def make(family: str = "luong", *overrides: str, **changes: Any) -> Trainer:
            values = override(_without_dropout(toy_values({"source": tmp_path, "target": tmp_path}, family)), overrides)
            experiment = check(Experiment, values, origin="test")
            words = WordsTokenizer(Vocabulary([*PIECES, "a", "b", "c", "d"]))
            tokenizers = Tokenizers(words, words)
            model = initial_model(experiment, sizes=Sizes(8, 8, joint=True)).double()
            translator = Translator(model, tokenizers, config=experiment.model, search=SearchConfig())
            config = TrainingConfig.model_validate({"label_smoothing": 0.0, **changes})
            smoothing, store = config.label_smoothing, store_of_pairs(PAIRS)
            held_out = HeldOutPairs(store, ["a b c", "b"], ["d a", "c c c"])
            job = Job(
                config=config,
                seed=3,
                task=Translation(
                    config.objective, smoothing=smoothing, tokenizers=tokenizers, subwords=config.subwords
                ),
                model=model,
                store=store,
                judge=TranslationJudge(translator, held_out, batch=config.batch, metric=config.metric),
                save_model=lambda path, _model, _judgement: save_model(path, translator, card=""),
                folder=tmp_path,
                reporter=Reporter(None, steps=1, quiet=True),
            )
            return Trainer(job, records)

        yield make


def _without_dropout(values: Values) -> Values:
    sides = {side: {**part, "dropout": 0.0} for side, part in values["model"].items()}
    for part in sides.values():
        part.pop("attention_dropout", None)
        part.pop("activation_dropout", None)
    return {**values, "model": sides}
