"""Training an experiment: from a config to a finished run."""

import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from calque.config import Values, check, explicit_values, override, read_toml, to_toml, values_to_toml
from calque.data.fingerprint import corpus_files
from calque.data.prepare import Prepared, open_prepared, prepare
from calque.data.store import length_counts
from calque.devices import choose_device, machine
from calque.engine.folder import has_int8_weights
from calque.errors import ConfigError, FolderError, Interrupted, UserError, shell_path
from calque.experiment.assembly import Assembly, refuse_unknown_metrics
from calque.experiment.building import assembly_of, build_job, initial_model, refuse_unbuildable
from calque.experiment.changes import change_settings
from calque.experiment.estimation import (
    Estimation,
    complete_estimation,
    refuse_ranks,
    refuse_unused_training,
    run_estimation,
)
from calque.experiment.settings import Experiment, OwnExperiment, absolute
from calque.experiment.text_choice import choose_text
from calque.folders import MANIFEST
from calque.folders.upgrades import EARLIER_METRIC, upgrade_training
from calque.inspection.pictures_gradients import draw_recorded_gradients
from calque.tasks.interfaces import Metric
from calque.training.auto_settings import complete_settings
from calque.training.batch_size import Fit, Trial, find_batch_size
from calque.training.distributed import Ranks, joined_ranks
from calque.training.job import Job, Summary
from calque.training.lock import LOCK, run_lock
from calque.training.loop import train as run_loop
from calque.training.observers import TrainingObserver
from calque.training.plots import LENGTHS, draw_curves
from calque.training.reporting import Reporter
from calque.training.runs import (
    CONFIG,
    ESTIMATED,
    RECORD,
    STORE,
    new_run_folder,
    record,
    write_atomically,
    write_config,
)
from calque.training.settings import TrainingConfig

LOG = "log.txt"


class Run(NamedTuple):
    """A finished run.

    >>> run = calque.train("config.toml")
    >>> run.folder, run.summary.best_step, run.summary.best_value
    (PosixPath('runs/1'), 4500, 38.2)
    """

    folder: Path
    config: Experiment | OwnExperiment
    summary: Summary


Preparing = Callable[[], AbstractContextManager[Callable[[str, int, int], None] | None]]
"""Opens a progress display for data preparation; yields a function of a label, the amount done and the total."""


def train(
    config: Experiment | Values | Path | str,
    *,
    run: Path | str | None = None,
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    origin: str = "config",
    observer: TrainingObserver | None = None,
) -> Run:
    """Trains what a config describes (an Experiment, its values, or a TOML file), in a new run folder.

    Settings that the config leaves open (batch size, steps, learning rate, patience etc.) are chosen to fit the corpus.
    So are the text settings if the config has no text section.

    `observer` is called with the gradients of every update. If the values do not come from a file, messages use
    `origin` to say where they come from.
    """
    match config:
        case Experiment():
            values = explicit_values(config)
        case dict():
            values = config
        case _:
            values = read_toml(Path(config))
    with joined_ranks() as ranks:
        notes: list[str] = []
        folder = ranks.on_leader(lambda: _start(config, values, run=run, origin=origin, notes=notes))
        try:
            return _continue(Path(folder), ranks, quiet=quiet, preparing=preparing, observer=observer, notes=notes)
        except ConfigError as error:
            if ranks.leads and _discard(Path(folder), has_record=True):
                raise ConfigError(f"{error}\n  {_reuse_hint(Path(folder))}") from None
            raise
        except UserError:
            if ranks.leads:
                _discard(Path(folder), has_record=False)
            raise


def resume(
    run: Path | str,
    *,
    settings: Sequence[str] = (),
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    observer: TrainingObserver | None = None,
) -> Run:
    """Continues a run from its newest checkpoint, or from the beginning if it has none.

    First, the `settings` are changed; each is written as `KEY=VALUE`.
    """
    with joined_ranks() as ranks:
        if settings:
            ranks.on_leader(lambda: _change(Path(run), settings))
        return _continue(Path(run), ranks, quiet=quiet, preparing=preparing, observer=observer)


def _start(config: object, values: Values, *, run: Path | str | None, origin: str, notes: list[str]) -> str:
    """Creates a run folder with its config, after checking that the experiment can be built.

    If text settings are chosen automatically, a message about them is appended to `notes`.
    """
    values, message = choose_text(values)
    notes += [message] if message else []
    experiment = check(Experiment, values, origin=str(config) if isinstance(config, Path | str) else origin)
    refuse_unbuildable(experiment)
    if assembly_of(experiment).estimator() is not None:
        refuse_unused_training(values, experiment.training)
    written = values_to_toml(absolute(values, experiment))  # an error here must not leave a folder behind
    folder = new_run_folder(None if run is None else Path(run))
    write_config(folder, written)
    return str(folder)


