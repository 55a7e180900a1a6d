"""Commands on pairs of single words: training reads them by character unless told otherwise, and says so."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.config import read_toml
from tests.conftest import Answer, without_plots
from tests.spelled import inflections, pronunciations, write_pairs

Command = Callable[..., Answer]

QUICK = (
    "--scale",
    0.05,
    "training.steps=4",
    "training.validate_every=2",
    "training.checkpoint_every=2",
    "training.keep=9",
)
DEVICE = ("training.threads=1", "training.device=cpu")
CHOSEN = "text.kind=characters: sources are words with features, targets single words (median "
OVERRIDE = "; set text.kind=sentencepiece to train on subwords instead"


@pytest.fixture
def options(tmp_path: Path) -> tuple[object, ...]:
    files = write_pairs(tmp_path / "corpus", inflections(150))
    return ("--source", files["source"], "--target", files["target"])


@pytest.fixture
def spoken(tmp_path: Path) -> tuple[object, ...]:
    files = write_pairs(tmp_path / "corpus", pronunciations(150))
    return ("--source", files["source"], "--target", files["target"])


def train(command: Command, run: Path, *arguments: object) -> Answer:
    with without_plots():
        answer = command("train", "--run", run, *QUICK, *DEVICE, *arguments)
    assert answer.code == 0, answer.err
    return answer


def test_training_chooses_characters_and_resumes_with_them(
    command: Command, options: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    answer = train(command, run, "--system", "small", *options)
    assert answer.err.count(CHOSEN) == 1 and OVERRIDE in answer.err
    assert "training.metric = exact_match, with ties broken by chrf: the median target has 1 word" in answer.err
    config = read_toml(run / "config.toml")
    assert (config["text"]["kind"], config["model"]["tie"]) == ("characters", "auto")
    shutil.rmtree(run / "checkpoints" / "step-4")
    lines = (run / "metrics.jsonl").read_bytes()
    with without_plots():
        resumed = command("train", "--resume", run)
    assert resumed.code == 0 and CHOSEN not in resumed.err
    assert (run / "metrics.jsonl").read_bytes() == lines
    assert read_toml(run / "config.toml") == config
    translated = command("translate", run, "--input", options[1])
    assert translated.code == 0
    assert len(translated.out.splitlines()) == 150


def test_both_sides_have_a_unit_of_their_own(command: Command, spoken: tuple[object, ...], tmp_path: Path) -> None:
    answer = train(command, tmp_path / "run", *spoken)
    assert "text.source.kind=characters text.target.kind=tokens: sources are single words" in answer.err
    text = read_toml(tmp_path / "run" / "config.toml")["text"]
    assert (text["kind"], text["source"]["kind"], text["target"]["kind"]) == ("columns", "characters", "tokens")


@pytest.mark.parametrize(
    "setting", ["text.kind=sentencepiece", "text.vocabulary_size=300", "training.subwords.kind=bpe-dropout"]
)
def test_settings_of_subwords_are_kept(
    setting: str, command: Command, options: tuple[object, ...], tmp_path: Path
) -> None:
    answer = train(command, tmp_path / "run", setting, *options)
    assert "text.kind=characters" not in answer.err
    assert read_toml(tmp_path / "run" / "config.toml")["text"]["kind"] == "sentencepiece"


def test_a_text_section_of_a_config_is_kept_and_a_missing_one_chosen(
    command: Command, options: tuple[object, ...], tmp_path: Path
) -> None:
    corpus = f'[[data.train]]\nkind = "files"\nsource = "{options[1]}"\ntarget = "{options[3]}"\n'
    for name, text, kind in (("own", '[text]\nkind = "words"\n', "words"), ("none", "", "characters")):
        (tmp_path / f"{name}.toml").write_text(text + corpus, encoding="utf-8")
        arguments = ("--config", tmp_path / f"{name}.toml", "--system", "tiny")
        assert (CHOSEN in train(command, tmp_path / name, *arguments).err) == (kind == "characters")
        assert read_toml(tmp_path / name / "config.toml")["text"]["kind"] == kind


def test_matrices_that_are_to_be_shared_get_a_joint_vocabulary(
    command: Command, spoken: tuple[object, ...], tmp_path: Path
) -> None:
    inflected = write_pairs(tmp_path / "inflected", inflections(150))
    train(command, tmp_path / "one", "model.tie=all", "--source", inflected["source"], "--target", inflected["target"])
    assert read_toml(tmp_path / "one" / "config.toml")["text"] == {
        "kind": "characters",
        "vocabulary_size": 8000,
        "joint": True,
    }
    train(command, tmp_path / "two", "model.tie=all", *spoken)
    assert read_toml(tmp_path / "two" / "config.toml")["text"]["kind"] == "sentencepiece"


def test_init_and_check_and_prepare_choose_as_training_does(
    command: Command, options: tuple[object, ...], tmp_path: Path
) -> None:
    config, store = tmp_path / "my.toml", tmp_path / "store"
    assert CHOSEN in command("init", config, *options).err
    assert read_toml(config)["text"]["kind"] == "characters"
    assert "characters" not in command("init", tmp_path / "later.toml", "--source", "a", "--target", "b").err
    checked = command("data", "check", *options)
    assert checked.code == 0 and f"text: {CHOSEN}" in checked.out
    subwords = command("data", "check", "text.kind=sentencepiece", *options)
    assert "text: text.kind=characters would suit these pairs better: sources are words with features" in subwords.out
    assert "\ntext: " not in command("data", "check", "text.kind=characters", *options).out
    prepared = command("data", "prepare", "--out", store, *options)
    assert prepared.code == 0 and CHOSEN in prepared.err
    description = json.loads((store / "tokenizer" / "tokenizer.json").read_text(encoding="utf-8"))
    assert "characters" in json.dumps(description)
    train(command, tmp_path / "run", f"data.store={store}", *options)
