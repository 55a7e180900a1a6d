"""Watching gradients changes no byte of a run, is recorded once per validation, and survives kills exactly."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Answer, toy_values
from tests.unit.training.objects import digests, train_until_killed

from calque.experiment import Run, resume, train
from calque.inspection import gradient_watching
from calque.training.journal import read_journal
from calque.training.records import GRADIENTS

pytestmark = pytest.mark.usefixtures("unplotted")
FAMILIES = ("plain", "luong", "bahdanau", "convolutional", "transformer")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_watched_run_has_the_same_bytes(
    family: str, uninterrupted: Callable[..., Run], corpus: dict[str, Path], tmp_path: Path
) -> None:
    alone = uninterrupted(family)
    assert not (alone.folder / GRADIENTS).exists()
    watched = train(toy_values(corpus, family, "training.watch_gradients=1"), run=tmp_path / "run", quiet=True)
    assert digests(watched.folder) == digests(alone.folder)
    lines = read_journal(watched.folder / GRADIENTS)
    assert [line["step"] for line in lines] == [5, 10, 14], "every validation, and the last step"
    assert all(flow["median"] for line in lines for flow in line["flows"])


def test_nothing_is_measured_when_nobody_watches(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(gradient_watching, "gradient_flow", refuse)
    train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    with pytest.raises(AssertionError, match="measured"):
        train(toy_values(corpus, "plain", "training.watch_gradients=1"), run=tmp_path / "watched", quiet=True)


@pytest.mark.parametrize("step", [7, 11, 13])
def test_a_killed_run_records_the_same_bytes(
    step: int, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = toy_values(corpus, "luong", "training.watch_gradients=1")
    whole = train(values, run=tmp_path / "whole", quiet=True).folder
    half = tmp_path / "half"
    train_until_killed(values, run=half, step=step, monkeypatch=monkeypatch)
    resume(half, quiet=True)
    assert (half / GRADIENTS).read_bytes() == (whole / GRADIENTS).read_bytes()
    assert digests(half) == digests(whole)


def test_every_second_validation_can_be_watched(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain", "training.watch_gradients=2")
    run = train({**values, "training": {**values["training"], "validate_every": 3}}, run=tmp_path / "run", quiet=True)
    assert [line["step"] for line in read_journal(run.folder / GRADIENTS)] == [6, 12]


def test_watching_can_begin_and_end_when_a_run_is_resumed(corpus: dict[str, Path], tmp_path: Path) -> None:
    run = train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True).folder
    resume(run, settings=["training.steps=20", "training.watch_gradients=1"], quiet=True)
    assert [line["step"] for line in read_journal(run / GRADIENTS)] == [15, 20]
    before = (run / GRADIENTS).read_bytes()
    resume(run, settings=["training.steps=25", "training.watch_gradients=0"], quiet=True)
    assert (run / GRADIENTS).read_bytes() == before


class Norms:
    """The norm of every step's gradient."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def gradients(self, step: int, model: object) -> None:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]  # type: ignore[attr-defined]
        self.norms.append(sum(float((gradient.double() ** 2).sum()) for gradient in gradients) ** 0.5)


@pytest.mark.parametrize("clip", [0.0, 0.205, 1000.0])
def test_the_share_of_clipped_steps_is_recorded(clip: float, corpus: dict[str, Path], tmp_path: Path) -> None:
    observer = Norms()
    values = toy_values(corpus, "plain", f"training.clip={clip}")
    run = train(values, run=tmp_path / "run", quiet=True, observer=observer)
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    steps = [0, *(line["step"] for line in lines)]
    assert steps[-1] == 14
    if clip == 0:
        assert not any("clipped" in line for line in lines)
        return
    for line, first, last in zip(lines, steps, steps[1:], strict=False):
        norms = observer.norms[first:last]
        assert line["clipped"] == pytest.approx(sum(norm > clip for norm in norms) / len(norms))
    if clip < 100:
        assert 0 < sum(norm > clip for norm in observer.norms) < 14, "some of both"


def test_clipping_by_value_counts_too(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain", "training.clip=0", "training.clip_value=1e-6")
    run = train(values, run=tmp_path / "run", quiet=True)
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert {line["clipped"] for line in lines} == {1.0}


def test_the_option_is_the_setting(
    corpus: dict[str, Path], tmp_path: Path, command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []
    monkeypatch.setattr("calque.experiment.train", lambda values, **_: given.append(values))
    monkeypatch.setattr("calque.experiment.resume", lambda _run, *, settings, **_: given.append(settings))
    monkeypatch.setattr("calque.commands.train._report", lambda _finished: None)
    files = ("--source", corpus["source"], "--target", corpus["target"])
    assert command("train", *files, "--watch-gradients", "--run", tmp_path / "run").code == 0
    assert given[0]["training"]["watch_gradients"] == 1  # type: ignore[index]
    assert command("train", "--resume", tmp_path / "run", "--watch-gradients").code == 0
    assert given[1] == ["training.watch_gradients=1"]
