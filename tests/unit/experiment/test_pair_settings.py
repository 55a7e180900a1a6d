"""Pairs planned without the rest of an experiment are prepared as the whole experiment would prepare them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from calque.config import Values, check
from calque.data.pair_settings import plan_pairs
from calque.errors import ConfigError
from calque.experiment import Experiment, assembly_of, experiment_values
from calque.experiment.text_choice import choose_text, suggested_text

SETTINGS = [
    [],
    ["text.vocabulary_size=400"],
    ["text.kind=words", "text.joint=true"],
    ["text.source.kind=characters", "text.target.kind=words"],
    ["text.kind=columns", "text.source.kind=bytes", "text.target.kind=tokens"],
    ["data.maximum_length=17", "data.validation.share=0.2", "data.invalid=skip"],
    ["data.train=[{kind='tsv', path='pairs.tsv', weight=0.5}]"],
]
UNPLANNED = [
    ["model.tie=none"],
    ["training.steps=7"],
    ["seed=3"],
    ["task.kind=tagging"],
    ["text.kind=forms"],
    ["text.vocabulary_sise=400"],
    ["data.maximum_length=-1"],
    ["data=3"],
    ["text=3"],
    ["data.train=[{kind='text', path='lines'}]"],
    ["nonsense.key=1"],
]


def corpora(folder: Path, *, words: bool = False) -> dict[str, list[dict[str, str]]]:
    source = [f"w{number}en V;PST" if words else f"the cat {number} sat" for number in range(300)]
    target = [f"w{number}te" if words else f"die Katze {number} saß da" for number in range(300)]
    for name, lines in (("a", source), ("b", target)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"train": [{"kind": "files", "source": str(folder / "a"), "target": str(folder / "b")}]}


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("assignments", SETTINGS, ids=" ".join)
def test_a_plan_equals_that_of_the_whole_experiment(tmp_path: Path, assignments: list[str], words: bool) -> None:
    values = corpora(tmp_path, words=words)
    plan = plan_pairs(values, assignments)
    assert plan is not None
    whole, message = choose_text(experiment_values(config=None, system=None, corpora=values, assignments=assignments))
    experiment = check(Experiment, whole, origin="test")
    assert plan == (experiment.data, assembly_of(experiment).preparation, message)
    assert bool(message) == (words and not any(part.startswith(("text", "data.train")) for part in assignments))


@pytest.mark.parametrize("assignments", UNPLANNED, ids=" ".join)
def test_whatever_else_is_set_or_wrong_is_left_to_the_whole_experiment(tmp_path: Path, assignments: list[str]) -> None:
    assert plan_pairs(corpora(tmp_path), assignments) is None


def test_what_is_no_assignment_is_rejected_in_the_same_words(tmp_path: Path) -> None:
    values = corpora(tmp_path)
    with pytest.raises(ConfigError) as planned:
        plan_pairs(values, ["steps"])
    with pytest.raises(ConfigError) as whole:
        experiment_values(config=None, system=None, corpora=values, assignments=["steps"])
    assert str(planned.value) == str(whole.value)


PREPARE = """
import sys
from calque.commands.main import run
sys.argv = ["calque", "data", "prepare", *sys.argv[1:]]
try:
    run()
except SystemExit as end:
    assert not end.code
print(" ".join(name for name in ("torch", "sacrebleu", "matplotlib") if name in sys.modules))
"""


def test_pairs_are_prepared_without_torch(tmp_path: Path) -> None:
    corpora(tmp_path)
    options = ["--source", tmp_path / "a", "--target", tmp_path / "b", "--out", tmp_path / "store"]
    command = [sys.executable, "-c", PREPARE, *map(str, options)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "\n"
    assert (tmp_path / "store" / "store.json").is_file()


# --- Suggested text settings ---


def suggested(folder: Path, *assignments: str, words: bool) -> str:
    values = experiment_values(
        config=None, system=None, corpora=corpora(folder, words=words), assignments=list(assignments)
    )
    return suggested_text(check(Experiment, values, origin="test"))


def test_pairs_of_words_are_better_read_by_character(tmp_path: Path) -> None:
    for text in ("text.vocabulary_size=400", "text.kind=words"):
        assert suggested(tmp_path, text, words=False) == ""
        advice = suggested(tmp_path, text, words=True)
        assert re.match(r"text\.\S*kind=\S+ .*would suit these pairs better: ", advice), advice
    assert suggested(tmp_path, "text.kind=characters", words=True) == ""  # they are already


def test_only_corpora_of_pairs_have_a_suggestion(tmp_path: Path) -> None:
    corpora(tmp_path, words=True)
    values = {"task": {"kind": "language-modelling"}, "data": {"train": [{"kind": "text", "path": f"{tmp_path}/b"}]}}
    assert suggested_text(check(Experiment, values, origin="test")) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"training": {"subwords": {"kind": "bpe-dropout"}}},  # samples segmentations, so subwords are wanted
        {"task": {"kind": "tagging"}},
        {"task": 3},
        {"data": {"train": 3}},  # reported when the config is checked
        {"text": {"kind": "words"}},
    ],
    ids=str,
)
def test_a_text_is_chosen_only_for_pairs_that_would_be_read_as_subwords(tmp_path: Path, change: Values) -> None:
    values = {"data": corpora(tmp_path, words=True)}
    assert choose_text(values).values["text"] == {"kind": "characters"}
    assert choose_text({**values, **change}) == ({**values, **change}, "")


@pytest.mark.parametrize("model", [{"tie": "all"}, {"decoder": {"kind": "luong", "copies": True}}], ids=str)
def test_a_model_that_needs_one_vocabulary_gets_one(tmp_path: Path, model: Values) -> None:
    values = {"data": corpora(tmp_path, words=True), "model": model}
    assert choose_text(values).values["text"] == {"kind": "characters", "joint": True}
