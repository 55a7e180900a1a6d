"""`calque init`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from calque.errors import FolderError

HEADER = """\
# A Calque config; train with: calque train --config FILE
# A key you remove gets its default or, where that depends on the corpus (steps, batch, rates), is chosen by it.

"""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("calque.toml"),
    system: Annotated[str, typer.Option(help="The model to begin with; `calque systems` lists them.")] = "tiny",
    source: Annotated[Path, typer.Option(help="Source sentences.")] = Path("train.source"),
    target: Annotated[Path, typer.Option(help="Target sentences.")] = Path("train.target"),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema for editors instead.")] = False,
) -> None:
    """Write a complete config, every setting explained.

    Examples:

        calque init my.toml --system small --source train.de --target train.en

        calque init --schema > calque.schema.json
    """
    from calque.config import check, to_toml
    from calque.experiment import Experiment, experiment_values

    if schema:
        typer.echo(json.dumps(Experiment.model_json_schema(), indent=1))
        return
    if path.exists():
        raise FolderError(f"{path}: is there already; choose another name")
    corpora = {"train": [{"kind": "files", "source": str(source), "target": str(target)}]}
    values = experiment_values(config=None, system=system, corpora=corpora, assignments=[])
    text = to_toml(check(Experiment, values, origin="init"), comments=True)
    path.write_text(HEADER + text, encoding="utf-8")
    typer.echo(f"wrote {path}; next: calque train --config {path}", err=True)
