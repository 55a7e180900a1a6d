"""`calque train`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
"""What a model of each task is used with."""


def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. training.steps=500 seed=7")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML config; `calque init` writes one.")] = None,
    source: Annotated[Path | None, typer.Option(help="Source sentences, one a line (plain or .gz).")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    alignments: Annotated[Path | None, typer.Option(help="Links of their words (Pharaoh), for guidance.")] = None,
    text: Annotated[Path | None, typer.Option(help="Text alone, for a language model (--system language).")] = None,
    valid_text: Annotated[Path | None, typer.Option(help="Validation text, with --text.")] = None,
    conll: Annotated[Path | None, typer.Option(help="Labelled words, for a tagger: CoNLL-U or columns.")] = None,
    valid_conll: Annotated[Path | None, typer.Option(help="Validation sentences, with --conll.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of its columns, e.g. form,pos,chunk.")] = None,
    label: Annotated[str | None, typer.Option(help="The column that is predicted; else upos, or the last.")] = None,
    valid_source: Annotated[
        Path | None, typer.Option(help="Validation sources; else 1 % is held out (50 to 2,000 pairs).")
    ] = None,
    valid_target: Annotated[Path | None, typer.Option(help="Validation targets.")] = None,
    system: Annotated[str | None, typer.Option(help="A named model; `calque systems` lists them.")] = None,
    scale: Annotated[float | None, typer.Option(help="Make the system's widths, heads and layers smaller.")] = None,
    run: Annotated[Path | None, typer.Option(help="The run folder; else the next number in runs/.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run; needs nothing else.")] = None,
) -> None:
    """Train a model from two aligned text files, from text, from labelled words, or from a config.

    Without a config every setting follows the corpus; what was chosen is printed and written to RUN/config.toml.
    Ctrl-C saves and stops (exit code 75); --resume goes on exactly where it was.

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
    given = (
        overrides,
        config,
        source,
        target,
        alignments,
        text,
        valid_text,
        conll,
        valid_conll,
        columns,
        label,
        valid_source,
        valid_target,
        system,
        scale,
        run,
    )
    if resume is not None and any(given):
        raise ConfigError(
            "--resume takes no other setting: a run goes on as it was begun; to train longer, raise "
            "training.steps in its config.toml"
        )
    if scale is not None and config is not None and system is None:
        raise ConfigError("--scale is for --system: a config says its own sizes")
    if text is not None and (source or target):
        raise ConfigError("--text is for a language model, and stands alone; --source and --target are for translation")
    if conll is not None and (source or target or text):
        raise ConfigError("--conll is for a tagger, and stands alone; --source and --target are for translation")
    refuse_unreadable(text, valid_text, conll, valid_conll, source, target, alignments, valid_source, valid_target)
    corpora = _corpora(source, target, role="train", alignments=alignments)
    corpora |= _corpora(valid_source, valid_target, role="valid") | _text_corpora(text, valid_text)
    corpora |= _word_corpora(conll, valid_conll, columns=columns)
    is_named = any(each.startswith(("data.train=", "data.store=")) for each in overrides or [])
    if resume is None and config is None and not is_named and "train" not in corpora:
        raise ConfigError("nothing to train on: give --source and --target, or --text, --conll, --config or --resume")
    from calque import experiment
    from calque.commands.progress import preparing
    from calque.training.distributed import started_ranks
    from calque.training.reporting import CLOSED, ignore_write_errors

    if resume is not None:
        done = experiment.resume(resume, preparing=preparing)
    else:
        default = None if config else "language" if text else "huang2015" if conll else "tiny"
        assignments = [*_predicted(label, conll=conll, columns=columns), *(overrides or [])]
        values = experiment.experiment_values(
            config=config,
            system=system or default,
            corpora=corpora,
            assignments=assignments,
            scale=1.0 if scale is None else scale,
        )
        _refuse_other_corpora(values, text=text is not None, pairs=source is not None, words=conll is not None)
        if alignments is not None:
            _refuse_idle_alignments(values)
        if started_ranks().leads:
            _tell_system(system, config=config, default=default)
        done = experiment.train(values, run=run, preparing=preparing, origin=str(config or "command line"))
    if not started_ranks().leads:
        return
    with ignore_write_errors(sys.stderr):
        for line in _told(done):
            typer.echo(line, err=True)
    with ignore_write_errors(sys.stdout, errors=CLOSED):
        typer.echo(done.folder)


