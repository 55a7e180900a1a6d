"""The recipe of retrieval: its baselines against their formulas, its table, its jobs."""

import json
from pathlib import Path

import numpy as np
import pytest
from recipes.retrieval import run
from recipes.retrieval.baselines import FLOOR, _log_probs, lexicon_ranks, ngram_ranks, ngram_vectors, words

from calque.config import check, read_toml
from calque.data.store import pack, store_in_memory
from calque.experiment import Experiment
from calque.statistics.word_alignment import train_lexicon

ENGLISH = ["a dog runs", "a man sleeps", "the dog sleeps", "a man runs", "the man eats", "a dog eats"]
GERMAN = ["ein hund rennt", "ein mann schläft", "der hund schläft", "ein mann rennt", "der mann isst", "ein hund isst"]


def test_the_lexicon_scores_are_the_formula_of_ibm_model_1() -> None:
    sources, targets = ["the dog runs", "a man eats unseen"], ["der hund rennt", "ein mann neu"]
    scores = _log_probs(sources, targets, train_sources=ENGLISH, train_targets=GERMAN)
    ids = [
        {word: place for place, word in enumerate(dict.fromkeys(word for text in side for word in words(text)))}
        for side in (ENGLISH, GERMAN)
    ]
    store = store_in_memory(
        {
            name: pack([[own[word] for word in words(text)] for text in side])
            for name, own, side in zip(("s", "t"), ids, (ENGLISH, GERMAN), strict=True)
        }
    )
    table = train_lexicon(store["s"], store["t"], minimum=1e-5)

    def probability(target: str, source: int) -> float:
        found = dict(zip(*(part.tolist() for part in table.best(source)), strict=True))
        return found.get(ids[1].get(target, -1), 0.0)

    for row, source in enumerate(sources):
        known = [*(ids[0][word] for word in words(source) if word in ids[0]), table.sources]
        for column, target in enumerate(targets):
            logs = [
                np.log(max(FLOOR, sum(probability(word, at) for at in known) / len(known))) for word in words(target)
            ]
            assert scores[row, column] == pytest.approx(np.mean(logs))


def test_the_baselines_find_partners() -> None:
    ranks = lexicon_ranks(ENGLISH, GERMAN, train_sources=ENGLISH, train_targets=GERMAN)
    assert ranks.scores.mean.top1 == 100
    cognates = ngram_ranks(["the hand of Paul", "42 bananas"], ["Pauls Hand", "42 Bananen"], known=ENGLISH)
    assert cognates.scores.mean.top1 == 100
    same, again = ngram_vectors([["one two", "three"], ["one two", "three"]], known=["one"])
    assert np.allclose(same, again) and np.allclose(np.linalg.norm(same, axis=1), 1)


def test_the_table_says_what_was_not_measured(tmp_path: Path) -> None:
    scores = {"top1": 50.0, "top5": 75.0, "mrr": 60.0}
    for name in ("bag-1", "bag-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(dict.fromkeys(run.DIRECTIONS, scores)))
    page = run.page(run.collect(tmp_path))
    assert page.count("not measured yet") == 5 and "| 50.0 (50.0 to 50.0) |" in page
    assert len({line.count("|") for line in page.splitlines()}) == 1


def test_every_config_describes_an_experiment(tmp_path: Path) -> None:
    corpus = {"data": {"train": [{"kind": "files", "source": "a", "target": "b"}]}}
    for entry in run.NETWORKS:
        check(Experiment, read_toml(run.HERE / f"{entry.name}.toml") | corpus, origin=entry.name)
        command = run.job(entry, 1, corpus=_corpus(tmp_path), out=tmp_path / "out", settings=[]).stages[0].command()
        assert "seed=1" in command and str(run.HERE / f"{entry.name}.toml") in command


def _corpus(folder: Path) -> Path:
    for part in ("train", "val", run.TEST):
        for language, lines in (("en", ENGLISH), ("de", GERMAN)):
            (folder / f"{part}.{language}.gz").write_text("".join(f"{line}\n" for line in lines))
    return folder
