"""Every promise of training holds for every task.

Each CI run tests every promise and every task at least once, which ones changes with the commit; a full run tests all.
"""

import hashlib
import os
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from calque.tasks.interfaces import Loss
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from tests.conftest import Answer, without_plots
from tests.integration.ranks import cold_ranks, train_ranks
from tests.promises.subjects import STEPS, SUBJECTS, Subject


class Ground(NamedTuple):
    """What a promise is tested with."""

    subject: Subject
    folder: Path
    patch: pytest.MonkeyPatch
    command: Callable[..., Answer]
    seed: int


class Killed(BaseException):
    """Stands for kill -9: nothing in the code under test catches it."""


def files(run: Path) -> dict[str, str]:
    """The SHA-256 of everything in a run that does not depend on the clock or the place of the run."""
    names = [path for path in run.rglob("*") if path.suffix in (".safetensors", ".bin", ".model", ".txt")]
    names += [run / "metrics.jsonl", *run.glob("checkpoints/*/state.json"), *run.glob("model/*.json")]
    kept = [path for path in names if path.name not in ("log.txt", "manifest.json")]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


def weights(run: Path, step: int) -> dict[str, Tensor]:
    return load_file(run / "checkpoints" / f"step-{step}" / "weights.safetensors")


def kept_weights(run: Path) -> dict[str, Tensor]:
    return load_file(run / "model" / "weights.safetensors")


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_journal(run / "metrics.jsonl") if line["kind"] == kind]


def spoil(ground: Ground, change: Callable[[Loss, Any, int], Loss]) -> None:
    """Lets `change(loss, batch, step)` have the last word on every loss of the task in training."""
    compute = ground.subject.task.loss

    def spoilt(self: Any, model: Any, batch: Any, *, step: int, carry: Any = None) -> Loss:
        loss = compute(self, model, batch, step=step, carry=carry)
        return change(loss, batch, step) if torch.is_grad_enabled() else loss

    ground.patch.setattr(ground.subject.task, "loss", spoilt)


def killed_runs_resume_to_the_same_bytes(ground: Ground) -> None:
    whole = ground.subject.train(ground.folder / "whole", dropout=True).folder
    kills = sorted(random.Random(ground.seed).sample(range(STEPS), 2))
    take, killed = Trainer._step, ground.folder / "killed"
    for number, at in enumerate(kills):

        def killing(self: Trainer, parts: Any, at: int = at) -> None:
            if self.progress.step == at:
                raise Killed
            take(self, parts)

        with ground.patch.context() as patch:
            patch.setattr(Trainer, "_step", killing)
            with pytest.raises(Killed):
                if number:
                    ground.subject.resume(killed)
                else:
                    ground.subject.train(killed, dropout=True)
    ground.subject.resume(killed)
    assert files(killed) == files(whole), f"killed before steps {kills}"
    assert len(files(whole)) > 10


def two_ranks_learn_what_one_does(ground: Ground) -> None:
    changes, tolerance = ground.subject.precise
    one = ground.subject.train(ground.folder / "one", *changes).folder
    values = ground.subject.experiment(ground.folder, *changes)
    two = ground.folder / "two"
    ended = train_ranks(cold_ranks, 2, values, two, own=ground.subject.own is not None)
    assert ended.codes == [0, 0], ended.said
    for kind in ("train", "valid"):
        expected = [line["loss"] for line in lines(one, kind)]
        assert [line["loss"] for line in lines(two, kind)] == pytest.approx(expected, rel=tolerance)
    expected_weights = weights(one, STEPS)
    for name, value in weights(two, STEPS).items():
        torch.testing.assert_close(value, expected_weights[name], rtol=0, atol=100 * tolerance)


def batches_that_do_not_fit_are_split(ground: Ground) -> None:
    changes, tolerance = ground.subject.precise
    whole = ground.subject.train(ground.folder / "whole", *changes).folder
    refused = []

    def starve(loss: Loss, batch: Any, step: int) -> Loss:
        rows = getattr(batch, "rows_together", batch.rows)
        if rows > 3:
            refused.append((step, rows))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return loss

    spoil(ground, starve)
    split = ground.subject.train(ground.folder / "split", *changes).folder
    assert refused and {line["step"] for line in read_journal(split / "history.jsonl")} <= {step for step, _ in refused}
    expected = [line["loss"] for line in lines(whole, "train")]
    assert [line["loss"] for line in lines(split, "train")] == pytest.approx(expected, rel=tolerance)


def the_mean_of_checkpoints_is_kept(ground: Ground) -> None:
    run = ground.subject.train(ground.folder / "run", "training.average=3", "training.validate_every=12").folder
    last = [weights(run, step) for step in (STEPS - 4, STEPS - 2, STEPS)]
    means = {name: torch.stack([part[name].double() for part in last]).mean(0).float() for name in last[0]}
    averaged = [line for line in lines(run, "valid") if "averaged" in line]
    kept = kept_weights(run)
    if averaged[-1]["best"]:
        assert all(torch.allclose(value, means[name], atol=1e-7) for name, value in kept.items())
    else:
        assert all(torch.equal(value, last[-1][name]) for name, value in kept.items())


