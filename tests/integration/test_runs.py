"""`calque runs`, and what TensorBoard gets to see."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.errors import Interrupted
from calque.experiment import resume, train
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from tests.conftest import Answer, toy_corpus, toy_values

pytestmark = pytest.mark.usefixtures("unplotted")


def test_runs_are_listed_with_their_best_score_and_state(tmp_path: Path, command: Callable[..., Answer]) -> None:
    corpus = toy_corpus(tmp_path / "corpus")
    for name in ("2", "10"):
        train(toy_values(corpus, "luong"), run=tmp_path / "runs" / name, quiet=True)
    stopped = toy_values(corpus, "plain", "training.metric=loss")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        original = Trainer._step

        def step(self: Trainer, parts: list[object]) -> None:
            original(self, parts)  # type: ignore[arg-type]
            if self.progress.step == 6:
                os.kill(os.getpid(), 15)

        patch.setattr(Trainer, "_step", step)
        train(stopped, run=tmp_path / "runs" / "stopped", quiet=True)
    (tmp_path / "runs" / "nothing").mkdir()
    answer = command("runs", tmp_path / "runs")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert rows[0] == ["run", "model", "pairs", "steps", "best", "at step", "state", "changed"]
    assert [Path(row[0]).name for row in rows[1:]] == ["2", "10", "stopped"]
    kept = read_journal(tmp_path / "runs" / "2" / "metrics.jsonl")[-1]
    assert rows[1][1:7] == ["recurrent → luong", "100", "14 of 14", f"bleu {kept['bleu']:.2f}", "14", "done"]
    assert rows[3][3] == "6 of 14"
    assert rows[3][4].startswith("loss ")
    assert rows[3][6] == "stopped; --resume goes on"


def test_a_damaged_run_is_a_row_and_no_run_a_message(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "runs" / "bad").mkdir(parents=True)
    (tmp_path / "runs" / "bad" / "config.toml").write_text("not = [toml", encoding="utf-8")
    assert "damaged" in command("runs", tmp_path / "runs").out
    (tmp_path / "empty").mkdir()
    for folder, said in (("empty", "no run here"), ("missing", "no such folder")):
        answer = command("runs", tmp_path / folder)
        assert answer.code == 2
        assert said in answer.err


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
    assert [each.step for each in seen.Scalars("train/loss")] == list(range(1, 15))
    lines = [line for line in read_journal(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert [each.value for each in seen.Scalars("train/loss")] == pytest.approx([line["loss"] for line in lines])
    assert [each.step for each in seen.Scalars("valid/bleu")] == [5, 10, 14]
