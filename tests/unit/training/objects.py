"""Shared by tests of training: digests of a run, ways to stop it, batches and weights."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calque.config import Values, check
from calque.data.batching import Planned
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, collate_pairs, pair_widths
from calque.data.store import Store
from calque.errors import ConfigError
from calque.experiment import Experiment, train
from calque.models.model import Model, Sizes
from calque.tasks.interfaces import Judgement
from calque.training.checkpoints import scheduled_steps
from calque.training.loop import Trainer
from calque.training.model_selection import ModelSelection
from calque.training.settings import TrainingConfig
from calque.training.update import stream_seed

PAIRS = [([4, 5, 6], [7, 4]), ([5], [6, 6, 6, 4, 5]), ([7, 7, 4, 4, 5], [4]), ([6, 4], [5, 5, 7])]


def digests(run: Path) -> dict[str, str]:
    """SHA-256 of all files that must be the same however often a run was interrupted."""
    last = run / "checkpoints" / f"step-{scheduled_steps(run / 'checkpoints')[-1]}"
    files = [run / "model" / "weights.safetensors", run / "metrics.jsonl", run / "samples.txt"]
    files += [last / f"{group}.safetensors" for group in ("weights", "optimiser", "sums")]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def stop_at(
    monkeypatch: pytest.MonkeyPatch, step: int, *, before: str, action: Callable[[], None], of: type = Trainer
) -> None:
    """Calls `action` once, at that step before the method `before`."""
    original = getattr(of, before)
    done: list[int] = []

    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.learner.progress.step >= step and not done:
            done.append(step)
            action()
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(of, before, method)


class Killed(BaseException):
    """Simulates kill -9: nothing in the code under test catches it."""


def kill() -> None:
    raise Killed


def train_until_killed(values: Values, *, run: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed in the middle of that step."""
    with monkeypatch.context() as patch:
        stop_at(patch, step, before="_step", action=kill)
        with pytest.raises(Killed):
            train(values, run=run, quiet=True)


def initial_model(experiment: Experiment, *, sizes: Sizes) -> Model:
    """The initial model of a run, for vocabularies of any size."""
    torch.manual_seed(stream_seed(experiment.seed, "weights"))
    return Model(experiment.model, sizes=sizes)


def batch_of(store: Store, *rows: int) -> PairBatch:
    indices = np.array(rows)
    widths = tuple(int(axis[indices].max()) for axis in pair_widths(store))
    return collate_pairs(store, planned=Planned(indices, Size(len(rows), widths)))


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def score(
    patch: pytest.MonkeyPatch, value: Callable[[int, bool], float], *, loss: Callable[[int], float] = lambda _: 1.0
) -> None:
    """Makes `value` (of the step, and whether it is the mean) the BLEU of a validation, and `loss` its loss."""
    judge, keep_mean = ModelSelection._judge, ModelSelection.keep_mean
    means: list[int] = []

    def counted_mean(self: ModelSelection, weights: Sequence[dict[str, torch.Tensor]]) -> None:
        means.append(len(weights))
        keep_mean(self, weights)

    def scored(self: ModelSelection, stop_requested: Callable[[], bool]) -> Judgement:
        step, judgement = self.learner.progress.step, judge(self, stop_requested)
        scores = {"bleu": float(value(step, bool(means))), "loss": loss(step)}
        return judgement._replace(values={**judgement.values, **scores})

    patch.setattr(ModelSelection, "keep_mean", counted_mean)
    patch.setattr(ModelSelection, "_judge", scored)


def assert_accepted_or_rejected(
    section: str, kind: str, key: str, value: Any, *, readers: Sequence[str] | None
) -> None:
    """A key of a training section is accepted, or rejected with the kinds that use it; its default always is."""
    values = {section: {"kind": kind, key: value}}
    if readers is None:
        assert getattr(getattr(check(TrainingConfig, values, origin="x"), section), key) == value
    else:
        with pytest.raises(ConfigError, match=rf"{section}: {key} = \S+ is used only with kind = ") as refused:
            check(TrainingConfig, values, origin="x")
        assert all(reader in str(refused.value) for reader in readers)
        check(TrainingConfig, values, origin="x", written=True)  # a run that was started with it can be resumed
    default = type(getattr(TrainingConfig(), section)).model_fields[key].default
    check(TrainingConfig, {section: {"kind": kind, key: default}}, origin="x")