def the_moving_average_is_kept(ground: Ground) -> None:
    changes = ("training.ema=0.7", "training.checkpoint_every=1", "training.validate_every=4")
    run = ground.subject.train(ground.folder / "run", *changes).folder
    best = [line["step"] for line in lines(run, "valid") if line["best"]][-1]
    steps = [weights(run, step) for step in range(1, best + 1)]
    begun = ground.subject.train(ground.folder / "begun", "training.steps=1", *_tiny_rate()).folder
    average = {name: value.double() for name, value in weights(begun, 1).items()}
    for step, now in enumerate(steps, start=1):
        decay = min(0.7, (1 + step) / (10 + step))
        average = {name: decay * value + (1 - decay) * now[name].double() for name, value in average.items()}
    for name, value in kept_weights(run).items():
        torch.testing.assert_close(value.double(), average[name], rtol=0, atol=1e-5)
    assert any(not torch.allclose(value.double(), steps[-1][name].double()) for name, value in average.items())


def _tiny_rate() -> tuple[str, ...]:
    """One step of such a rate leaves the weights as they were drawn."""
    return ("training.optimiser.learning_rate=1e-12", "training.validate_every=1", "training.checkpoint_every=1")


def a_step_that_is_no_number_is_left_out(ground: Ground) -> None:
    bad = 5

    def spoilt(loss: Loss, _: Any, step: int) -> Loss:
        return loss._replace(objective=loss.objective * float("nan")) if step == bad else loss

    spoil(ground, spoilt)
    done = ground.subject.train(ground.folder / "run", "training.checkpoint_every=1")
    assert done.summary.skipped == 1
    same = [
        step
        for step in range(2, STEPS + 1)
        if all(
            torch.equal(value, weights(done.folder, step - 1)[name])
            for name, value in weights(done.folder, step).items()
        )
    ]
    assert same == [bad]
    assert all(value.isfinite().all() for value in kept_weights(done.folder).values())
    assert [after["skipped"] - before["skipped"] for before, after in pairwise(lines(done.folder, "train"))].count(
        1
    ) == 1


def runs_are_listed(ground: Ground) -> None:
    done = ground.subject.train(ground.folder / "run")
    answer = ground.command("runs", ground.folder)
    assert answer.code == 0, answer.err
    head, row = (line.split("\t") for line in answer.out.splitlines())
    listed = dict(zip(head, row, strict=True))
    assert (listed["state"], listed["metric"]) == ("done", ground.subject.metric), listed
    assert float(listed["best"]) == pytest.approx(done.summary.best_value, rel=1e-2)


def curves_are_drawn(ground: Ground) -> None:
    run = ground.subject.train(ground.folder / "run", "training.steps=4").folder
    assert (run / "plots" / "training.png").read_bytes().startswith(b"\x89PNG")


def tensorboard_has_every_line(ground: Ground) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = ground.subject.train(ground.folder / "run", "training.tensorboard=true").folder
    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    for kind, name in (("train", "loss"), ("valid", "loss"), ("valid", ground.subject.metric)):
        points = board.Scalars(f"{kind}/{name}")
        assert [point.step for point in points] == [line["step"] for line in lines(run, kind)]
        assert [point.value for point in points] == pytest.approx([line[name] for line in lines(run, kind)], rel=1e-5)


def every_validation_shows_samples(ground: Ground) -> None:
    run = ground.subject.train(ground.folder / "run").folder
    text = (run / "samples.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^step (\d+)\n\n", text, flags=re.MULTILINE)[1:]
    assert [int(step) for step in blocks[::2]] == [line["step"] for line in lines(run, "valid")]
    assert all(block.strip() for block in blocks[1::2])


PROMISES: dict[str, Callable[[Ground], None]] = {
    "resume": killed_runs_resume_to_the_same_bytes,
    "ranks": two_ranks_learn_what_one_does,
    "memory": batches_that_do_not_fit_are_split,
    "averaging": the_mean_of_checkpoints_is_kept,
    "moving average": the_moving_average_is_kept,
    "no number": a_step_that_is_no_number_is_left_out,
    "runs": runs_are_listed,
    "plots": curves_are_drawn,
    "tensorboard": tensorboard_has_every_line,
    "samples": every_validation_shows_samples,
}


def _pairs() -> list[Any]:
    """All pairs; those outside one diagonal of the table, which the seed of the tests chooses, are for a full run."""
    shift = int(os.environ.get("CALQUE_TEST_SEED", "0"))
    return [
        pytest.param(
            task,
            promise,
            id=f"{task}-{promise}",
            marks=[] if (row + column + shift) % len(SUBJECTS) == 0 else [pytest.mark.full],
        )
        for row, task in enumerate(SUBJECTS)
        for column, promise in enumerate(PROMISES)
    ]


@pytest.mark.parametrize(("task", "promise"), _pairs())
def test_promise(
    task: str,
    promise: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., Answer],
    seed: int,
) -> None:
    ground = Ground(SUBJECTS[task], tmp_path, monkeypatch, command, seed)
    if promise == "plots":
        PROMISES[promise](ground)
        return
    with without_plots():
        PROMISES[promise](ground)
