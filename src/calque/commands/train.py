"""`calque train`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from calque.commands.inputs import refuse_unreadable
from calque.commands.tag import names_of
from calque.errors import ConfigError

if TYPE_CHECKING:
    from calque.experiment import Run


NEXT = {
    "translation": "translate {run} --input FILE",
    "language-modelling": "generate {run}",
    "tagging": "tag {run} --input FILE",
}
"""The command that uses a model of each task."""


def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. training.steps=500 seed=7")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML config; `calque init` writes one.")] = None,
    source: Annotated[Path | None, typer.Option(help="Source sentences, one per line (plain or .gz).")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Their word alignments (Pharaoh), for guided alignment.")
    ] = None,
    text: Annotated[Path | None, typer.Option(help="Text, for a language model (--system language).")] = None,
    valid_text: Annotated[Path | None, typer.Option(help="Validation text, with --text.")] = None,
    conll: Annotated[Path | None, typer.Option(help="Labelled words, for a tagger: CoNLL-U or columns.")] = None,
    valid_conll: Annotated[Path | None, typer.Option(help="Validation sentences, with --conll.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="With --conll: names of its columns, e.g. form,pos,chunk.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column to predict; by default upos, or the last column.")
    ] = None,
    valid_source: Annotated[
        Path | None, typer.Option(help="Validation sources; by default 1 % is held out (50 to 2,000 pairs).")
    ] = None,
    valid_target: Annotated[Path | None, typer.Option(help="Validation targets.")] = None,
    system: Annotated[str | None, typer.Option(help="A named system; `calque systems` lists them.")] = None,
    scale: Annotated[float | None, typer.Option(help="Scale the system's widths, heads and layers.")] = None,
    run: Annotated[Path | None, typer.Option(help="The run folder; by default the next number in runs/.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume this run; needs no other option.")] = None,
) -> None:
    """Train a model from two aligned text files, from text, from labelled words, or from a config.

    Without a config, all settings are chosen by the size of the corpus, printed, and written to RUN/config.toml.
    Ctrl-C saves and stops (exit code 75); --resume continues exactly from there.

    Examples:

        calque train --source train.de --target train.en --system small

        calque train --source train.de --target train.en --system gnmt2016 --scale 0.25

        calque train --text news.en --run runs/english

        calque train --text train.txt --valid-text valid.txt --system merity2018 text.kind=tokens task.reading=running

        calque train --conll train.conllu --valid-conll dev.conllu --system ma2016 --run runs/upos

        calque train --conll train.txt --columns form,pos,chunk task.inputs='["pos"]'

        calque train --config my.toml --run runs/first training.steps=20000

        calque train --resume runs/first
    """
    files = _CorpusFiles(
        source, target, alignments, valid_source, valid_target, text, valid_text, conll, valid_conll, columns, label
    )
    if resume is not None and any((overrides, config, system, scale, run, *files)):
        raise ConfigError(
            "--resume takes no other setting: a run keeps its settings; to train longer, raise training.steps in its "
            "config.toml"
        )
    if scale is not None and config is not None and system is None:
        raise ConfigError("--scale is for --system: a config has its own sizes")
    files.check()
    corpora = files.corpora()
    is_named = any(override.startswith(("data.train=", "data.store=")) for override in overrides or [])
    if resume is None and config is None and not is_named and "train" not in corpora:
        raise ConfigError("nothing to train on: give --source and --target, or --text, --conll, --config or --resume")
    from calque import experiment
    from calque.commands.progress import preparing

    if resume is not None:
        finished = experiment.resume(resume, preparing=preparing)
    else:
        values = _experiment_values(files, corpora, overrides or [], config=config, system=system, scale=scale)
        finished = experiment.train(values, run=run, preparing=preparing, origin=str(config or "command line"))
    _report(finished)


class _CorpusFiles(NamedTuple):
    """The options that name corpora."""

    source: Path | None
    target: Path | None
    alignments: Path | None
    valid_source: Path | None
    valid_target: Path | None
    text: Path | None
    valid_text: Path | None
    conll: Path | None
    valid_conll: Path | None
    columns: str | None
    label: str | None

    def check(self) -> None:
        """Raises an error for options of different tasks, or for files that cannot be read."""
        if self.text is not None and (self.source or self.target):
            raise ConfigError(
                "--text is for a language model and cannot be combined with --source and --target, which are for "
                "translation"
            )
        if self.conll is not None and (self.source or self.target or self.text):
            raise ConfigError(
                "--conll is for a tagger and cannot be combined with --source, --target or --text, which are for other "
                "tasks"
            )
        corpora = (self.text, self.valid_text, self.conll, self.valid_conll, self.source, self.target)
        refuse_unreadable(*corpora, self.alignments, self.valid_source, self.valid_target)

    def corpora(self) -> dict[str, list[dict[str, Any]]]:
        """The values of the config's data section."""
        train = _pair_corpora(self.source, self.target, role="train", alignments=self.alignments)
        valid = _pair_corpora(self.valid_source, self.valid_target, role="valid")
        text = _text_corpora(self.text, self.valid_text)
        return train | valid | text | _word_corpora(self.conll, self.valid_conll, columns=self.columns)

    @property
    def default_system(self) -> str:
        return "language" if self.text else "huang2015" if self.conll else "tiny"


