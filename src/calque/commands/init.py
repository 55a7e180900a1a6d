"""`calque init`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from calque.errors import ConfigError, FolderError

HEADER = """\
# A Calque config; train with: calque train --config FILE
# Settings that depend on the corpus (steps, batch, rates) are commented out with their defaults; uncomment to set them.

"""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("calque.toml"),
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Initial settings of the config.")
    ] = None,
    system: Annotated[str, typer.Option(help="The system to start from; `calque systems` lists them.")] = "tiny",
    scale: Annotated[float, typer.Option(help="Multiply the system's widths, heads and layers.")] = 1.0,
    source: Annotated[Path, typer.Option(help="Source sentences.")] = Path("train.source"),
    target: Annotated[Path, typer.Option(help="Target sentences.")] = Path("train.target"),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema for editors instead.")] = False,
) -> None:
    """Write a complete config with every setting explained.

    For components of several kinds, the config has the keys of the chosen kind; KEY=VALUE chooses another.

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
        raise FolderError(f"{path}: exists already; choose another name")
    corpora = {"train": [{"kind": "files", "source": str(source), "target": str(target)}]}
    values = experiment_values(config=None, system=system, corpora=corpora, assignments=overrides or [], scale=scale)
    text = to_toml(check(Experiment, values, origin="init"), comments=True)
    path.write_text(HEADER + _comment_out(text, keys=OPEN), encoding="utf-8")
    typer.echo(f"wrote {path}; next: calque train --config {path}", err=True)


def _comment_out(text: str, *, keys: Sequence[str]) -> str:
    """The config with these keys of the training section commented out."""
    lines, section = [], ""
    for line in text.split("\n"):
        if line.startswith("["):
            section = line.strip("[]")
        key = f"{section}.{line.partition(' =')[0]}".removeprefix("training.")
        is_commented = section.split(".")[0] == "training" and key in keys
        lines.append(f"# {line}" if is_commented else line)
    return "\n".join(lines)
