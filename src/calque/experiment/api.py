"""`calque.train` and `calque.resume`, for experiments and for users' own tasks."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from calque.config import Values
from calque.engine.folder import is_own_run
from calque.errors import ConfigError
from calque.experiment import running
from calque.experiment.own_task import OwnTask, resume_own, train_own
from calque.experiment.running import Preparing, Run
from calque.experiment.settings import Experiment
from calque.training.observers import TrainingObserver


def train(
    config: Experiment | Values | Path | str,
    *,
    run: Path | str | None = None,
    task: OwnTask | None = None,
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    origin: str = "config",
    observer: TrainingObserver | None = None,
) -> Run:
    """Trains what a config describes (an Experiment, its values, or a TOML file), in a new run folder.

    Settings that the config leaves open (batch size, steps, learning rate, patience etc.) are chosen to fit the corpus.
    So are the text settings if the config has no text section. If the values do not come from a file, messages use
    `origin` to say where they come from. An `observer` is called with the gradients of every update.

        run = calque.train("config.toml", run="runs/1")
        print(run.folder, run.summary.best_step, run.summary.best_value)

    For a `task` of your own, with its model, data and validation (`judge`), the config has only `seed` and `training`:

        calque.train({"training": {"steps": 500}}, task=OwnTask(task, model, train=store, judge=judge), run="runs/mine")
    """
    if task is None:
        return running.train(config, run=run, quiet=quiet, preparing=preparing, origin=origin, observer=observer)
    if not isinstance(config, dict):
        raise ConfigError("for a task of your own, config must be a dict with the keys seed and training")
    return train_own(task, config=config, run=run, quiet=quiet, observer=observer)


def resume(
    run: Path | str,
    *,
    settings: Sequence[str] = (),
    task: OwnTask | None = None,
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    observer: TrainingObserver | None = None,
) -> Run:
    """Continues a run from its newest checkpoint, or from the beginning if it has none.

    First, `settings` are changed, also in the run's config.toml. Changes that the state of the run does not allow are
    rejected. For example, this changes the number of steps and turns early stopping off:

        calque.resume("runs/1", settings=["training.steps=20000", "training.patience=0"])

    A run of your own task needs the same `task` again.
    """
    if task is None:
        if is_own_run(Path(run)):
            raise ConfigError(
                f"{run} is a run of a custom task, which has to be passed again; resume it in Python with "
                f"calque.resume({str(run)!r}, task=OwnTask(...))"
            )
        return running.resume(run, settings=settings, quiet=quiet, preparing=preparing, observer=observer)
    return resume_own(task, run=run, settings=settings, quiet=quiet, observer=observer)
