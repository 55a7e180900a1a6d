"""Runs of a user's own task: any object that fulfils the contract, with its model, data and judge.

They have exact resume, checkpoints, model selection, metrics and plots, as all runs do.
"""

import hashlib
import json
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import nn

from calque.config import Values, check, override, read_toml, to_toml
from calque.data.store import Store, length_counts
from calque.devices import choose_device
from calque.engine.folder import WEIGHTS, write_model_folder
from calque.errors import ConfigError, FolderError
from calque.experiment.assembly import refuse_uncomputable
from calque.experiment.running import LOG, Run, arithmetic, run_facts, run_job
from calque.experiment.settings import OwnExperiment
from calque.folders.weights import weights_of
from calque.tasks.interfaces import Judge, Judgement, Task
from calque.training.distributed import Ranks, joined_ranks
from calque.training.job import Job, SaveModel
from calque.training.lock import run_lock
from calque.training.plots import LENGTHS, draw_curves
from calque.training.reporting import Reporter
from calque.training.runs import CONFIG, new_run_folder, record, write_atomically
from calque.training.settings import TrainingConfig


class OwnTask(NamedTuple):
    """A task with all that a run of it needs.

    The model is trained in place, starting with its current weights; `train` may be in memory (`store_in_memory`) or
    on disk. Without `save_model`, only the weights of the best model are saved.
    """

    task: Task
    model: nn.Module
    train: Store
    judge: Judge
    save_model: SaveModel | None = None


def train_own(own: OwnTask, *, config: Values, run: Path | str | None = None, quiet: bool = False) -> Run:
    """Trains a user's own task in a new run folder."""
    with joined_ranks() as ranks:
        folder = ranks.on_leader(lambda: _new_run(own, config=config, run=run))
        return _continue(own, Path(folder), ranks=ranks, quiet=quiet)


def resume_own(own: OwnTask, *, run: Path | str, quiet: bool = False) -> Run:
    """Continues a run of a user's own task, from its newest checkpoint or from the beginning."""
    with joined_ranks() as ranks:
        return _continue(own, Path(run), ranks=ranks, quiet=quiet)


def _new_run(own: OwnTask, *, config: Values, run: Path | str | None) -> str:
    """A new run folder with its config."""
    experiment = check(OwnExperiment, config, origin="config")
    _refuse_unfit(own, experiment.training)
    folder = new_run_folder(None if run is None else Path(run))
    device = choose_device(experiment.training.device).type
    threads = experiment.training.threads or torch.get_num_threads()
    metric = own.judge.selects if experiment.training.metric == "auto" else experiment.training.metric
    chosen = [f"training.device={device}", f"training.threads={threads}", f"training.metric={metric}"]
    completed = check(OwnExperiment, override(config, chosen), origin="config")
    with run_lock(folder):
        write_atomically(folder / CONFIG, to_toml(completed))
    return str(folder)


def _continue(own: OwnTask, folder: Path, *, ranks: Ranks, quiet: bool) -> Run:
    experiment = ranks.on_all(lambda: _read(own, folder))
    training = experiment.training
    with ExitStack() as stack:
        ranks.on_leader(lambda: _start(folder, own, experiment, stack=stack, ranks=ranks.count))
        own.model.to(choose_device(training.device))
        log = folder / LOG if ranks.leads else None
        with Reporter(log, steps=training.steps, quiet=quiet or not ranks.leads) as reporter, arithmetic(training):
            job = Job(
                config=training,
                seed=experiment.seed,
                task=own.task,
                model=own.model,
                store=own.train,
                judge=own.judge,
                save_model=own.save_model or _save_weights,
                folder=folder,
                reporter=reporter,
                ranks=ranks,
            )
            summary = run_job(job)
        if ranks.leads:
            draw_curves(folder)
    return Run(folder, experiment, summary)


def _read(own: OwnTask, folder: Path) -> OwnExperiment:
    """The config of a run that the task fits."""
    if not (folder / CONFIG).is_file():
        raise FolderError(f"{folder}: not a run folder: it has no {CONFIG}")
    experiment = check(OwnExperiment, read_toml(folder / CONFIG), origin=str(folder / CONFIG), written=True)
    _refuse_unfit(own, experiment.training)
    return experiment


def _start(folder: Path, own: OwnTask, experiment: OwnExperiment, *, stack: ExitStack, ranks: int) -> str:
    """Locks the run and records what it is trained with; a DataError if the data has changed since it was started."""
    stack.enter_context(run_lock(folder))
    write_atomically(folder / LENGTHS, json.dumps(length_counts(own.train)) + "\n")
    facts = run_facts(experiment.training, data=_fingerprint(own.train), ranks=ranks, metrics=own.judge.metrics)
    record(folder, {**facts, "seed": experiment.seed}, files={})
    return ""


def _refuse_unfit(own: OwnTask, training: TrainingConfig) -> None:
    missing = [name for name in own.task.reads if name not in own.train]
    if missing:
        raise ConfigError(f"the store has no column {' and '.join(missing)}, which the task reads")
    if training.metric not in ("auto", *own.judge.metrics):
        raise ConfigError(f"training.metric = {training.metric!r} is not one of {', '.join(own.judge.metrics)}")
    refuse_uncomputable(own.model, training)


def _fingerprint(store: Store) -> dict[str, str]:
    """The SHA-256 of every column, so that changed data is noticed when a run is resumed."""
    return {
        f"column {name}": hashlib.sha256(column.values.tobytes() + column.lengths.tobytes()).hexdigest()
        for name, column in store.columns.items()
    }


def _save_weights(path: Path, model: nn.Module, judgement: Judgement) -> None:
    """Writes the weights and the judge's artefacts."""

    def fill(folder: Path) -> None:
        save_file(weights_of(model), folder / WEIGHTS)
        (folder / CONFIG).write_text(to_toml(OwnExperiment()), encoding="utf-8")
        for name, content in judgement.artefacts.items():
            (folder / name).write_bytes(content)

    write_model_folder(path, fill=fill)