def _continue(
    folder: Path,
    ranks: Ranks,
    *,
    quiet: bool,
    preparing: Preparing,
    observer: TrainingObserver | None,
    notes: Sequence[str] = (),
) -> Run:
    if ranks.on_all(lambda: _is_deterministic(folder)):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # for cuDNN's recurrent layers; read once
    with ExitStack() as stack:
        ranks.on_leader(lambda: _lock(folder, stack))
        leaders_data: list[Prepared] = []
        messages = ranks.on_leader(lambda: _prepare_run(folder, ranks, preparing=preparing, prepared=leaders_data))
        experiment, prepared = ranks.on_all(lambda: _open_run(folder, leaders_data))
        steps = experiment.training.steps
        log = folder / LOG if ranks.leads else None
        with Reporter(log, steps=steps, quiet=quiet or not ranks.leads) as reporter, arithmetic(experiment.training):
            reporter.say(*notes, *messages.splitlines())
            assembly = assembly_of(experiment)
            if (estimator := assembly.estimator()) is not None:
                summary = run_estimation(
                    Estimation(assembly, estimator, prepared, experiment.training, folder, reporter)
                )
            else:
                job = ranks.on_all(
                    lambda: build_job(experiment, prepared, folder=folder, reporter=reporter, ranks=ranks)
                )
                summary = run_job(job._replace(observer=observer))
        if ranks.leads and draw_curves(folder):
            assembly.draw(folder)
            draw_recorded_gradients(folder)
        elif ranks.leads and not quiet:
            reporter.say("nothing was plotted, because matplotlib is not installed (pip install matplotlib)")
    return Run(folder, experiment, summary)


def run_job(job: Job) -> Summary:
    """Runs the training loop; if it is interrupted, the curves are still drawn."""
    try:
        return run_loop(job)
    except Interrupted:
        if job.ranks.leads:
            with suppress(OSError):  # the checkpoint is saved, so the plots do not matter
                draw_curves(job.folder)
                draw_recorded_gradients(job.folder)
        raise


def _is_deterministic(folder: Path) -> bool:
    """Whether a run sets training.deterministic; raises a FolderError if the folder is not a run folder."""
    _refuse_other_folder(folder)
    return bool(read_toml(folder / CONFIG).get("training", {}).get("deterministic"))


def _change(folder: Path, settings: Sequence[str]) -> str:
    _refuse_other_folder(folder)
    change_settings(folder, settings, of=Experiment, refuse_unbuildable=refuse_unbuildable)
    return ""


def _refuse_other_folder(folder: Path) -> None:
    """Raises a FolderError if a folder is not a run folder."""
    if not (folder / CONFIG).is_file() or (folder / MANIFEST).exists():
        if not folder.exists():
            names = [path.name for path in folder.absolute().parent.glob("*") if (path / CONFIG).is_file()]
            close = difflib.get_close_matches(folder.name, names, n=1, cutoff=0.6)
            hint = f"; did you mean {shell_path(folder.with_name(close[0]))}?" if close else ""
            raise FolderError(f"{folder}: no such folder{hint}")
        if has_int8_weights(folder):
            raise FolderError(
                f"{folder} is a model with 8-bit weights, which cannot be trained further; resume the run "
                "that it was made from"
            )
        reason = "it is a model, a checkpoint or a store" if (folder / MANIFEST).exists() else f"it has no {CONFIG}"
        raise FolderError(f"{folder} is not a run folder: {reason}")


def _lock(folder: Path, stack: ExitStack) -> str:
    stack.enter_context(run_lock(folder))
    return ""


def _open_run(folder: Path, prepared: Sequence[Prepared]) -> tuple[Experiment, Prepared]:
    """The config of a run, with all automatic settings determined, and its prepared data.

    `prepared` holds the data on the leading rank, which prepared it; all other ranks open the data from disk.
    """
    experiment = check(Experiment, read_toml(folder / CONFIG), origin=str(folder / CONFIG), written=True)
    return experiment, prepared[0] if prepared else open_prepared(_store(experiment, folder))


def _prepare_run(folder: Path, ranks: Ranks, *, preparing: Preparing, prepared: list[Prepared]) -> str:
    """Prepares the data, appends it to `prepared`, and determines the config's automatic settings.

    Returns lines for the log.
    """
    values, begun = read_toml(folder / CONFIG), (folder / RECORD).exists()
    if begun:
        values = upgrade_training(values)
    experiment = check(Experiment, values, origin=str(folder / CONFIG), written=True)
    assembly = assembly_of(experiment)
    with preparing() as progress:
        data = prepare(
            experiment.data,
            preparation=assembly.preparation,
            folder=_store(experiment, folder),
            progress=progress,
            begun=begun,
        )
    prepared.append(data)
    fitted: list[str] = []
    if experiment.training.batch.tokens == "auto":
        fit = _fit(experiment, data, ranks=ranks.count)
        values = override(values, [f"training.batch.tokens={fit.tokens}"])
        fitted = [f"training.batch.tokens = {fit.tokens} fits this device: {fit.reason}"]
    if assembly.estimator() is not None:
        refuse_ranks(ranks)
        completed, choices = complete_estimation(values), list[str]()
    else:
        device = choose_device(experiment.training.device).type
        completed, choices = complete_settings(values, assembly.corpus(data), device=device)
    selection, reasons = _selection(values, experiment.training, assembly=assembly, data=data, begun=begun)
    completed = override(completed, selection)
    experiment = check(Experiment, completed, origin=str(folder / CONFIG), written=True)
    write_atomically(folder / CONFIG, to_toml(experiment))
    write_atomically(folder / LENGTHS, json.dumps(length_counts(data.train)) + "\n")
    facts = {
        "torch": torch.__version__,
        **run_facts(experiment.training, data=data.fingerprint, ranks=ranks.count, metrics=assembly.metrics),
        **_settings(experiment),
        **({ESTIMATED: True} if assembly.estimator() is not None else {}),
    }
    return "\n".join(
        [
            *_describe(data, assembly),
            *fitted,
            *choices,
            *reasons,
            *record(folder, facts, files=corpus_files(experiment.data)),
        ]
    )


