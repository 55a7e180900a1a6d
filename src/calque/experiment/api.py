"""`calque.train` and `calque.resume`: for experiments and for tasks that a user brings."""

from contextlib import nullcontext
from pathlib import Path

from calque.config import Values
from calque.errors import ConfigError
from calque.experiment import running
from calque.experiment.own_task import OwnTask, resume_own, train_own
from calque.experiment.running import Preparing, Run
from calque.experiment.settings import Experiment


def train(
    config: Experiment | Values | Path | str,
    *,
    run: Path | str | None = None,
    task: OwnTask | None = None,
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    origin: str = "config",
) -> Run:
    """Trains what a config describes (an Experiment, its values, or a TOML file), in a new run folder.

    Settings the config leaves open (batch, steps, validation, early stopping, rates) are chosen to fit the corpus.
    `origin` is what messages about values that are in no file say they come from.

    A `task` of your own comes with its model, data and judge; then the config has `seed` and `training` alone:

        calque.train({"training": {"steps": 500}}, task=OwnTask(task, model, train=store, judge=judge), run="runs/mine")
    """
    if task is None:
        return running.train(config, run=run, quiet=quiet, preparing=preparing, origin=origin)
    if not isinstance(config, dict):
        raise ConfigError("a task of your own is configured by plain values: seed and training")
    return train_own(task, config=config, run=run, quiet=quiet)


def resume(
    run: Path | str, *, task: OwnTask | None = None, quiet: bool = False, preparing: Preparing = nullcontext
) -> Run:
    """Continues a run from its newest checkpoint, or from wherever it was stopped before the first.

    A run of your own task needs the same `task` again.
    """
    if task is None:
        return running.resume(run, quiet=quiet, preparing=preparing)
    return resume_own(task, run=run, quiet=quiet)
