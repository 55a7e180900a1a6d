"""Runs of a custom task: any object that implements `Task`, with its model, data and judge.

Like all runs, they have checkpoints, exact resumption, model selection, metrics and plots.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import nn

from calque.config import Values, check, override, read_toml, to_toml
from calque.data.store import Store, length_counts
from calque.data.subword_regularisation import FixedConfig
from calque.devices import choose_device
from calque.engine.folder import is_own_run
from calque.engine.model_files import WEIGHTS, write_model_folder
from calque.errors import ConfigError, FolderError
from calque.experiment.assembly import precision_warnings, refuse_uncomputable, refuse_unknown_metrics
from calque.experiment.changes import change_settings
from calque.experiment.running import LOG, Run, arithmetic, run_facts, run_job
from calque.experiment.settings import OwnExperiment
from calque.folders.upgrades import upgrade_training
from calque.folders.weights import weights_of
from calque.objectives.objective import ObjectiveConfig
from calque.tasks.interfaces import Judge, Judgement, Task
from calque.training.distributed import Ranks, joined_ranks
from calque.training.job import Job, SaveModel
from calque.training.lock import run_lock
from calque.training.observers import TrainingObserver
from calque.training.plots import LENGTHS, draw_curves
from calque.training.reporting import Reporter
from calque.training.runs import CONFIG, new_run_folder, record, write_atomically, write_config
from calque.training.settings import TrainingConfig


class OwnTask(NamedTuple):
    """A task with everything that a run needs to train it.

    The model is trained in place, starting with its current weights. The store `train` may be in memory
    (`store_in_memory`) or on disk. Without `save_model`, only the weights of the best model are saved.

    >>> calque.train({"training": {"steps": 500}}, task=OwnTask(task, model, train=store, judge=judge))
    """

    task: Task
    model: nn.Module
    train: Store
    judge: Judge
    save_model: SaveModel | None = None


IDLE: Mapping[str, object] = {
    "label_smoothing": 0.0,
    "objective": ObjectiveConfig(),
    "subwords": FixedConfig(),
    "warm_start": None,
    "watch_gradients": 0,
}
"""The training settings that have no effect on a custom task, with the only value that each may have."""

CHUNK = 1 << 24  # bytes of a column that are hashed at a time


def train_own(
    own: OwnTask,
    *,
    config: Values,
    run: Path | str | None = None,
    quiet: bool = False,
    observer: TrainingObserver | None = None,
) -> Run:
    """Trains a custom task in a new run folder."""
    with joined_ranks() as ranks:
        folder = ranks.on_leader(lambda: _new_run(own, config=config, run=run))
        return _continue(own, Path(folder), ranks=ranks, quiet=quiet, observer=observer)


def resume_own(
    own: OwnTask,
    *,
    run: Path | str,
    settings: Sequence[str] = (),
    quiet: bool = False,
    observer: TrainingObserver | None = None,
) -> Run:
    """Continues a run of a custom task, from its newest checkpoint or from the beginning.

    First, the `settings` are changed; each is written as `KEY=VALUE`.
    """
    with joined_ranks() as ranks:
        if settings:
            ranks.on_leader(lambda: _change(own, Path(run), settings))
        return _continue(own, Path(run), ranks=ranks, quiet=quiet, observer=observer)


def _new_run(own: OwnTask, *, config: Values, run: Path | str | None) -> str:
    """Creates a run folder with the config, in which all automatic settings are determined; returns its path."""
    experiment = check(OwnExperiment, config, origin="config")
    _refuse_idle(experiment.training, names=experiment.training.model_fields_set)
    _refuse_unfit(own, experiment.training)
    folder = new_run_folder(None if run is None else Path(run))
    device = choose_device(experiment.training.device).type
    threads = experiment.training.threads or torch.get_num_threads()
    metric = own.judge.selects if experiment.training.metric == "auto" else experiment.training.metric
    tie_breaker = experiment.training.tie_breaker
    if tie_breaker == "auto":
        tie_breaker = own.judge.metrics[metric].tie_breaker
    chosen = [f"training.device={device}", f"training.threads={threads}", f"training.metric={metric}"]
    chosen.append(f"training.tie_breaker={tie_breaker}")
    chosen.append("training.label_smoothing=0.0")  # the default is for translation
    completed = check(OwnExperiment, override(config, chosen), origin="config")
    write_config(folder, to_toml(completed))
    return str(folder)


def _continue(own: OwnTask, folder: Path, *, ranks: Ranks, quiet: bool, observer: TrainingObserver | None) -> Run:
    experiment = ranks.on_all(lambda: _read(own, folder))
    training = experiment.training
    with ExitStack() as stack:
        ranks.on_leader(lambda: _start(folder, own, experiment, stack=stack, ranks=ranks.count))
        own.model.to(choose_device(training.device))
        log = folder / LOG if ranks.leads else None
        with Reporter(log, steps=training.steps, quiet=quiet or not ranks.leads) as reporter, arithmetic(training):
            reporter.say(*precision_warnings(training))
            job = Job(
                config=training,
                seed=experiment.seed,
                task=own.task,
                model=own.model,
                store=own.train,
                judge=own.judge,
                save_model=own.save_model or partial(_save_weights, experiment=experiment),
                folder=folder,
                reporter=reporter,
                ranks=ranks,
                observer=observer,
            )
            summary = run_job(job)
        if ranks.leads:
            draw_curves(folder)
    return Run(folder, experiment, summary)


def _read(own: OwnTask, folder: Path) -> OwnExperiment:
    """The config of a run; raises a ConfigError if it does not suit the custom task."""
    if not (folder / CONFIG).is_file():
        raise FolderError(f"{folder} is not a run folder: it has no {CONFIG}")
    values = upgrade_training(read_toml(folder / CONFIG))
    if not is_own_run(folder):
        raise ConfigError(
            f"{folder} is the run of a built-in task, but task= is for tasks of your own; resume it without task="
        )
    experiment = check(OwnExperiment, values, origin=str(folder / CONFIG), written=True)
    training, defaults = experiment.training, TrainingConfig()
    _refuse_idle(training, names=[name for name in IDLE if getattr(training, name) != getattr(defaults, name)])
    _refuse_unfit(own, training)
    return experiment


def _change(own: OwnTask, folder: Path, settings: Sequence[str]) -> str:
    _read(own, folder)

    def refuse_unfit(changed: OwnExperiment) -> None:
        _refuse_idle(changed.training, names=IDLE)
        _refuse_unfit(own, changed.training)

    change_settings(folder, settings, of=OwnExperiment, refuse_unbuildable=refuse_unfit)
    return ""


def _start(folder: Path, own: OwnTask, experiment: OwnExperiment, *, stack: ExitStack, ranks: int) -> str:
    """Locks the run and writes its run.json; raises a DataError if the data has changed since the run started."""
    stack.enter_context(run_lock(folder))
    write_atomically(folder / LENGTHS, json.dumps(length_counts(own.train)) + "\n")
    facts = run_facts(experiment.training, data=_fingerprint(own.train), ranks=ranks, metrics=own.judge.metrics)
    record(folder, {**facts, "seed": experiment.seed}, files={})
    return ""


def _refuse_idle(training: TrainingConfig, *, names: Collection[str]) -> None:
    """Raises a ConfigError if any of the training settings `names` has no effect on a custom task."""
    idle = [f"training.{name}" for name, off in IDLE.items() if name in names and getattr(training, name) != off]
    if idle:
        raise ConfigError(
            f"{', '.join(idle)}: no effect on a task of your own, which defines its own model and loss; leave it out"
        )


def _refuse_unfit(own: OwnTask, training: TrainingConfig) -> None:
    missing = [name for name in own.task.reads if name not in own.train]
    if missing:
        raise ConfigError(f"the task reads columns that the prepared data does not have: {', '.join(missing)}")
    refuse_unknown_metrics(training, metrics=own.judge.metrics)
    if training.batch.tokens == "auto":
        raise ConfigError("training.batch.tokens = 'auto' is not supported for a task of your own; set a number")
    refuse_uncomputable(own.model, training)


def _fingerprint(store: Store) -> dict[str, str]:
    """The SHA-256 of every column, so that changed data is detected when a run is resumed."""
    return {f"column {name}": _digest(column.values, column.lengths) for name, column in store.columns.items()}


def _digest(*arrays: NDArray[Any]) -> str:
    """The SHA-256 of the arrays' bytes, read in chunks because a column may be larger than memory."""
    digest = hashlib.sha256()
    for array in arrays:
        rows = max(1, CHUNK * len(array) // max(1, array.nbytes))
        for start in range(0, len(array), rows):
            digest.update(array[start : start + rows].tobytes())
    return digest.hexdigest()


def _save_weights(path: Path, model: nn.Module, judgement: Judgement, *, experiment: OwnExperiment) -> None:
    """Writes a model folder: the weights, the run's config and the files from validation (`judgement.artefacts`)."""

    def fill(folder: Path) -> None:
        save_file(weights_of(model), folder / WEIGHTS)
        (folder / CONFIG).write_text(to_toml(experiment), encoding="utf-8")
        for name, content in judgement.artefacts.items():
            (folder / name).write_bytes(content)

    write_model_folder(path, fill=fill)
