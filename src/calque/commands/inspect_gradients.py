"""The option `calque inspect --gradients`, which measures gradient flow."""

import json
from pathlib import Path

import typer

from calque.commands.inputs import device_and_precision, refuse_unreadable
from calque.commands.rendering import finite
from calque.errors import ConfigError, shell_path


def write_gradient_flow(
    run: Path,
    source: Path | None,
    target: str | None,
    *,
    format: str | None,
    output: Path | None,
    sentences: int,
    device: str,
) -> None:
    """Writes the gradient flow of a model on a corpus as a summary, JSON, a page, or a folder of pictures."""
    from calque.commands.output import refuse_output, write_text
    from calque.inspection.gradient_report import gradient_flow_report, gradient_flow_summary
    from calque.inspection.pictures_gradients import draw_gradient_flow
    from calque.web import page

    suffix = "text" if output is None else output.suffix.removeprefix(".").lower() or "pictures"
    written = format or suffix
    if written not in ("text", "json", "html", "pictures") or (output is None and written not in ("text", "json")):
        raise ConfigError(
            "--gradients cannot write this format; use tables (the default), --format json, or an --output that is "
            ".json, .html or a folder for pictures"
        )
    files = (source, Path(target) if target is not None else None)
    refuse_unreadable(*files)
    if written != "pictures":
        refuse_output(output, *files)
    device_name, _ = device_and_precision(device, "float64")
    document = gradient_flow_report(run, source=files[0], target=files[1], sentences=sentences, device=device_name)
    if output is None:
        is_json = written == "json"
        typer.echo(json.dumps(finite(document), ensure_ascii=False) if is_json else gradient_flow_summary(document))
        return
    match written:
        case "json":
            write_text(output, json.dumps(finite(document), ensure_ascii=False) + "\n")
        case "html":
            title = f"calque inspect {run} --gradients"
            write_text(output, page(title=title, view="calque/gradient_flow", document=finite(document)))
        case _:
            for path in draw_gradient_flow(document, folder=output):
                typer.echo(f"wrote {shell_path(path)}", err=True)
            return
    typer.echo(f"wrote {shell_path(output)}", err=True)
