"""The command `calque init`, which writes a config."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from calque.commands.corpus_files import CorpusFiles
from calque.commands.corpus_kinds import PLACEHOLDERS, Corpora, task_kind
from calque.commands.corpus_options import corpus_options
from calque.commands.options import (
    factor_option,
    settings_argument,
    system_option,
)
from calque.errors import ConfigError, FolderError, shell_path

HEADER = """\
# A Calque config; train with: calque train --config FILE
# Settings that depend on the corpus (steps, batch, rates) are commented out with their defaults; uncomment to set them.

"""


@corpus_options
def init(
    files: CorpusFiles,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("calque.toml"),
    overrides: Annotated[list[str] | None, settings_argument(help="Settings to write to the config.")] = None,
    system: Annotated[
        str | None, system_option(help="The system to start from, by default tiny; `calque systems` lists all.")
    ] = None,
    scale: Annotated[float, factor_option(help="Scale the system's widths, heads and layers.")] = 1.0,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON schema of configs, for editors, instead of writing a config."),
    ] = False,
) -> None:
    """Write a complete config with every setting explained.

    Some components come in several kinds, and the config lists the settings of only one. To choose another kind, give
    KEY=VALUE with a KEY that ends in `.kind`.

    Examples:

        calque init my.toml --system small --source train.de --target train.en

        calque init my.toml --csv pairs.csv --source-column German --target-column English

        calque init my.toml --text train.txt --system merity2018

        calque init my.toml --conll train.txt --columns form,pos,chunk --system ma2016

        calque init my.toml training.objective.method.kind=minimum-risk

        calque init --schema > calque.schema.json
    """
    from calque.config import check, to_toml
    from calque.experiment import Experiment
    from calque.experiment.text_choice import choose_text
    from calque.training.auto_settings import OPEN

    if schema:
        typer.echo(json.dumps(Experiment.model_json_schema(), indent=1))
        return
    if "=" in path.name:
        raise ConfigError(
            f"{path} is a setting, but the first argument must be the file to write, e.g. calque init my.toml {path}"
        )
    if path.exists():
        raise FolderError(f"{path} already exists; choose another name")
    values = _values(files, overrides or [], system=system or files.default_system, scale=scale)
    values, message = choose_text(values)
    if message:
        typer.echo(message, err=True)
    files.check_columns()
    config = to_toml(check(Experiment, values, origin="init"), comments=True)
    path.write_text(HEADER + _comment_out(config, keys=OPEN), encoding="utf-8")
    typer.echo(f"wrote {path}; next: calque train --config {shell_path(path)}", err=True)


def _values(files: CorpusFiles, overrides: list[str], *, system: str, scale: float) -> dict[str, Any]:
    """The values of the config to write, with placeholders for file names if no corpora are given."""
    from calque.experiment import experiment_values

    def values(corpora: Corpora) -> dict[str, Any]:
        assignments = [*files.settings, *overrides]
        return experiment_values(config=None, system=system, corpora=corpora, assignments=assignments, scale=scale)

    chosen = values(files.corpora())
    files.refuse_other_task(chosen)
    if "train" in chosen.get("data", {}):
        return chosen
    placeholder = PLACEHOLDERS.get(task_kind(chosen), PLACEHOLDERS["translation"])  # an unknown task is rejected later
    return values({"train": [placeholder]})


def _comment_out(text: str, *, keys: Sequence[str]) -> str:
    """The TOML text of a config, with these keys of its training section commented out."""
    lines, section = [], ""
    for line in text.split("\n"):
        if line.startswith("["):
            section = line.strip("[]")
        key = f"{section}.{line.partition(' =')[0]}".removeprefix("training.")
        is_commented = section.split(".")[0] == "training" and key in keys
        lines.append(f"# {line}" if is_commented else line)
    return "\n".join(lines)
