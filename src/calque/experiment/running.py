"""From a config to a trained run: the one place where everything meets."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from calque.config import Values, check, explicit_values, override, read_toml, to_toml, values_to_toml
from calque.data.fingerprint import corpus_files
from calque.data.prepare import Prepared, open_prepared, prepare
from calque.data.store import length_counts
from calque.devices import choose_device, machine
from calque.errors import ConfigError, FolderError, Interrupted, UserError
from calque.experiment.assembly import Assembly
from calque.experiment.building import assembly_of, beginning_model, job_of, refuse_unbuildable
from calque.experiment.settings import Experiment, OwnExperiment, absolute
from calque.folders import MANIFEST
from calque.training.auto_settings import complete_settings
from calque.training.batch_size import Fit, Trial, find_batch_size
from calque.training.distributed import Ranks, joined_ranks
from calque.training.job import Summary
from calque.training.lock import LOCK, run_lock
from calque.training.loop import train as run_loop
from calque.training.plots import LENGTHS, draw_curves
from calque.training.reporting import Reporter
from calque.training.runs import CONFIG, RECORD, STORE, new_run_folder, record, write_atomically
from calque.training.settings import TrainingConfig

LOG = "log.txt"


class Run(NamedTuple):
    """A run that has come to its end."""

    folder: Path
    config: Experiment | OwnExperiment
    summary: Summary


Preparing = Callable[[], AbstractContextManager[Callable[[str, int, int], None] | None]]
"""Opens a display for the time in which the data is prepared: it is told what is done, how much, and of how much."""


def train(
    config: Experiment | Values | Path | str,
    *,
    run: Path | str | None = None,
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    origin: str = "config",
) -> Run:
    """Trains what a config describes (an Experiment, its values, or a TOML file), in a new run folder.

    Settings the config leaves open (batch, steps, validation, early stopping, rates) follow the corpus. `origin` is
    what messages about values that are in no file say they come from.
    """
    match config:
        case Experiment():
            values = explicit_values(config)
        case dict():
            values = config
        case _:
            values = read_toml(Path(config))
    with joined_ranks() as ranks:
        folder = ranks.on_leader(lambda: _begin(config, values, run=run, origin=origin))
        try:
            return _go_on(Path(folder), ranks, quiet=quiet, preparing=preparing)
        except ConfigError as error:
            if ranks.leads and _take_back(Path(folder), begun=True):
                raise ConfigError(f"{error}\n  {_kept(Path(folder))}") from None
            raise
        except UserError:
            if ranks.leads:
                _take_back(Path(folder), begun=False)
            raise


def resume(run: Path | str, *, quiet: bool = False, preparing: Preparing = nullcontext) -> Run:
    """Goes on with a run, from its newest checkpoint or from wherever it was stopped before the first."""
    with joined_ranks() as ranks:
        return _go_on(Path(run), ranks, quiet=quiet, preparing=preparing)


def _begin(config: object, values: Values, *, run: Path | str | None, origin: str) -> str:
    """A new run folder with its config; refuses what cannot become a run."""
    experiment = check(Experiment, values, origin=str(config) if isinstance(config, Path | str) else origin)
    refuse_unbuildable(experiment)
    folder = new_run_folder(None if run is None else Path(run))
    with run_lock(folder):
        if (folder / CONFIG).exists():
            raise FolderError(f"{folder}: another process has just begun a run here")
        write_atomically(folder / CONFIG, values_to_toml(absolute(values, experiment)))
    return str(folder)


def _go_on(folder: Path, ranks: Ranks, *, quiet: bool, preparing: Preparing) -> Run:
    if ranks.on_all(lambda: _is_deterministic(folder)):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # what cuDNN's recurrent layers need; asked for once
    with ExitStack() as held:
        ranks.on_leader(lambda: _lock(folder, held))
        made: list[Prepared] = []
        said = ranks.on_leader(lambda: _prepare_run(folder, ranks, preparing=preparing, made=made))
        experiment, prepared = ranks.on_all(lambda: _prepared(folder, made))
        steps = experiment.training.steps
        log = folder / LOG if ranks.leads else None
        with Reporter(log, steps=steps, quiet=quiet or not ranks.leads) as reporter, arithmetic(experiment.training):
            reporter.say(*said.splitlines())
            job = ranks.on_all(lambda: job_of(experiment, prepared, folder=folder, reporter=reporter, ranks=ranks))
            try:
                summary = run_loop(job)
            except Interrupted:
                if ranks.leads:
                    with suppress(OSError):  # what was saved is what counts
                        draw_curves(folder)
                raise
        if ranks.leads and draw_curves(folder):
            assembly_of(experiment).draw(folder)
        elif ranks.leads and not quiet:
            reporter.say("no plots: matplotlib is not installed (pip install matplotlib)")
    return Run(folder, experiment, summary)


def _is_deterministic(folder: Path) -> bool:
    """Whether the run in a folder must give the same bits each time; refuses what is no run."""
    if not (folder / CONFIG).is_file() or (folder / MANIFEST).exists():
        found = f"it has no {CONFIG}" if not (folder / MANIFEST).exists() else "it is a part of one"
        raise FolderError(f"{folder}: not a run folder: {found}")
    return bool(read_toml(folder / CONFIG).get("training", {}).get("deterministic"))


def _lock(folder: Path, held: ExitStack) -> str:
    held.enter_context(run_lock(folder))
    return ""


def _prepared(folder: Path, made: Sequence[Prepared]) -> tuple[Experiment, Prepared]:
    """The completed config of a run, and its data: the leading rank, which has `made` it, looked at the corpus."""
    experiment = check(Experiment, read_toml(folder / CONFIG), origin=str(folder / CONFIG), written=True)
    return experiment, made[0] if made else open_prepared(_store(experiment, folder))


def _prepare_run(folder: Path, ranks: Ranks, *, preparing: Preparing, made: list[Prepared]) -> str:
    """Prepares the data, which goes into `made`, and completes the config; what there is to say about it."""
    values = read_toml(folder / CONFIG)
    experiment = check(Experiment, values, origin=str(folder / CONFIG), written=True)
    assembly = assembly_of(experiment)
    with preparing() as progress:
        prepared = prepare(
            experiment.data,
            preparation=assembly.preparation,
            folder=_store(experiment, folder),
            progress=progress,
            begun=(folder / RECORD).exists(),
        )
    made.append(prepared)
    fitted: list[str] = []
    if experiment.training.batch.tokens == "auto":
        fit = _fit(experiment, prepared, ranks=ranks.count)
        values = override(values, [f"training.batch.tokens={fit.tokens}"])
        fitted = [f"training.batch.tokens = {fit.tokens} fits this device: {fit.reason}"]
    device = choose_device(experiment.training.device).type
    completed, choices = complete_settings(values, assembly.corpus(prepared), device=device)
    if experiment.training.metric == "auto":
        completed = override(completed, [f"training.metric={assembly.selects(prepared)}"])
    experiment = check(Experiment, completed, origin=str(folder / CONFIG), written=True)
    write_atomically(folder / CONFIG, to_toml(experiment))
    write_atomically(folder / LENGTHS, json.dumps(length_counts(prepared.train)) + "\n")
    training = experiment.training
    facts = {
        "torch": torch.__version__,
        "machine": machine(training.device),
        "data": prepared.fingerprint,
        "ranks": ranks.count,
        "reproducible": training.device == "cpu" or training.deterministic,
        "metrics": {name: list(metric) for name, metric in assembly.metrics.items()},
        **_settings(experiment),
    }
    return "\n".join(
        [*_describe(prepared, assembly), *fitted, *choices, *record(folder, facts, files=corpus_files(experiment.data))]
    )


def _settings(experiment: Experiment) -> Values:
    """What a run depends on beside its data, which has a fingerprint; workers change nothing."""
    values = experiment.model_dump(mode="json", exclude={"data", "text"})
    del values["training"]["batch"]["workers"]
    return values


def _store(experiment: Experiment, folder: Path) -> Path:
    return experiment.data.store or folder / STORE


def _fit(experiment: Experiment, prepared: Prepared, *, ranks: int) -> Fit:
    """The budget of all ranks together."""
    assembly, training = assembly_of(experiment), experiment.training
    model = beginning_model(experiment, prepared, ranks=ranks)
    trial = Trial(model, assembly.task(prepared), prepared.train, training.precision)
    positions = assembly.corpus(prepared).positions
    return find_batch_size(trial, config=training.batch, positions=positions, ranks=ranks)


@contextmanager
def arithmetic(config: TrainingConfig) -> Iterator[None]:
    """Threads, and operations that give the same bits each time, where they are asked for."""
    torch.set_num_threads(config.threads or torch.get_num_threads())
    if not config.deterministic:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _describe(prepared: Prepared, assembly: Assembly) -> list[str]:
    tally = prepared.train_tally
    left = {"empty": tally.empty, "too long": tally.long, "not UTF-8": tally.invalid}
    listed = ", ".join(f"{count:,} {what}" for what, count in left.items() if count)
    unit = assembly.corpus(prepared).unit
    return [
        f"data: {len(prepared.train):,} {unit} to train on, {len(prepared.valid):,} to validate"
        + (f"; left out: {listed}" if listed else ""),
        *assembly.describe(prepared),
        *(f"warning: {warning}" for warning in prepared.warnings),
    ]


def _take_back(folder: Path, *, begun: bool) -> bool:
    """Removes a run that a user's mistake ended before its first step, so that the name can be used again.

    One that has `begun`, with a record and a log, is removed for a config that nothing can be done with. Data that was
    prepared stays, for the config that is mended; whether there is some.
    """
    with suppress(FolderError), run_lock(folder, patience=0):  # it may be another's by now
        names = {path.name for path in folder.iterdir()}
        if names <= {CONFIG, LOCK, STORE, *((LENGTHS, RECORD, LOG) if begun else ())}:
            for name in names - {STORE}:
                (folder / name).unlink()
            if STORE in names:
                return True
            folder.rmdir()
    return False


def _kept(folder: Path) -> str:
    return (
        f"the prepared data is kept in {folder / STORE}: with the config mended, --run {folder} goes on with it; "
        "remove it where data or text settings change"
    )