def _selection(
    values: Values, training: TrainingConfig, *, assembly: Assembly, data: Prepared, begun: bool
) -> tuple[list[str], list[str]]:
    """The metric and the tie-breaker as settings `KEY=VALUE`, and a message if the metric is unusual for the task.

    A metric or tie-breaker set to "auto" is chosen here. A run that an earlier version of Calque started keeps the
    metric and the tie-breaker of that version.
    """
    refuse_unknown_metrics(training, metrics=assembly.metrics)
    given, metric, reason = values.get("training", {}), training.metric, ""
    if metric == "auto":
        is_earlier = begun and "metric" not in given and EARLIER_METRIC in assembly.metrics
        metric, reason = (EARLIER_METRIC, "") if is_earlier else assembly.selects(data)
    tie_breaker = training.tie_breaker
    if tie_breaker == "auto":
        is_earlier = begun and "tie_breaker" not in given
        tie_breaker = "loss" if is_earlier else assembly.metrics[metric].tie_breaker
    assignments = [f"training.metric={metric}", f"training.tie_breaker={tie_breaker}"]
    return assignments, [f"training.metric = {metric}, with ties broken by {tie_breaker}: {reason}"] if reason else []


def run_facts(training: TrainingConfig, *, data: Values, ranks: int, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """The facts about a run that run.json records."""
    return {
        "machine": machine(training.device),
        "data": data,
        "ranks": ranks,
        "reproducible": training.device == "cpu" or training.deterministic,
        "metrics": {name: [metric.better, metric.chance] for name, metric in metrics.items()},
    }


def _settings(experiment: Experiment) -> Values:
    """The settings that run.json records: all but the workers, and data and text, which its data fingerprint covers."""
    values = experiment.model_dump(mode="json", exclude={"data", "text"})
    del values["training"]["batch"]["workers"]
    return values


def _store(experiment: Experiment, folder: Path) -> Path:
    return experiment.data.store or folder / STORE


def _fit(experiment: Experiment, prepared: Prepared, *, ranks: int) -> Fit:
    """The largest batch that fits into memory, as the total over all ranks."""
    assembly, training = assembly_of(experiment), experiment.training
    model = initial_model(experiment, prepared, ranks=ranks)
    trial = Trial(model, assembly.task(prepared), prepared.train, training.precision)
    positions = assembly.corpus(prepared).positions
    return find_batch_size(trial, config=training.batch, positions=positions, ranks=ranks)


@contextmanager
def arithmetic(config: TrainingConfig) -> Iterator[None]:
    """A context that sets the number of threads and, if configured, makes operations deterministic."""
    torch.set_num_threads(config.threads or torch.get_num_threads())
    if not config.deterministic:
        yield
        return
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic)


def _describe(prepared: Prepared, assembly: Assembly) -> list[str]:
    return [
        prepared.summary(unit=assembly.preparation.unit),
        *assembly.describe(prepared),
        *(f"warning: {warning}" for warning in prepared.warnings),
    ]


def _discard(folder: Path, *, has_record: bool) -> bool:
    """Removes a run that a user's mistake ended before its first step, so that its name can be used again.

    With `has_record`, it is removed even if it already has a run.json and a log. Prepared data is kept for a corrected
    config. Returns whether there is prepared data.
    """
    with suppress(FolderError), run_lock(folder, patience=0):  # another process may have locked it by now
        names = {path.name for path in folder.iterdir()}
        if names <= {CONFIG, LOCK, STORE, *((LENGTHS, RECORD, LOG) if has_record else ())}:
            for name in names - {STORE}:
                (folder / name).unlink()
            if STORE in names:
                return True
            folder.rmdir()
    return False


def _reuse_hint(folder: Path) -> str:
    return (
        f"the prepared data is kept in {folder / STORE}; to reuse it with a corrected config, give --run "
        f"{shell_path(folder)}, or remove it if data or text settings change"
    )