def _told(done: "Run") -> list[str]:
    """What a person wants to know in the end."""
    summary, folder = done.summary, done.folder
    ended = "stopped early, nothing got better" if summary.stopped_early else "done"
    minutes, seconds = divmod(round(summary.seconds), 60)
    best = f": {summary.best.summary}" if summary.best else ""
    lines = [f"{ended}: {summary.step:,} steps, best at step {summary.best_step:,}{best} ({minutes} min {seconds} s)"]
    if summary.skipped:
        lines.append(f"{summary.skipped:,} updates were left out, as they were not finite")
    made = [
        name
        for name in ("model", "plots/training.png", "plots/confusion.png", "samples.txt", "metrics.jsonl")
        if (folder / name).exists()
    ]
    lines.append(f"made: {', '.join(f'{folder}/{name}' for name in made)}")
    lines.append(f"next: calque {NEXT[done.config.task.kind].format(run=folder)}")
    return lines


def _tell_system(system: str | None, *, config: Path | None, default: str | None) -> None:
    """Says which model is trained where nobody named one, or where two were."""
    from calque.config import read_toml

    if system is None and default is not None:
        typer.echo(f"system {default}, as none was named; `calque systems` lists more", err=True)
    if system is not None and config is not None and "model" in read_toml(config):
        typer.echo(f"--system {system} stands in place of the model that {config} describes", err=True)


def _refuse_idle_alignments(values: dict[str, Any]) -> None:
    for key in ("training", "objective", "guidance", "weight"):
        values = values.get(key, {}) if isinstance(values, dict) else {}
    if not values:
        raise ConfigError(
            "--alignments: training.objective.guidance.weight is 0, so they would guide nothing; set it, e.g. "
            "training.objective.guidance.weight=0.1"
        )


def _refuse_other_corpora(values: dict[str, Any], *, text: bool, pairs: bool, words: bool) -> None:
    """Raises a ConfigError where a language model is given a source, another model text alone, or words and labels."""
    task = values.get("task", {})
    kind = task.get("kind") if isinstance(task, dict) else None
    is_language_model = kind == "language-modelling"
    if words and kind != "tagging":
        raise ConfigError("--conll is for a tagger (--system huang2015, lample2016 or ma2016); this one reads text")
    if (text or pairs) and kind == "tagging":
        raise ConfigError("a tagger reads words and labels: give --conll instead of --source, --target or --text")
    if text and not is_language_model:
        raise ConfigError("--text is for a language model (--system language); this one reads a source: give --source")
    if pairs and is_language_model:
        raise ConfigError("--source: a language model reads none; give --text, or a --system that translates")


def _text_corpora(text: Path | None, valid: Path | None) -> dict[str, list[dict[str, Any]]]:
    if valid is not None and text is None:
        raise ConfigError("--valid-text goes with --text")
    paths = {"train": text, "valid": valid}
    return {role: [{"kind": "text", "path": str(path)}] for role, path in paths.items() if path is not None}


def _word_corpora(train: Path | None, valid: Path | None, *, columns: str | None) -> dict[str, list[dict[str, Any]]]:
    if train is None and (valid is not None or columns is not None):
        raise ConfigError(f"{'--columns' if valid is None else '--valid-conll'} goes with --conll")
    paths = {"train": train, "valid": valid}
    return {role: [_word_corpus(path, columns)] for role, path in paths.items() if path is not None}


def _word_corpus(path: Path, columns: str | None) -> dict[str, Any]:
    if is_conllu(path):
        return {"kind": "conllu", "path": str(path)}
    names = {} if columns is None else {"columns": list(names_of(columns))}
    return {"kind": "columns", "path": str(path), **names}


def _predicted(label: str | None, *, conll: Path | None, columns: str | None) -> list[str]:
    """The assignment that says which column is predicted."""
    if label is not None:
        return [f"task.labels={json.dumps(label)}"]
    if conll is None or is_conllu(conll):
        return []
    return [f"task.labels={json.dumps(names_of(columns)[-1] if columns else 'label')}"]


def is_conllu(path: Path) -> bool:
    """Whether a file's name says that it is CoNLL-U."""
    return path.name.removesuffix(".gz").endswith((".conllu", ".conllup"))


def _corpora(
    source: Path | None, target: Path | None, *, role: str, alignments: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    if (source is None) != (target is None):
        flags = "--source and --target" if role == "train" else "--valid-source and --valid-target"
        raise ConfigError(f"{flags} go together: one of them is missing")
    if source is None:
        if alignments is not None:
            raise ConfigError("--alignments goes with --source and --target; a config names its own")
        return {}
    links = {} if alignments is None else {"alignments": str(alignments)}
    return {role: [{"kind": "files", "source": str(source), "target": str(target), **links}]}