def _experiment_values(
    files: _CorpusFiles,
    corpora: dict[str, list[dict[str, Any]]],
    overrides: list[str],
    *,
    config: Path | None,
    system: str | None,
    scale: float | None,
) -> dict[str, Any]:
    """The values of the config that is trained, checked against the corpora that were given."""
    from calque import experiment
    from calque.training.distributed import started_ranks

    default = None if config else files.default_system
    values = experiment.experiment_values(
        config=config,
        system=system or default,
        corpora=corpora,
        assignments=[*_label_setting(files.label, conll=files.conll, columns=files.columns), *overrides],
        scale=1.0 if scale is None else scale,
    )
    _refuse_other_corpora(
        values, text=files.text is not None, pairs=files.source is not None, words=files.conll is not None
    )
    if files.alignments is not None:
        _refuse_idle_alignments(values)
    if started_ranks().leads:
        _report_system(system, config=config, default=default)
    return values


def _report(finished: "Run") -> None:
    """Prints a summary to standard error and the run folder to standard output, on the first rank."""
    from calque.training.distributed import started_ranks
    from calque.training.reporting import NOBODY_READS, outliving

    if not started_ranks().leads:
        return
    with outliving(sys.stderr):
        for line in _summary_lines(finished):
            typer.echo(line, err=True)
    with outliving(sys.stdout, errors=NOBODY_READS):
        typer.echo(finished.folder)


def _summary_lines(finished: "Run") -> list[str]:
    """The best score, the files of the run, and the command that uses its model."""
    summary, folder = finished.summary, finished.folder
    ended = "stopped early without improvement" if summary.stopped_early else "done"
    minutes, seconds = divmod(round(summary.seconds), 60)
    best = f": {summary.best.summary}" if summary.best else ""
    lines = [f"{ended}: {summary.step:,} steps, best at step {summary.best_step:,}{best} ({minutes} min {seconds} s)"]
    if summary.skipped:
        lines.append(f"{summary.skipped:,} updates were skipped because they were not finite")
    names = ("model", "plots/training.png", "plots/confusion.png", "samples.txt", "metrics.jsonl")
    lines.append(f"output: {', '.join(f'{folder}/{name}' for name in names if (folder / name).exists())}")
    lines.append(f"next: calque {NEXT[finished.config.task.kind].format(run=folder)}")
    return lines


def _report_system(system: str | None, *, config: Path | None, default: str | None) -> None:
    """Reports the default system if none is named, or a system that replaces the config's model."""
    from calque.config import read_toml

    if system is None and default is not None:
        typer.echo(f"system {default} by default; `calque systems` lists more", err=True)
    if system is not None and config is not None and "model" in read_toml(config):
        typer.echo(f"--system {system} replaces the model of {config}", err=True)


def _refuse_idle_alignments(values: dict[str, Any]) -> None:
    for key in ("training", "objective", "guidance", "weight"):
        values = values.get(key, {}) if isinstance(values, dict) else {}
    if not values:
        raise ConfigError(
            "--alignments has no effect: training.objective.guidance.weight is 0; set it, e.g. "
            "training.objective.guidance.weight=0.1"
        )


def _refuse_other_corpora(values: dict[str, Any], *, text: bool, pairs: bool, words: bool) -> None:
    """Raises a ConfigError if the corpora are not those of the config's task."""
    task = values.get("task", {})
    kind = task.get("kind") if isinstance(task, dict) else None
    is_language_model = kind == "language-modelling"
    if words and kind != "tagging":
        raise ConfigError("--conll is for a tagger (--system huang2015, lample2016 or ma2016); this system reads text")
    if (text or pairs) and kind == "tagging":
        raise ConfigError("a tagger reads words and labels: give --conll instead of --source, --target or --text")
    if text and not is_language_model:
        raise ConfigError("--text is for a language model (--system language); this system translates: give --source")
    if pairs and is_language_model:
        raise ConfigError("--source: a language model reads no source; give --text, or a --system that translates")


def _text_corpora(text: Path | None, valid: Path | None) -> dict[str, list[dict[str, Any]]]:
    if valid is not None and text is None:
        raise ConfigError("--valid-text needs --text")
    paths = {"train": text, "valid": valid}
    return {role: [{"kind": "text", "path": str(path)}] for role, path in paths.items() if path is not None}


def _word_corpora(train: Path | None, valid: Path | None, *, columns: str | None) -> dict[str, list[dict[str, Any]]]:
    if train is None and (valid is not None or columns is not None):
        raise ConfigError(f"{'--columns' if valid is None else '--valid-conll'} needs --conll")
    paths = {"train": train, "valid": valid}
    return {role: [_word_corpus(path, columns)] for role, path in paths.items() if path is not None}


def _word_corpus(path: Path, columns: str | None) -> dict[str, Any]:
    if is_conllu(path):
        return {"kind": "conllu", "path": str(path)}
    names = {} if columns is None else {"columns": list(names_of(columns))}
    return {"kind": "columns", "path": str(path), **names}


def _label_setting(label: str | None, *, conll: Path | None, columns: str | None) -> list[str]:
    """The setting of the predicted column, if the options determine it."""
    if label is not None:
        return [f"task.labels={json.dumps(label)}"]
    if conll is None or is_conllu(conll):
        return []
    return [f"task.labels={json.dumps(names_of(columns)[-1] if columns else 'label')}"]


def is_conllu(path: Path) -> bool:
    """Whether a file is CoNLL-U by its name."""
    return path.name.removesuffix(".gz").endswith((".conllu", ".conllup"))


def _pair_corpora(
    source: Path | None, target: Path | None, *, role: str, alignments: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    if (source is None) != (target is None):
        flags = "--source and --target" if role == "train" else "--valid-source and --valid-target"
        raise ConfigError(f"{flags} go together: one of them is missing")
    if source is None:
        if alignments is not None:
            raise ConfigError("--alignments needs --source and --target; a config names its own alignments")
        return {}
    links = {} if alignments is None else {"alignments": str(alignments)}
    return {role: [{"kind": "files", "source": str(source), "target": str(target), **links}]}
