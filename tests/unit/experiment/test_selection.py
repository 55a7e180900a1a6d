"""What selects models: exact match and then chrF where BLEU would be noise, and what a run began with when resumed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import toy_values
from tests.spelled import inflections, write_pairs
from tests.unit.training.objects import digests

from calque.config import override, read_toml, values_to_toml
from calque.errors import ConfigError
from calque.experiment import resume, train
from calque.training.journal import read_journal

pytestmark = pytest.mark.usefixtures("unplotted")

MESSAGE = "training.metric = exact_match, with ties broken by chrf: the median target has 1 word, and BLEU needs 4"


def values_of(folder: Path, *overrides: str, rows: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    """An experiment with one-word targets, or with those of `rows`."""
    corpus = write_pairs(folder / "corpus", rows or inflections(120))
    return toy_values(corpus, "luong", "text.kind=characters", "training.metric=auto", "training.average=0", *overrides)


def validations(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_journal(run / "metrics.jsonl") if line["kind"] == "valid"]


def selected(run: Path) -> tuple[str, str]:
    training = read_toml(run / "config.toml")["training"]
    return training["metric"], training["tie_breaker"]


def test_one_word_targets_are_selected_by_exact_match_then_chrf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where BLEU falls while exact match rises, and where exact match stands still while chrF rises."""
    scores = iter([(13.4, 43.0, 70.0), (4.0, 54.8, 60.0), (9.0, 54.8, 61.0), (14.0, 54.8, 60.5)])
    current: list[float] = []

    def bleu(*_: object) -> float:
        current[:] = next(scores)
        return current[0]

    def exact_match(*_: object) -> Any:
        from calque.evaluation.metrics import Metric

        return Metric(current[1], "")

    monkeypatch.setattr("calque.experiment.judges.bleu", bleu)
    monkeypatch.setattr("calque.experiment.judges.exact_match", exact_match)
    monkeypatch.setattr("calque.experiment.judges.chrf", lambda *_: current[2])
    run = train(values_of(tmp_path, "training.steps=16", "training.validate_every=4"), run=tmp_path / "run", quiet=True)
    lines = validations(run.folder)
    assert [(line["exact_match"], line["chrf"], line["best"]) for line in lines] == [
        (43.0, 70.0, True),
        (54.8, 60.0, True),
        (54.8, 61.0, True),
        (54.8, 60.5, False),
    ]
    assert selected(run.folder) == ("exact_match", "chrf")
    log = (run.folder / "log.txt").read_text(encoding="utf-8")
    assert log.count(MESSAGE) == 1
    assert "exact 54.8 %, chrF 61.0 (best so far)" in log


@pytest.mark.parametrize(
    ("rows", "overrides", "rule"),
    [
        ([("a b c", "我不知道")], (), ("bleu", "loss")),  # four words without spaces
        ([("a", "a b c d"), ("b", "b"), ("c", "c d e f g")], (), ("bleu", "loss")),
        ([("a", "a b c"), ("b", "d e f")], (), ("exact_match", "chrf")),
        (None, ("training.metric=bleu",), ("bleu", "loss")),
        (None, ("training.metric=exact_match",), ("exact_match", "chrf")),
        (None, ("training.tie_breaker=loss",), ("exact_match", "loss")),
        (None, ("training.metric=chrf", "training.tie_breaker=ter"), ("chrf", "ter")),
    ],
)
def test_the_metric_is_the_one_named_or_follows_from_the_targets(
    rows: list[tuple[str, str]] | None, overrides: tuple[str, ...], rule: tuple[str, str], tmp_path: Path
) -> None:
    repeated = [(f"{source} {number}", target) for number in range(30) for source, target in rows or ()]
    values = values_of(tmp_path, "training.steps=2", "training.validate_every=2", *overrides, rows=repeated or None)
    run = train(values, run=tmp_path / "run", quiet=True)
    assert selected(run.folder) == rule
    assert ("ter" in validations(run.folder)[0]) == ("ter" in rule)


def test_an_unknown_tie_breaker_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.tie_breaker = 'rouge' is not one of loss, perplexity, bleu"):
        train(values_of(tmp_path, "training.tie_breaker=rouge"), run=tmp_path / "run", quiet=True)


def test_selection_with_a_tie_breaker_resumes_exactly(tmp_path: Path) -> None:
    """The best checkpoints too, which are averaged at the end."""
    settings = ("training.average=2", "training.average_of=best", "training.keep=9", "training.validate_every=2")
    whole = train(values_of(tmp_path, *settings), run=tmp_path / "whole", quiet=True).folder
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    for step in (12, 14):
        shutil.rmtree(cut / "checkpoints" / f"step-{step}")
    assert digests(resume(cut, quiet=True).folder) == digests(whole)
    assert len(validations(cut)) == 8


@pytest.mark.parametrize("missing", [("metric", "tie_breaker"), ("tie_breaker",)])
def test_a_run_of_an_earlier_version_keeps_its_rule(missing: tuple[str, ...], tmp_path: Path) -> None:
    """Its config has no tie-breaker, or not even a metric; ties were broken by the loss."""
    values = values_of(tmp_path, "training.metric=bleu", "training.steps=4", "training.validate_every=2")
    run = train(values, run=tmp_path / "run", quiet=True).folder
    config = override(read_toml(run / "config.toml"), ["training.steps=6"])
    for key in missing:
        del config["training"][key]
    (run / "config.toml").write_text(values_to_toml(config), encoding="utf-8")
    resume(run, quiet=True)
    assert selected(run) == ("bleu", "loss")
    assert "training.metric is" not in (run / "log.txt").read_text(encoding="utf-8")
