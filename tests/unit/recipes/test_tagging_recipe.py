"""The recipe of hidden Markov taggers beside recurrent ones: its measures and its table."""

from pathlib import Path

import pytest
from recipes.tagging.statistical import ENTRIES, accuracies, measure, page, read
from tests.conftest import without_plots
from tests.tagged import write_conllu

import calque
from calque.config import check
from calque.engine import Tagger
from calque.experiment.settings import Experiment, experiment_values


def test_accuracy_is_counted_on_known_and_unknown_words_apart() -> None:
    gold = [(["a", "b"], ["X", "Y"]), (["c"], ["X"]), (["a"], ["Y"])]
    found = accuracies([["X", "X"], ["X"], ["X"]], gold, known={"a", "b"})
    assert found == pytest.approx({"all": 50, "known": 100 / 3, "unknown": 100})


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_is_an_experiment(name: str) -> None:
    _, system, *assignments = ENTRIES[name].arguments
    corpora = {"train": [{"kind": "conllu", "path": "a"}]}
    values = experiment_values(config=None, system=system, corpora=corpora, assignments=assignments)
    assert check(Experiment, values, origin="recipe").task.kind == "tagging"


def test_a_tagger_is_measured_and_has_its_row(tmp_path: Path) -> None:
    train, test = write_conllu(tmp_path / "a.conllu", sentences=80), write_conllu(tmp_path / "b.conllu", sentences=9)
    values = {"model": {"kind": "hidden-markov"}, "data": {"train": [{"kind": "conllu", "path": str(train)}]}}
    with without_plots():
        tagger = calque.load(calque.train(values, run=tmp_path / "run", quiet=True).folder)
    assert isinstance(tagger, Tagger)
    sentences = read(test)
    assert len(sentences) == 9 and sentences[0][1][0] == "D"
    results = measure(tagger, {"dev": sentences, "test": sentences}, known={"the", "a"})
    assert 80 < results["test"]["all"] <= 100 and results["words_per_second"] > 0
    lines = page({"trigram": {"seconds": 1.4, **results}}).splitlines()
    assert lines[2].startswith("| HMM, trigrams (TnT) | ") and "| 1 |" in lines[2]
