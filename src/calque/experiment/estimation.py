"""Runs of models that are estimated from counts, such as n-gram models, instead of trained step by step.

Such a run consists of a single step: estimate, validate, save. It has no checkpoints. If it is stopped, resuming it
repeats the estimation, which yields the same bytes.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from calque.config import Values, override
from calque.data.prepare import Prepared
from calque.errors import ConfigError, Interrupted, shell_path
from calque.experiment.assembly import Assembly, Estimator, Watch
from calque.tasks.interfaces import Judgement, Selection, StoppedError
from calque.training.distributed import Ranks
from calque.training.interrupt import stop_request
from calque.training.job import Summary
from calque.training.journal import read_journal
from calque.training.records import Records, Sizes
from calque.training.reporting import Reporter
from calque.training.settings import TrainingConfig

STEP = 1
USED = ("batch", "device", "metric", "precision", "samples", "threads", "tensorboard", "tie_breaker")
"""The training settings that affect the estimation of a model: those for validation and for the machine."""


class Estimation(NamedTuple):
    """Everything that a run of an estimated model needs."""

    assembly: Assembly
    estimator: Estimator
    prepared: Prepared
    training: TrainingConfig
    folder: Path
    reporter: Reporter

    def selection(self) -> Selection:
        """The rule that selects models. There is only one model here, but `calque runs` shows the metric."""
        metrics, metric = self.assembly.metrics, self.training.metric
        return Selection(metric, self.training.tie_breaker, metrics)


def refuse_unused_training(values: Values, training: TrainingConfig) -> None:
    """Raises a ConfigError for training settings that have no effect on a model that is estimated.

    Default values are accepted, because `calque init` writes all of them. So is a label smoothing of 0, the default of
    most tasks.
    """
    given = values.get("training", {})
    defaults = TrainingConfig()
    unused = [
        name
        for name in sorted(set(given) - set(USED) if isinstance(given, dict) else ())
        if getattr(training, name) not in (getattr(defaults, name), *([0.0] if name == "label_smoothing" else []))
    ]
    if unused:
        listed = ", ".join(f"training.{name}" for name in unused)
        raise ConfigError(
            f"{listed}: no effect on this model, which is estimated from counts and not trained step by step; leave "
            "these settings out"
        )
    if training.batch.tokens == "auto":
        raise ConfigError(
            'training.batch.tokens = "auto" has no effect: this model is estimated without batches; leave it out'
        )


def complete_estimation(values: Values) -> Values:
    """Fills in the training settings that the config of an estimated model leaves open."""
    threads = values.get("training", {}).get("threads") or torch.get_num_threads()
    settings = {"steps": STEP, "validate_every": STEP, "checkpoint_every": STEP, "device": "cpu", "threads": threads}
    return override(values, [f"training.{key}={value}" for key, value in settings.items()])


def refuse_ranks(ranks: Ranks) -> None:
    """Raises a ConfigError if several processes were started to estimate one model."""
    if ranks.count > 1:
        raise ConfigError("this model is estimated by a single process; start it without torchrun")


def run_estimation(estimation: Estimation) -> Summary:
    """Estimates, validates and saves a model; a stop request raises Interrupted."""
    started, reporter, folder = time.monotonic(), estimation.reporter, estimation.folder
    metric, metrics = estimation.training.metric, estimation.assembly.metrics
    finished = _finished(folder)
    if finished is not None:
        reporter.say("this run is finished: its model has been estimated")
        return Summary(STEP, STEP, None, finished[metric], False, 0, time.monotonic() - started)
    with (
        Records(folder, tensorboard=estimation.training.tensorboard) as records,
        records.deletion_reported(),
        stop_request(lambda: reporter.say("stopping")) as stop_requested,
    ):
        records.cut(Sizes(), step=0)
        try:
            model, judgement = _estimate_and_judge(estimation, stop_requested)
        except StoppedError:
            reporter.note("stopped")
            command = f"calque train --resume {shell_path(folder)}"
            raise Interrupted(f"stopped; the prepared data is kept. To estimate the model, run: {command}") from None
        records.refuse_deleted()
        estimation.assembly.save_model(estimation.prepared, parameters=table_size(model))(
            folder / "model", model, judgement
        )
        records.add({"kind": "valid", "step": STEP, **judgement.values, "best": 1})
        records.add_samples(STEP, judgement.samples[: estimation.training.samples])
        records.sync()
    reporter.say(judgement.summary)
    value = metrics[metric].value(estimation.selection().worth(judgement.values))
    return Summary(STEP, STEP, judgement, value, False, 0, time.monotonic() - started)


def table_size(model: nn.Module) -> int:
    """The number of values in all tensors of a model, such as the probability tables of an n-gram model."""
    return sum(tensor.numel() for tensor in model.state_dict().values())


def _estimate_and_judge(estimation: Estimation, stop_requested: Callable[[], bool]) -> tuple[nn.Module, Judgement]:
    def check_stop() -> None:
        if stop_requested():
            raise StoppedError

    prepared, reporter = estimation.prepared, estimation.reporter
    model = estimation.estimator(prepared, Watch(reporter.say, check_stop)).eval()
    check_stop()
    reporter.say(f"model: {table_size(model):,} values in its tables; validating")
    judge = estimation.assembly.judge(model, prepared, ranks=1)
    return model, judge(model, parts=1, stop=stop_requested)


def _finished(folder: Path) -> dict[str, float] | None:
    """The validation scores of a finished run; None if its model has not been saved yet."""
    if not (folder / "model").is_dir():
        return None
    lines = read_journal(folder / "metrics.jsonl", counts=("step",))
    return next((line for line in lines if line["kind"] == "valid"), None)
