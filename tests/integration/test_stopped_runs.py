"""Runs that end in unusual ways: stopped before the first validation, with a hang-up, or without their folder."""

import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import calque
from calque.config import check, to_toml
from calque.experiment import Experiment
from calque.training.loop import Trainer
from calque.training.model_selection import ModelSelection
from tests.conftest import Answer, toy_corpus, toy_values
from tests.promises.subjects import SUBJECTS
from tests.promises.test_promises import files

pytestmark = pytest.mark.usefixtures("unplotted")

USES = {
    "translation": ("translate", b"a b c\n"),
    "language model of lines": ("generate", b"a b\n"),
    "language model of running text": ("generate", b"a b\n"),
    "tagging": ("tag", b"dog cat\n"),
}
SETTINGS = {"tagging": ("task.inputs=[]",)}  # so that it labels plain text


@contextmanager
def stopped_at(step: int, *, in_validation: bool = False) -> Iterator[None]:
    """The run within gets SIGTERM after this step, or in the validation of this step."""
    owner, name = (ModelSelection, "_judge") if in_validation else (Trainer, "_step")
    original = getattr(owner, name)

    def stopping(self: Trainer | ModelSelection, argument: object) -> object:
        if in_validation and self.learner.progress.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
        result = original(self, argument)
        if not in_validation and self.learner.progress.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    with pytest.MonkeyPatch.context() as patch, pytest.raises(calque.Interrupted, match=f"saved at step {step};"):
        patch.setattr(owner, name, stopping)
        yield


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_run_stopped_before_its_first_validation_has_a_model(
    name: str, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    """It has the weights of the last step; the first validation replaces it, and the run ends as if never stopped."""
    subject, run = SUBJECTS[name], tmp_path / "run"
    with stopped_at(1):
        subject.train(run, *SETTINGS.get(name, ()))
    for step in (3, 4):  # again after a resume, and in the first validation
        with stopped_at(step, in_validation=step == 4):
            subject.resume(run)
        saved, kept = run / "checkpoints" / f"step-{step}", run / "model"
        weights = [load_file(folder / "weights.safetensors") for folder in (saved, kept)]
        assert weights[0].keys() == weights[1].keys()
        assert all(weights[0][key].equal(value) for key, value in weights[1].items())
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert log.count(f"{run}/model contains the weights of this step, which were never validated") == 3
    if name in USES:
        use, text = USES[name]
        answer = command(use, run, stdin=text)
        assert (answer.code, len(answer.out.splitlines())) == (0, 1), answer.err
        assert "never validated" in (run / "model" / "README.md").read_text(encoding="utf-8")
    subject.resume(run)
    whole = subject.train(tmp_path / "whole", *SETTINGS.get(name, ())).folder
    kept_files = {path: digest for path, digest in files(whole).items() if not path.startswith("checkpoints/")}
    assert kept_files.items() <= files(run).items()
    readme = run / "model" / "README.md"
    assert not readme.exists() or "never validated" not in readme.read_text(encoding="utf-8")


def test_a_moving_average_is_the_model_of_a_run_that_stops_early(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with stopped_at(3):
        SUBJECTS["translation"].train(run, "training.ema=0.9")
    average = load_file(run / "checkpoints" / "step-3" / "average.safetensors")
    kept = load_file(run / "model" / "weights.safetensors")
    assert all(kept[name].equal(value) for name, value in average.items())


def after_step(step: int, action: Callable[[], object]) -> pytest.MonkeyPatch:
    """Calls `action` after this step of a run; undo it."""
    patch, original = pytest.MonkeyPatch(), Trainer._step

    def acting(self: Trainer, batches: Any) -> None:
        original(self, batches)
        if self.progress.step == step:
            action()

    patch.setattr(Trainer, "_step", acting)
    return patch


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The config of a run whose first validation is at step 5."""
    file = tmp_path / "config.toml"
    values = toy_values(toy_corpus(tmp_path / "corpus"), "plain", "training.average=0", "training.samples=0")
    file.write_text(to_toml(check(Experiment, values, origin="test")), encoding="utf-8")
    return file


def test_sighup_saves_and_the_next_command_can_be_pasted(config: Path, command: Callable[..., Answer]) -> None:
    run = config.parent / "it's a run"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    patch = after_step(2, lambda: os.kill(os.getpid(), signal.SIGHUP))
    try:
        answer = command("train", "--config", config, "--run", run)
    finally:
        patch.undo()
        signal.signal(signal.SIGHUP, before)
    assert answer.code == 75, answer.err
    (resume,) = re.findall(r"resume with: calque (.*)", answer.err)
    resumed = command(*shlex.split(resume))
    assert resumed.code == 0, resumed.err
    (use,) = re.findall(r"next: calque (.*) --input FILE", resumed.err)
    translated = command(*shlex.split(use), stdin=b"a b\n")
    assert (translated.code, len(translated.out.splitlines())) == (0, 1), translated.err


@pytest.mark.parametrize(
    ("step", "moment"), [(1, "between steps"), (4, "before a checkpoint"), (5, "in a validation"), (14, "at the end")]
)
def test_a_deleted_run_folder_is_reported_and_not_remade(
    step: int, moment: str, config: Path, command: Callable[..., Answer]
) -> None:
    run = config.parent / "run"
    if moment == "in a validation":
        patch, judge = pytest.MonkeyPatch(), ModelSelection._judge

        def deleting(self: ModelSelection, stop_requested: Callable[[], bool]) -> Any:
            shutil.rmtree(run)
            return judge(self, stop_requested)

        patch.setattr(ModelSelection, "_judge", deleting)
    else:
        patch = after_step(step, lambda: shutil.rmtree(run))
    try:
        answer = command("train", "--config", config, "--run", run)
    finally:
        patch.undo()
    assert answer.code == 1, answer.err
    assert f"calque: {run}: this run folder was deleted or moved while the run was training" in answer.err
    assert "lost" in answer.err and "Traceback" not in answer.err
    assert not run.exists()


def test_a_folder_that_replaces_the_run_folder_is_not_written_to(config: Path, command: Callable[..., Answer]) -> None:
    run = config.parent / "run"

    def replace() -> None:
        run.rename(config.parent / "moved")
        run.mkdir()

    patch = after_step(6, replace)
    try:
        assert command("train", "--config", config, "--run", run).code == 1
    finally:
        patch.undo()
    assert list(run.iterdir()) == []
    assert command("train", "--resume", config.parent / "moved").code == 0
