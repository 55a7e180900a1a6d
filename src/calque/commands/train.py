"""The command `calque train`, which trains a model or resumes a run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.corpus_files import CorpusFiles, HeldOutFiles
from calque.commands.corpus_kinds import Corpora, task_kind
from calque.commands.corpus_options import corpus_options
from calque.commands.options import (
    MODEL,
    RUN,
    factor_option,
    file_option,
    folder_option,
    settings_argument,
    system_option,
)
from calque.commands.table_options import Paths, files_option
from calque.errors import ConfigError, shell_path

if TYPE_CHECKING:
    from calque.experiment import Run


NEXT = {
    "translation": "translate {run} --input FILE",
    "language-modelling": "generate {run}",
    "tagging": "tag {run} --input FILE",
    "embedding": "embed {run} --input FILE --output vectors.npy",
    "recommendation": "recommend {run} --input FILE",
    "recognition": "transcribe {run} FILES",
    "captioning": "caption {run} IMAGE",
}
"""The command that uses a model of each task."""


@corpus_options
def train(
    files: CorpusFiles,
    overrides: Annotated[list[str] | None, settings_argument(help="Settings, e.g. training.steps=500 seed=7")] = None,
    alignments: Annotated[
        Paths, files_option(help="Word alignments of the pairs (Pharaoh format), for guided alignment.")
    ] = None,
    *,
    valid: HeldOutFiles,
    config: Annotated[Path | None, file_option(help="A TOML config; `calque init` writes one.", panel=MODEL)] = None,
    system: Annotated[
        str | None, system_option(help="The system to train; `calque systems` lists all.", panel=MODEL)
    ] = None,
    scale: Annotated[
        float | None, factor_option(help="Scale the system's widths, heads and layers.", panel=MODEL)
    ] = None,
    run: Annotated[
        Path | None, folder_option(help="The run folder to create; by default the next number in runs/.", panel=RUN)
    ] = None,
    watch_gradients: Annotated[
        bool,
        typer.Option(
            "--watch-gradients",
            help="Record gradient flow at each validation; short for training.watch_gradients=1.",
            rich_help_panel=RUN,
        ),
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            rich_help_panel=RUN,
            help="Resume this run; KEY=VALUE changes a setting, e.g. training.steps=20000.",
        ),
    ] = None,
) -> None:
    """Train a model on sentence pairs, text, labelled words, user histories, recordings or images, or as a config says.

    Without a config, all settings are chosen to suit the size of the corpus, printed, and written to RUN/config.toml.
    Ctrl-C saves and stops (exit code 75), and --resume continues exactly from there. Settings that the saved state
    depends on cannot be changed when resuming; an attempt to change one lists the settings that can be changed.

    Examples:

        calque train --source train.de --target train.en --system small

        calque train --source train.de --target train.en --system gnmt2016 --scale 0.25

        calque train --source a.de --target a.en --source b.de.xz --target b.en.xz

        calque train --tsv pairs.tsv --source-column 2 --target-column 1

        calque train --csv pairs.csv --valid-csv dev.csv --source-column German --target-column English

        calque train --text news.en --run runs/english

        calque train --text train.txt --valid-text valid.txt --system merity2018 text.kind=tokens task.reading=running

        calque train --conll train.conllu --valid-conll dev.conllu --system ma2016 --run runs/upos

        calque train --conll train.txt --columns form,pos,chunk task.inputs=pos

        calque train --sequences users.txt --system kang2018 --run runs/beauty

        calque train --audio train.jsonl --valid-audio dev.jsonl --system speech task.rate=8000 text.kind=words

        calque train --images train.jsonl --valid-images valid.jsonl --system xu2015 --run runs/captions

        calque train --config my.toml --run runs/first training.steps=20000

        calque train --source train.de --target train.en --system gnmt2016 --scale 0.25 --watch-gradients

        calque train --resume runs/first

        calque train --resume runs/first training.steps=40000 training.patience=0
    """
    overrides = [*(["training.watch_gradients=1"] if watch_gradients else []), *(overrides or [])]
    files = files._replace(alignments=alignments, valid=valid)
    if resume is not None and any((config, system, scale, run, *files)):
        raise ConfigError(
            "--resume cannot be combined with other options: a run keeps its corpora, its system and its folder; only "
            "settings can be changed, as KEY=VALUE, e.g. training.steps=20000"
        )
    if scale is not None and config is not None and system is None:
        raise ConfigError(
            "--scale needs --system: it scales the sizes of a named system, but not those in a config; give --system "
            "too, or change the sizes in the config"
        )
    files.check()
    corpora = files.corpora()
    _refuse_file_names(overrides)
    is_named = any(override.startswith(("data.train=", "data.store=")) for override in overrides)
    if resume is None and config is None and not is_named and "train" not in corpora:
        raise ConfigError(
            "nothing to train on: give both --source and --target, or one of --tsv, --csv, --jsonl, --text, --conll, "
            "--sequences, --audio, --images, --config, --resume"
        )
    from calque import experiment
    from calque.commands.progress import preparing

    if resume is not None:
        finished = experiment.resume(resume, settings=overrides, preparing=preparing)
    else:
        values = _experiment_values(files, corpora, overrides, config=config, system=system, scale=scale)
        finished = experiment.train(values, run=run, preparing=preparing, origin=str(config or "command line"))
    _report(finished)


def _refuse_file_names(overrides: list[str]) -> None:
    """Raises a ConfigError if file names are given where settings (KEY=VALUE) are expected."""
    names = [override for override in overrides if "=" not in override and Path(override).exists()]
    if len(names) == 2:
        options = " ".join(
            f"--{side} {shell_path(name)}" for side, name in zip(("source", "target"), names, strict=True)
        )
        raise ConfigError(f"{' and '.join(names)}: files must be named by options; write {options}")
    if names:
        raise ConfigError(
            f"{', '.join(names)}: files must be named by options, e.g. --source, --target, --text or --config"
        )


def _experiment_values(
    files: CorpusFiles,
    corpora: Corpora,
    overrides: list[str],
    *,
    config: Path | None,
    system: str | None,
    scale: float | None,
) -> dict[str, Any]:
    """The config values of the experiment to train, checked against the corpora that were given."""
    from calque import experiment
    from calque.training.distributed import started_ranks

    default = None if config else files.default_system
    values = experiment.experiment_values(
        config=config,
        system=system or default,
        corpora=corpora,
        assignments=[*files.settings, *overrides],
        scale=1.0 if scale is None else scale,
    )
    files.refuse_other_task(values)
    if files.alignments:
        _refuse_idle_alignments(values)
    if started_ranks().leads:
        _report_system(system, config=config, default=default)
    return values


def _report(finished: "Run") -> None:
    """Prints a summary to standard error and the run folder to standard output; if distributed, only on rank 0."""
    from calque.training.distributed import started_ranks
    from calque.training.write_errors import CLOSED, ignore_write_errors

    if not started_ranks().leads:
        return
    with ignore_write_errors(sys.stderr):
        for line in _summary_lines(finished):
            typer.echo(line, err=True)
    with ignore_write_errors(sys.stdout, errors=CLOSED):
        typer.echo(finished.folder)


def _summary_lines(finished: "Run") -> list[str]:
    """Lines that state the best score, the files of the run, and the command that uses its model."""
    from calque.experiment import Experiment, assembly_of

    assert isinstance(finished.config, Experiment)
    summary, folder = finished.summary, finished.folder
    ended = "stopped early without improvement" if summary.stopped_early else "done"
    minutes, seconds = divmod(round(summary.seconds), 60)
    best = f": {summary.best.summary}" if summary.best else ""
    steps = f"{summary.step:,} steps, best at step {summary.best_step:,}"
    if assembly_of(finished.config).estimator() is not None:
        steps = "model estimated from the counts of the corpus"
    lines = [f"{ended}: {steps}{best} ({minutes} min {seconds} s)"]
    if summary.skipped:
        lines.append(f"{summary.skipped:,} updates were skipped because their loss or gradient was not finite")
    names = (
        "model",
        "plots/training.png",
        "plots/confusion.png",
        "plots/gradients.png",
        "samples.txt",
        "metrics.jsonl",
    )
    lines.append(f"output: {', '.join(f'{folder}/{name}' for name in names if (folder / name).exists())}")
    lines.append(f"next: calque {NEXT[finished.config.task.kind].format(run=shell_path(folder))}")
    return lines


def _report_system(system: str | None, *, config: Path | None, default: str | None) -> None:
    """Prints which system is the default if none is named, or that --system replaces the config's model."""
    from calque.config import read_toml

    if system is None and default is not None:
        typer.echo(f"system {default} by default; `calque systems` lists more", err=True)
    if system is not None and config is not None and "model" in read_toml(config):
        typer.echo(f"--system {system} replaces the model of {config}", err=True)


def _refuse_idle_alignments(values: dict[str, Any]) -> None:
    """Raises a ConfigError if --alignments has no effect on this system or with these training settings."""
    if task_kind(values) != "translation" or values.get("model", {}).get("kind") == "phrase-based":
        raise ConfigError(
            "--alignments has no effect on this system: it guides the attention of neural translation models, but a "
            "statistical model aligns the words itself; leave it out"
        )
    for key in ("training", "objective", "guidance", "weight"):
        values = values.get(key, {}) if isinstance(values, dict) else {}
    if not values:
        raise ConfigError(
            "--alignments has no effect: training.objective.guidance.weight is 0; set it, e.g. "
            "training.objective.guidance.weight=0.1"
        )
