"""Runs of estimated models: one step, no checkpoints, the same bytes however often they are stopped."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Answer

import calque
from calque.data.prepare import Prepared
from calque.errors import ConfigError, Interrupted
from calque.experiment.assembly import Watch
from calque.experiment.language_modelling import LanguageModellingAssembly
from calque.models.language_model import LanguageModel
from calque.training.journal import read_journal


def values(folder: Path, **training: Any) -> dict[str, Any]:
    generator = random.Random(1)
    lines = [" ".join(generator.choices("abcdefg", k=generator.randint(3, 20))) for _ in range(60)]
    (folder / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {
        "task": {"kind": "language-modelling"},
        "data": {"train": [{"kind": "text", "path": str(folder / "text")}], "validation": {"minimum": 10}},
        "text": {"kind": "tokens"},
        "model": {"network": {"kind": "recurrent", "layers": 1, "width": 12, "embedding": 10}},
        **({"training": training} if training else {}),
    }


class Estimating:
    """Lets language models be "estimated": they keep their initial weights."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.interrupts = False
        estimating = self

        def estimator(assembly: LanguageModellingAssembly) -> Any:
            def estimate(prepared: Prepared, watch: Watch) -> LanguageModel:
                estimating.calls += 1
                watch.say("counting")
                if estimating.interrupts:
                    os.kill(os.getpid(), signal.SIGINT)
                watch.check_stop()
                return assembly.build(prepared)

            return estimate

        monkeypatch.setattr(LanguageModellingAssembly, "estimator", estimator)


@pytest.fixture(autouse=True)
def estimating(monkeypatch: pytest.MonkeyPatch) -> Estimating:
    return Estimating(monkeypatch)


def contents(run: Path) -> dict[str, bytes]:
    names = [path for path in run.rglob("*") if path.is_file() and "plots" not in path.parts]
    ignored = ("log.txt", "run.lock", "timing.jsonl")
    return {str(path.relative_to(run)): path.read_bytes() for path in names if path.name not in ignored}


def test_an_estimated_model_is_validated_and_saved(tmp_path: Path) -> None:
    run = calque.train(values(tmp_path), run=tmp_path / "run", quiet=True)
    (line,) = read_journal(tmp_path / "run" / "metrics.jsonl")
    assert (line["kind"], line["step"], line["best"]) == ("valid", 1, 1)
    assert run.summary.best is not None and run.summary.best_value == line["perplexity"] > 1
    assert not (tmp_path / "run" / "checkpoints").exists()
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "counting" in log and "values in its tables" in log
    assert "steps per epoch" not in log, "no settings of a training loop are chosen"
    assert calque.load(tmp_path / "run").generate("a", maximum=3)


def test_calque_runs_shows_it_as_done(tmp_path: Path, command: Callable[..., Answer]) -> None:
    calque.train(values(tmp_path), run=tmp_path / "runs" / "1", quiet=True)
    names, row = (line.split("\t") for line in command("runs", tmp_path / "runs").out.splitlines())
    shown = dict(zip(names, row, strict=True))
    assert (shown["state"], shown["step"], shown["steps"], shown["at_step"]) == ("done", "1", "1", "1")


def test_a_finished_run_is_not_estimated_again(tmp_path: Path, estimating: Estimating) -> None:
    first = calque.train(values(tmp_path), run=tmp_path / "run", quiet=True)
    before = contents(tmp_path / "run")
    again = calque.resume(tmp_path / "run", quiet=True)
    assert (estimating.calls, again.summary.best_value) == (1, first.summary.best_value)
    assert contents(tmp_path / "run") == before


def test_a_stopped_run_is_estimated_again_to_the_same_bytes(tmp_path: Path, estimating: Estimating) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    calque.train(values(tmp_path), run=whole, quiet=True)
    estimating.interrupts = True
    with pytest.raises(Interrupted, match="calque train --resume"):
        calque.train(values(tmp_path), run=stopped, quiet=True)
    assert not (stopped / "model").exists()
    estimating.interrupts = False
    calque.resume(stopped, quiet=True)
    assert contents(stopped) == contents(whole)


def test_a_crash_between_model_and_metrics_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, crashed = tmp_path / "whole", tmp_path / "crashed"
    calque.train(values(tmp_path), run=whole, quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr("calque.training.records.Records.add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            calque.train(values(tmp_path), run=crashed, quiet=True)
    assert (crashed / "model").exists()
    calque.resume(crashed, quiet=True)
    assert contents(crashed) == contents(whole)


def test_settings_of_a_training_loop_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.optimiser, training\.steps: no effect on this model"):
        calque.train(values(tmp_path, steps=10, optimiser={"kind": "sgd"}), run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
