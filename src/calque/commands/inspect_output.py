"""The output of `calque inspect`: tables, JSON, a page or a picture."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from calque.commands.inputs import choice
from calque.errors import ConfigError, shell_path

if TYPE_CHECKING:
    from calque.commands.inspect_task import TaskInspection, View
    from calque.engine import Loaded

FORMATS = ("text", "json", "html", "svg", "png")


def output_format(format: str | None, output: Path | None) -> str:
    """The format: that of --format or, by default, of the suffix of --output; pictures need the matching suffix."""
    suffix = output.suffix.lower().removeprefix(".") if output is not None else "text"
    suffix = "text" if suffix == "txt" else suffix
    chosen: str = choice(format, FORMATS, option="--format") if format is not None else suffix
    if chosen not in FORMATS:
        raise ConfigError(
            f"--output {output}: the suffix must be .html, .json, .svg, .png or .txt; for another name, add --format"
        )
    if output is None and chosen in ("html", "svg", "png"):
        raise ConfigError(f"--format {chosen} needs --output FILE")
    if output is not None and chosen in ("svg", "png") and suffix != chosen:
        raise ConfigError(f"--format {chosen}: the name of --output must end in .{chosen}")
    return chosen


def write_views(
    views: "Sequence[View]",
    models: "dict[str, Loaded]",
    task: "TaskInspection[Any, Any]",
    *,
    format: str,
    output: Path | None,
    picture: str,
) -> None:
    """Writes the inspected texts to a file or to standard output; `picture` names the kind of picture to draw."""
    match format:
        case "text":
            _write(output, "".join(f"{line}\n" for line in _lines(views, task, several=len(models) > 1)))
        case "json" | "html":
            _write(output, _document(views, models, task, format=format))
        case _:
            assert output is not None
            _draw(views, task, output=output, picture=picture)


def _lines(views: "Sequence[View]", task: "TaskInspection[Any, Any]", *, several: bool) -> Iterator[str]:
    """Yields the tables of each text (with the model's name if `several`) and, for more than two texts, a summary."""
    from calque.commands.inspect_tables import brief_lines
    from calque.inspection.states import states_summary

    for number, (name, view, states) in enumerate(views):
        yield from [""] if number else []
        yield from task.lines(view, name=name if several else None)
        if states is not None:
            yield ""
            yield from states_summary(states)
    briefs = [(view.name if several else None, task.brief(view.view)) for view in views]
    if len(views) > 2:
        known = [(name, brief) for name, brief in briefs if brief is not None]
        yield from ["", *brief_lines(known)] if known else []


def _document(
    views: "Sequence[View]", models: "dict[str, Loaded]", task: "TaskInspection[Any, Any]", *, format: str
) -> str:
    """The inspected texts as JSON, or as an HTML page that contains the JSON."""
    from calque.inspection.document import as_base64, as_lists, inspection_document
    from calque.inspection.states import states_values
    from calque.web import page

    sentences: list[dict[str, Any]] = []
    for name, view, states in views:
        values = task.values(view, weights=as_base64 if format == "html" else as_lists)
        values |= {} if states is None else {"states": states_values(states)}
        sentences.append(({"model": name} if len(models) > 1 else {}) | values)
    summaries = [task.summary(loaded, name=name) for name, loaded in models.items()]
    document = inspection_document(sentences, task=task.task, models=summaries)
    if format == "json":
        return json.dumps(document, ensure_ascii=False) + "\n"
    return page(title=f"calque inspect {next(iter(models))}", view="calque/inspection", document=document)


def _write(output: Path | None, text: str) -> None:
    from calque.commands.output import write_text

    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    typer.echo(f"wrote {shell_path(output)}", err=True)


def _draw(views: "Sequence[View]", task: "TaskInspection[Any, Any]", *, output: Path, picture: str) -> None:
    from calque.inspection.pictures_states import draw_states

    if picture == "states":
        warnings = draw_states(output, [view.states for view in views if view.states is not None])
    else:
        warnings = task.draw(output, views[0].view, picture=picture)
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"wrote {shell_path(output)}", err=True)
