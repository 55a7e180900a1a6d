"""`calque evaluate --images`: scores the captions that a captioner generates for the images of a manifest."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from calque.commands.inputs import device_and_precision, refuse_unreadable
from calque.commands.rendering import one_line

if TYPE_CHECKING:
    from calque.data.image_manifests import Entry
    from calque.engine import Captioner
    from calque.search.settings import SearchConfig


UNUSED = {
    "language_weight": "it is not supported for captioners",
    **dict.fromkeys(
        ("maximum_ratio", "maximum_extra", "minimum_ratio"),
        "it depends on the length of a source text, which an image does not have",
    ),
}
"""The search settings that have no effect on captions, with the reason."""


def evaluate_captioner(
    model: Path,
    *,
    images: Path,
    settings: list[str],
    beam: int | None,
    output: Path | None,
    as_json: bool,
    device: str,
    precision: str,
) -> None:
    """Prints the scores of a captioner on the images of a manifest, and writes its captions if requested."""
    from calque.commands.loading import load_to_evaluate, refuse_idle_beam_settings, search_of
    from calque.commands.output import refuse_output, sink
    from calque.engine import Captioner
    from calque.engine.captioner_boxes import box_attention, manifest_entries
    from calque.errors import DataError
    from calque.evaluation.attention_boxes import mean_attention
    from calque.evaluation.captions import score_captions

    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(images)
    refuse_output(output, images)
    captioner = load_to_evaluate(model, Captioner, device=device_name, precision=precision_name)
    search = search_of(captioner.search, settings, beam=beam, nbest=1, batch_tokens=None)
    refuse_idle_beam_settings(settings, search=search, unused=UNUSED)
    entries = manifest_entries(images)
    if without := sum(not entry.captions for entry in entries):
        raise DataError(f"{images}: {without:,} images have no reference caption; add captions to the manifest")
    captions = _captions(captioner, entries, search=search)
    if output is not None:
        with sink(output) as out:
            out.write("".join(f"{one_line(text)}\n" for text in captions).encode())
    scores = score_captions(captions, [entry.captions for entry in entries])
    attention = mean_attention(list(box_attention(captioner, entries)))
    if as_json:
        values: dict[str, Any] = {name: metric._asdict() for name, metric in scores._asdict().items()}
        if attention.names:
            values["attention"] = attention._asdict()
        typer.echo(json.dumps({**values, "images": len(entries), "beam": search.beam}, indent=1))
        return
    for name, metric in scores._asdict().items():
        typer.echo(f"{name.replace('_', ' '):16} {metric.value:7.2f}   {metric.signature}")
    if attention.names:
        typer.echo(
            f"{'attention inside':16} {100 * attention.inside:7.2f}   % of attention inside the box of the object that "
            f"the word names; the boxes cover {100 * attention.area:.1f} % of the image"
        )
        typer.echo(
            f"{'points inside':16} {100 * attention.points:7.2f}   % of {attention.names:,} words whose most attended "
            "position lies inside the box"
        )


def _captions(captioner: "Captioner", entries: "list[Entry]", *, search: "SearchConfig") -> list[str]:
    from calque.commands.progress import counting
    from calque.engine import CaptionRequest
    from calque.errors import CalqueError

    captions = []
    with counting("captioning", total=len(entries)) as advance:
        for answer in captioner.answers(CaptionRequest(entry.image, search) for entry in entries):
            if isinstance(answer, CalqueError):
                raise answer
            captions.append(answer.text)
            advance(1)
    return captions
