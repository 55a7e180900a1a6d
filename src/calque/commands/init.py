"""`calque init`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from calque.errors import ConfigError, FolderError

HEADER = """\
# A Calque config; train with: calque train --config FILE
# What follows the corpus (steps, batch, rates) is commented out with its default value: set it to have it your way.

"""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("calque.toml"),
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings that the config begins with.")
    ] = None,
    system: Annotated[str, typer.Option(help="The model to begin with; `calque systems` lists them.")] = "tiny",
    scale: Annotated[float, typer.Option(help="Multiply the system's widths, heads and layers.")] = 1.0,
    source: Annotated[Path, typer.Option(help="Source sentences.")] = Path("train.source"),
    target: Annotated[Path, typer.Option(help="Target sentences.")] = Path("train.target"),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema for editors instead.")] = False,
) -> None:
    """Write a complete config, every setting explained.

    Where there are several kinds of a part, the keys of the one that is chosen are there; KEY=VALUE chooses another.

    Examples:

        calque init my.toml --system small --source train.de --target train.en

        calque init my.toml training.objective.method.kind=minimum-risk

        calque init --schema > calque.schema.json
    """
    from calque.config import check, to_toml
    from calque.experiment import Experiment, experiment_values
    from calque.training.auto_settings import OPEN

    if schema:
        typer.echo(json.dumps(Experiment.model_json_schema(), indent=1))
        return
    if "=" in path.name:
        raise ConfigError(f"{path}: name the file to write first, e.g. calque init my.toml {path}")
    if path.exists():
        raise FolderError(f"{path}: is there already; choose another name")
    corpora = {"train": [{"kind": "files", "source": str(source), "target": str(target)}]}
    values = experiment_values(config=None, system=system, corpora=corpora, assignments=overrides or [], scale=scale)
    text = to_toml(check(Experiment, values, origin="init"), comments=True)
    path.write_text(HEADER + _left_open(text, keys=OPEN), encoding="utf-8")
    typer.echo(f"wrote {path}; next: calque train --config {path}", err=True)


def _left_open(text: str, *, keys: Sequence[str]) -> str:
    """The config with these keys of the training section commented out."""
    lines, section = [], ""
    for line in text.split("\n"):
        if line.startswith("["):
            section = line.strip("[]")
        key = f"{section}.{line.partition(' =')[0]}".removeprefix("training.")
        is_open = section.split(".")[0] == "training" and key in keys
        lines.append(f"# {line}" if is_open else line)
    return "\n".join(lines)
