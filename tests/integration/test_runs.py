"""`calque runs`, and what TensorBoard gets to see."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from calque.errors import Interrupted
from calque.experiment import resume, train
from calque.training.checkpointing import Checkpointer
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from calque.training.model_selection import ModelSelection
from tests.conftest import Answer, toy_corpus, toy_values
from tests.promises.subjects import SUBJECTS

pytestmark = pytest.mark.usefixtures("unplotted")


@contextmanager
def asked_to_stop(*, after: int) -> Iterator[None]:
    """A run within is asked to stop after so many steps, and does."""
    original = Trainer._step

    def step(self: Trainer, parts: list[object]) -> None:
        original(self, parts)  # type: ignore[arg-type]
        if self.progress.step == after:
            os.kill(os.getpid(), 15)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Trainer, "_step", step)
        yield


def test_runs_are_listed_with_their_best_score_and_state(tmp_path: Path, command: Callable[..., Answer]) -> None:
    corpus = toy_corpus(tmp_path / "corpus")
    for name in ("2", "10"):
        train(toy_values(corpus, "luong"), run=tmp_path / "runs" / name, quiet=True)
    stopped = toy_values(corpus, "plain", "training.metric=loss")
    with asked_to_stop(after=6):
        train(stopped, run=tmp_path / "runs" / "stopped", quiet=True)
    (tmp_path / "runs" / "nothing").mkdir()
    answer = command("runs", tmp_path / "runs")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    head = ["run", "model", "pairs", "step", "steps", "metric", "best", "at_step", "state", "changed"]
    assert rows[0] == head
    assert [Path(row[0]).name for row in rows[1:]] == ["2", "10", "stopped"]
    last = read_journal(tmp_path / "runs" / "2" / "metrics.jsonl")[-1]
    model = "recurrent 1×16 → luong 1×16"
    assert rows[1][1:9] == [model, "100", "14", "14", "bleu", f"{last['bleu']:.4f}", "14", "done"]
    assert rows[3][3:6] == ["6", "14", "loss"]
    assert rows[3][8] == "stopped"
    by_best = sorted(rows[1:], key=lambda row: -float(row[head.index("best")]))
    sort = "sort -t$'\\t' -k7,7rn"  # as the help says
    assert f"| {sort}" in command("runs", "--help").out
    done = subprocess.run(["bash", "-c", sort], input=answer.out, capture_output=True, text=True, check=True)
    assert [line.split("\t")[6] for line in done.stdout.splitlines()] == [*(row[6] for row in by_best), "best"]


def test_runs_of_every_task_are_described(tmp_path: Path, command: Callable[..., Answer]) -> None:
    described = {
        "translation": "recurrent 1×16 → luong 1×16",
        "language model of lines": "transformer 1×12",
        "tagging": "recurrent 1×16 → crf",
        "own task": "own task",
    }
    rows = {}
    for name, description in described.items():
        (tmp_path / name).mkdir()
        run = SUBJECTS[name].train(tmp_path / name / "run", "training.steps=2").folder
        row = command("runs", run).out.splitlines()[1].split("\t")
        assert row[1] == description
        rows[name] = int(row[2])
        (lengths, *_) = json.loads((run / "lengths.json").read_text()).values()
        assert rows[name] == sum(lengths) > 0
        (run / "lengths.json").write_text("[0]", encoding="utf-8")
        count = "" if name == "own task" else str(rows[name])
        assert command("runs", run).out.splitlines()[1].split("\t")[2] == count
    assert rows["tagging"] == 150


@pytest.mark.parametrize(("killed", "saved"), [("save", "12"), ("keep_mean", "14")])
def test_a_run_is_not_done_before_all_of_it_is_saved(
    tmp_path: Path, command: Callable[..., Answer], killed: str, saved: str
) -> None:
    """Two Ctrl-C in a row end it after its last line of metrics, and before its last checkpoint or its mean."""
    values = toy_values(toy_corpus(tmp_path / "corpus"), "plain")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        owner = Checkpointer if killed == "save" else ModelSelection
        original = getattr(owner, killed)

        def end(self: Any, *given: Any, **named: Any) -> None:
            if self.learner.progress.step == 14:
                raise KeyboardInterrupt
            original(self, *given, **named)

        patch.setattr(owner, killed, end)
        train(values, run=tmp_path / "run", quiet=True)
    row = command("runs", tmp_path / "run").out.splitlines()[1].split("\t")
    assert (row[3], row[4], row[8]) == (saved, "14", "stopped")
    resume(tmp_path / "run", quiet=True)
    row = command("runs", tmp_path / "run").out.splitlines()[1].split("\t")
    assert (row[3], row[4], row[8]) == ("14", "14", "done")


def test_a_run_that_is_stopped_has_its_curves_too_and_counts_epochs_as_its_log_does(tmp_path: Path) -> None:
    drawn: list[Path] = []
    with asked_to_stop(after=9), pytest.MonkeyPatch.context() as patch:
        patch.setattr("calque.experiment.running.draw_curves", drawn.append)
        train(toy_values(toy_corpus(tmp_path / "corpus"), "plain"), run=tmp_path / "run", quiet=True)
    assert drawn == [tmp_path / "run"]
    lines = [line for line in read_journal(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert [line["epoch"] for line in lines] == [int(epoch) for epoch in re.findall(r"epoch (\d+)", log)]
    assert lines[0]["epoch"] == 1


def test_a_damaged_run_is_a_row_and_no_run_a_message(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "runs" / "bad").mkdir(parents=True)
    (tmp_path / "runs" / "bad" / "config.toml").write_text("not = [toml", encoding="utf-8")
    assert "damaged" in command("runs", tmp_path / "runs").out
    (tmp_path / "empty").mkdir()
    for folder, message in (("empty", "no run here"), ("missing", "no such folder")):
        answer = command("runs", tmp_path / folder)
        assert answer.code == 2
        assert message in answer.err


CHECKPOINT = "checkpoints/step-14/state.json"
SOUND = {
    "config.toml": "[training]\nsteps = 14\n[model.encoder]\nkind = 'recurrent'\n",
    "metrics.jsonl": '{"kind":"valid","step":14,"bleu":100.00000000000004,"best":1}\n',
    CHECKPOINT: '{"step":14,"since_best":0,"best_steps":[]}',
}
ODD: dict[str, tuple[str, str | None, str]] = {  # None: a folder of that name
    "text as steps": ("config.toml", "[training]\nsteps = 'x'", "config.toml: steps is 'x', not an integer"),
    "text as average": ("config.toml", "[training]\naverage = 'x'", "average is 'x'"),
    "patience with a point": ("config.toml", "[training]\npatience = 1.5", "patience is 1.5"),
    "text as model": ("config.toml", "model = 'gpt'", "config.toml: model: expected a section, not 'gpt'"),
    "text as encoder": ("config.toml", "model.encoder = 'gpt'", "model.encoder: expected a section, not 'gpt'"),
    "text as decoder": ("config.toml", "model.decoder = 'gpt'", "model.decoder: expected a section, not 'gpt'"),
    "text as training": ("config.toml", "training = 'yes'", "training: expected a section, not 'yes'"),
    "a list as metric": ("config.toml", "[training]\nmetric = ['bleu']", "training.metric: expected a name"),
    "brackets": ("config.toml", f"a = {'[' * 100_000}", "config.toml"),
    "a folder of metrics": ("metrics.jsonl", None, "metrics.jsonl could not be read: Is a directory"),
    "metrics without a step": ("metrics.jsonl", "{}\n", "line 1: 'step' is missing or not an integer"),
    "text as a score": ("metrics.jsonl", '{"step":1,"best":1,"bleu":"x"}\n', "bleu of step 1 is 'x', not a number"),
    "text since the best": (CHECKPOINT, '{"step":14,"since_best":"x"}', "state.json: since_best is 'x'"),
    "a number as best steps": (CHECKPOINT, '{"step":14,"best_steps":7}', "state.json: best_steps is 7"),
    "text as a step": (CHECKPOINT, '{"step":"14"}', "state.json: step is '14'"),
    "a folder of logs": ("log.txt", None, "log.txt: cannot be read: Is a directory"),
}


def write_run(folder: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if text is None else path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_run_is_a_row_and_hides_no_other(
    odd: str, terminal: bool, tmp_path: Path, command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, text, message = ODD[odd]
    write_run(tmp_path / "odd", {**SOUND, name: text})
    write_run(tmp_path / "sound", dict(SOUND))
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "200")
    answer = command("runs", tmp_path)
    assert answer.code == 0, answer.err
    _, first, second, *below = answer.out.splitlines()
    assert "damaged" in first and "done" in second
    state = below[0] if terminal else first.split("\t")[8]
    assert state.startswith(f"damaged: {tmp_path / 'odd'}")
    assert message in state


def test_a_score_has_few_digits(tmp_path: Path, command: Callable[..., Answer]) -> None:
    write_run(tmp_path / "sound", dict(SOUND))
    assert command("runs", tmp_path).out.splitlines()[1].split("\t")[6] == "100.0000"


@pytest.mark.parametrize("steps", ["14", "14.0", "'14'"])
def test_whole_numbers_are_taken_as_training_takes_them(
    steps: str, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    write_run(tmp_path / "run", {**SOUND, "config.toml": f"[training]\nsteps = {steps}\n"})
    row = command("runs", tmp_path).out.splitlines()[1].split("\t")
    assert (row[4], row[8]) == ("14", "done")


def test_at_a_terminal_a_run_is_one_line_and_damage_is_reported_below(
    tmp_path: Path, trained: Path, command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good").symlink_to(trained)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.toml").write_text("not = [toml", encoding="utf-8")
    (state,) = (row.split("\t")[8] for row in command("runs", tmp_path / "bad").out.splitlines()[1:])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    head, bad, good, below = command("runs", tmp_path).out.splitlines()
    assert head.split() == ["run", "state", "steps", "best", "changed"]
    assert bad.split() == ["bad", "damaged"]
    assert good.split()[:3] == ["good", "done", "200"]
    assert below == state
    assert below.startswith("damaged: ")


def test_tensorboard_sees_every_line_once_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    values = toy_values(toy_corpus(tmp_path / "corpus"), "plain", "training.tensorboard=true", "training.log_every=1")

    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        original = Trainer._after_step

        def after(self: Trainer) -> None:
            original(self)
            if self.progress.step == 7:
                raise Killed

        patch.setattr(Trainer, "_after_step", after)
        with pytest.raises(Killed):
            train(values, run=tmp_path / "run", quiet=True)
    resume(tmp_path / "run", quiet=True)
    seen = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    seen.Reload()
    assert [scalar.step for scalar in seen.Scalars("train/loss")] == list(range(1, 15))
    lines = [line for line in read_journal(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert [scalar.value for scalar in seen.Scalars("train/loss")] == pytest.approx([line["loss"] for line in lines])
    assert [scalar.step for scalar in seen.Scalars("valid/bleu")] == [5, 10, 14]
