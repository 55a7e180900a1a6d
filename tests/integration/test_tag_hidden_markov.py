"""`calque train --system brants2000` and all that is done with a tagger afterwards; what such a run rejects."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import calque
from calque.config import read_toml
from calque.engine.tagger import Sentence, Tagger
from calque.inspection.tagging import inspect_tagging
from tests.conftest import Answer, environment, without_plots
from tests.tagged import write_columns, write_conllu

Command = Callable[..., Answer]


def estimate(folder: Path, run: str, *options: str) -> list[str]:
    train, valid = (folder / f"{name}.conllu" for name in ("train", "valid"))
    write_conllu(train, sentences=300)
    write_conllu(valid, sentences=40, seed=1)
    files = ["--conll", str(train), "--valid-conll", str(valid)]
    return ["train", "--system", "brants2000", *files, "--run", str(folder / run), *options]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hidden Markov tagger; do not change it."""
    folder = tmp_path_factory.mktemp("hmm")
    values = {
        "model": {"kind": "hidden-markov"},
        "data": {"train": [{"kind": "conllu", "path": str(write_conllu(folder / "train.conllu", sentences=300))}]},
    }
    with without_plots():
        return calque.train(values, run=folder / "run", quiet=True).folder


@pytest.mark.usefixtures("unplotted")
def test_a_tagger_is_estimated_by_one_command(tmp_path: Path, command: Command) -> None:
    answer = command(*estimate(tmp_path, "run"))
    assert answer.code == 0, answer.err
    assert (
        "interpolation weights of label n-grams:" in answer.err
        and "for trigrams" in answer.err
        and "suffixes, of words" in answer.err
    )
    assert read_toml(tmp_path / "run" / "config.toml")["model"]["kind"] == "hidden-markov"
    (line,) = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert line["accuracy"] > 90 and 0 < line["loss"] < 1
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "hidden Markov model of label trigrams" in card and "estimated on 300 sentences" in card
    assert "hidden-markov 3" in command("runs", tmp_path / "run").out
    again = command("train", "--resume", tmp_path / "run")
    assert again.code == 0 and "its model has been estimated" in again.err


def test_context_tells_the_labels_of_a_word_apart(run: Path, command: Command) -> None:
    """`watch` is a noun after a determiner and a verb after a noun; most frequent labels cannot tell."""
    answer = command("tag", run, stdin=b"the watch sees a dog\na dog watch the tree\nthe blog sees\n")
    assert answer.out == "D N V D N\nD N V D N\nD N V\n"
    tagger = calque.load(run)
    assert isinstance(tagger, Tagger) and "hidden-markov" in repr(tagger)
    tagged = tagger.tag("the watch sees .", marginals=True)
    assert tagged.marginals is not None and tagged.marginals[1]["N"] > 0.9
    assert all(sum(shares.values()) == pytest.approx(1, abs=1e-5) for shares in tagged.marginals)
    assert tagger.tag("") == tagger.tag([""])[0]


def test_files_are_tagged_evaluated_and_compared(run: Path, tmp_path: Path, command: Command) -> None:
    path = write_conllu(tmp_path / "test.conllu", sentences=30, seed=7)
    tagged = command("tag", run, "--input", path, "--marginals")
    assert tagged.code == 0 and tagged.out.count("Probability=") == path.read_text().count("\t_\t_\t_\t_\t_\t_\n")
    scores = command("evaluate", run, "--conll", path, "--json")
    assert scores.code == 0 and json.loads(scores.out)["accuracy"] > 90
    other = tmp_path / "labels.conllu"
    other.write_text(command("tag", run, "--input", path).out)
    compared = command("compare", run, other, "--conll", path, "--format", "json")
    assert compared.code == 0, compared.err
    assert len(json.loads(compared.out)["systems"]) == 2


def test_a_sentence_is_inspected(run: Path, command: Command) -> None:
    answer = command("inspect", run, "the watch sees a blog")
    assert answer.code == 0, answer.err
    assert "unknown words: blog" in answer.out and "second-best sequence: log P" in answer.out
    document = json.loads(command("inspect", run, "the watch sees", "--format", "json").out)
    assert document["model"]["head"] == document["model"]["architecture"] == "hidden-markov"
    states = command("inspect", run, "the watch", "--nearest", 2)
    assert states.code == 2 and "Traceback" not in states.err
    vectors = command("embed", run, stdin=b"the watch\n")
    assert vectors.code == 2 and "a hidden Markov tagger has no word vectors" in vectors.err


def test_the_two_best_sequences_are_those_of_enumeration(run: Path) -> None:
    tagger = calque.load(run)
    assert isinstance(tagger, Tagger)
    words = ["the", "watch", "flog", "a"]
    view = inspect_tagging(tagger, words)
    source = tagger.source(Sentence(words))
    labels = torch.cartesian_prod(*[torch.arange(len(tagger.vocabularies.labels))] * 4)
    scores = tagger.model(source)
    losses = torch.cat([tagger.model.losses(scores, row[None], source.lengths) for row in labels])
    (first, second), order = (-losses).sort(descending=True)[0][:2], losses.argsort()
    assert view.runner_up is not None
    assert view.best.log_prob == pytest.approx(float(first), abs=1e-4)
    assert view.runner_up.log_prob == pytest.approx(float(second), abs=1e-4)
    names = tagger.vocabularies.labels
    assert view.runner_up.labels == [names[label] for label in labels[order[1]]]


@pytest.mark.usefixtures("unplotted")
def test_chunks_are_well_formed(tmp_path: Path, command: Command) -> None:
    """Labels in BIO, by bigrams, in IOBES inside the model."""
    train = write_columns(tmp_path / "train.txt", sentences=200)
    columns = ["--columns", "form,pos,chunk", "--label", "chunk"]
    options = ["--system", "brants2000", "--run", str(tmp_path / "run"), "model.order=2", "text.scheme=iobes"]
    answer = command("train", "--conll", train, *columns, *options)
    assert answer.code == 0, answer.err
    test = write_columns(tmp_path / "test.txt", sentences=20, seed=3)
    scores = json.loads(command("evaluate", tmp_path / "run", "--conll", test, "--json").out)
    assert scores["f1"] > 80


def test_what_has_no_effect_is_rejected(tmp_path: Path, command: Command) -> None:
    for setting, message in (
        ("training.steps=5", "training.steps: no effect on this model, which is estimated"),
        ("task.inputs=xpos", "task.inputs: a hidden Markov tagger reads only words"),
        ("training.label_smoothing=0.1", "training.label_smoothing has no effect on hidden Markov taggers"),
        ("model.order=4", "model.order"),
        ("model.smoothing=0", "model.smoothing"),
        ("model.head=crf", "model.head"),
    ):
        answer = command(*estimate(tmp_path, "run"), setting)
        assert answer.code == 2 and message in answer.err and "Traceback" not in answer.err, answer.err
        assert not (tmp_path / "run").exists()


def weights(run: Path) -> bytes:
    return (run / "model" / "weights.safetensors").read_bytes()


@pytest.mark.usefixtures("unplotted")
def test_a_killed_estimation_ends_with_the_same_bytes(tmp_path: Path, command: Command) -> None:
    assert command(*estimate(tmp_path, "whole")).code == 0
    arguments = estimate(tmp_path, "killed")
    process = subprocess.Popen(
        [sys.executable, "-m", "calque", *arguments], env=environment(), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "killed" / "run.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert command("train", "--resume", tmp_path / "killed").code == 0
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
