"""On a GPU every task trains, resumes and measures as on a CPU."""

import os
from pathlib import Path

import pytest
import torch

from tests.promises.subjects import SUBJECTS
from tests.promises.test_promises import files, lines

DEVICE = os.environ.get("CALQUE_TEST_DEVICE", "cuda")
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("there is no GPU on this machine", allow_module_level=True)

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # read when the device is first used
pytestmark = [
    pytest.mark.usefixtures("unplotted"),
    pytest.mark.filterwarnings("ignore:Requested unified CUBLASLT workspace"),  # the setting above limits it
]

OWN = [name for name, subject in SUBJECTS.items() if subject.own is None]


@pytest.mark.parametrize("task", OWN)
def test_losses_are_those_of_a_cpu(task: str, tmp_path: Path) -> None:
    subject = SUBJECTS[task]
    runs = [
        subject.train(tmp_path / name, "training.precision=float64", f"training.device={device}").folder
        for name, device in (("here", "cpu"), ("there", DEVICE))
    ]
    for kind in ("train", "valid"):
        here, there = ([line["loss"] for line in lines(run, kind)] for run in runs)
        assert there == pytest.approx(here, rel=1e-6)


@pytest.mark.parametrize("task", OWN)
def test_a_resumed_run_ends_with_the_same_bytes(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.training.loop import Trainer
    from tests.promises.test_promises import Killed

    subject = SUBJECTS[task]
    changes = (f"training.device={DEVICE}", "training.deterministic=true")
    whole = subject.train(tmp_path / "whole", *changes, dropout=True).folder
    step = Trainer._step

    def killing(self: Trainer, parts: object) -> None:
        if self.progress.step == 5:
            raise Killed
        step(self, parts)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killing)
        with pytest.raises(Killed):
            subject.train(tmp_path / "killed", *changes, dropout=True)
    subject.resume(tmp_path / "killed")
    assert files(tmp_path / "killed") == files(whole)


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
@pytest.mark.parametrize("task", OWN)
def test_every_precision_learns(task: str, precision: str, tmp_path: Path) -> None:
    changes = (f"training.device={DEVICE}", f"training.precision={precision}", "training.steps=60")
    run = SUBJECTS[task].train(tmp_path / "run", *changes).folder
    losses = [line["loss"] for line in lines(run, "train")]
    assert losses[-1] < losses[0]
