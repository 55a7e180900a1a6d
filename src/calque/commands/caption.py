"""The command `calque caption`, which describes images."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.caption_scores import UNUSED
from calque.commands.inputs import device_and_precision, exists
from calque.commands.options import (
    INPUT_OUTPUT,
    SEARCH,
    Device,
    Precision,
    count_option,
    file_option,
    folder_option,
    model_argument,
)
from calque.commands.rendering import finite, json_line, one_field, one_line
from calque.errors import CalqueError, ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import Caption, Captioner


def caption(
    model: Annotated[Path, model_argument(help="A run or model folder of a captioner.")],
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE... [KEY=VALUE]...", help="Image files and search settings, e.g. length_penalty=1"
        ),
    ],
    *,
    beam: Annotated[int | None, count_option(help="The beam size.", panel=SEARCH)] = None,
    nbest: Annotated[
        int, count_option(help="The number of captions per image; more than 1 are written as TSV.", panel=SEARCH)
    ] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per image.", rich_help_panel=INPUT_OUTPUT)
    ] = False,
    attention: Annotated[
        Path | None,
        folder_option(
            help="Draw where each word attends in the image, as PNG files in this folder.", panel=INPUT_OUTPUT
        ),
    ] = None,
    attention_weights: Annotated[
        bool,
        typer.Option(
            "--attention-weights", help="With --json: also write attention weights.", rich_help_panel=INPUT_OUTPUT
        ),
    ] = False,
    output: Annotated[
        Path | None, file_option(help="Write the captions to this file; stdout by default.", panel=INPUT_OUTPUT)
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Generate captions for images.

    Writes one line per image, in the order of the arguments. An image that cannot be decoded is reported and leaves an
    empty line (with --json, an object with the error); the exit code is then 2.

    With --nbest, each line contains the path of the image, the score and the caption, separated by tabs. With --json,
    each object contains all candidates with their pieces and log-probabilities and, with --attention-weights, their
    attention weights: one row per piece, and one for the end of the caption.

    With --attention, FOLDER/NAME.png shows the image once per word, lighter where the word attends.

    Examples:

        calque caption runs/captions photo.jpg

        calque caption runs/captions *.png --attention pictures

        calque caption runs/captions *.png --json --nbest 3 length_penalty=1 > captions.jsonl
    """
    from calque.commands.loading import refuse_idle_beam_settings, search_of
    from calque.commands.output import refuse_output, sink
    from calque.engine import CaptionRequest, load_captioner

    device_name, precision_name = device_and_precision(device, precision)
    if attention_weights and not as_json:
        raise ConfigError("--attention-weights needs --json: captions written as text have no attention weights")
    settings = [text for text in images if "=" in text and not exists(Path(text))]
    paths = [Path(text) for text in images if text not in settings]
    if not paths:
        raise ConfigError("no images were given; name at least one image file")
    refuse_output(output, *paths)
    captioner = load_captioner(model, device=device_name, precision=precision_name)
    search = search_of(captioner.search, settings, beam=beam, nbest=nbest, batch_tokens=None)
    refuse_idle_beam_settings(settings, search=search, unused=UNUSED)
    if attention is not None:
        _refuse_pictures(captioner, attention)
    if attention_weights and not captioner.attends:
        raise ConfigError("--attention-weights: this model has no attention; leave the option out")
    wants_detail = as_json or attention is not None
    requests = (CaptionRequest(path, search, nbest, detail=wants_detail) for path in paths)
    errors = 0
    names, grid = _picture_names(paths), captioner.side if attention_weights else None
    with sink(output) as out:
        for path, name, answer in zip(paths, names, captioner.answers(requests), strict=True):
            if isinstance(answer, CalqueError):
                errors += 1
                typer.echo(f"error: {answer}", err=True)
                out.write(json_line({"image": str(path), "error": str(answer)}) if as_json else b"\n" * nbest)
                continue
            for line in _lines(path, answer, nbest=nbest, as_json=as_json, grid=grid):
                out.write(line)
            if attention is not None:
                _draw(attention / f"{name}.png", captioner, answer)
        out.flush()
    if errors:
        raise DataError(f"{errors:,} of {len(paths):,} images could not be captioned; their errors are reported above")


def _lines(path: Path, caption: "Caption", *, nbest: int, as_json: bool, grid: int | None) -> Iterator[bytes]:
    """Yields the output lines for one image.

    `grid` is the number of rows, and of columns, of the attention grid; if None, no attention weights are written.
    """
    if as_json:
        shape = {} if grid is None else {"grid": [grid, grid]}
        candidates = _candidates(caption, attention=grid is not None)
        yield json_line(finite({"image": str(path), **shape, "candidates": candidates}))
    elif nbest == 1:
        yield f"{one_line(caption.text)}\n".encode()
    else:
        for candidate in caption.candidates:
            yield f"{one_field(str(path))}\t{candidate.score:.4f}\t{one_field(candidate.text)}\n".encode()


def _candidates(caption: "Caption", *, attention: bool) -> list[dict[str, Any]]:
    values = []
    for candidate in caption.candidates:
        assert candidate.detail is not None
        values.append(
            {
                "text": candidate.text,
                "score": candidate.score,
                "log_prob": candidate.log_prob,
                "cut": candidate.cut,
                "oddities": list(candidate.oddities),
                "pieces": candidate.detail.pieces,
                "log_probs": candidate.detail.log_probs,
                **({"attention": candidate.detail.attention} if attention else {}),
            }
        )
    return values


def _refuse_pictures(captioner: "Captioner", folder: Path) -> None:
    """Creates the folder for attention pictures; an error if the model has no attention or matplotlib is missing."""
    if not captioner.attends:
        raise ConfigError("--attention: this model has no attention; leave the option out")
    if find_spec("matplotlib") is None:
        raise ConfigError("--attention needs matplotlib, which is not installed: pip install matplotlib")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"--attention: {folder}: {error.strerror or error}") from None


def _picture_names(paths: Sequence[Path]) -> list[str]:
    """A file name, without suffix, for the picture of each image; repeated names are numbered."""
    names: list[str] = []
    for path in paths:
        stem, number = path.stem or "image", 2
        name = stem
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names.append(name)
    return names


def _draw(path: Path, captioner: "Captioner", caption: "Caption") -> None:
    from calque.inspection.image_attention import draw_attention, words_with_attention

    detail = caption.candidates[0].detail
    assert detail is not None and detail.attention is not None
    words = words_with_attention(captioner.tokenizer, detail)
    for warning in draw_attention(path, caption.picture.pixels, words, side=captioner.side, title=caption.text):
        typer.echo(f"warning: {warning}", err=True)
