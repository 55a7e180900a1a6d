"""The command `calque transcribe`, which transcribes recordings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import choice, device_and_precision, exists
from calque.commands.options import (
    INPUT_OUTPUT,
    MODELS,
    SEARCH,
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_argument,
    model_option,
    seconds_option,
)
from calque.commands.rendering import json_line, one_field
from calque.errors import CalqueError, ConfigError, exit_code

if TYPE_CHECKING:
    from calque.engine.recogniser import SpeechAnswer, Transcript

FORMATS = ("text", "tsv", "jsonl")


def transcribe(
    model: Annotated[Path, model_argument(help="A run or model folder of a speech recogniser.")],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Audio files; settings as KEY=VALUE may follow.")
    ],
    *,
    output: Annotated[
        Path | None, file_option(help="Write the transcripts to this file; stdout by default.", panel=INPUT_OUTPUT)
    ] = None,
    format: Annotated[
        str | None,
        choice_option(
            choices=FORMATS,
            help="The output format; tsv (file, score, text) by default if there are several files or candidates.",
            panel=INPUT_OUTPUT,
        ),
    ] = None,
    timestamps: Annotated[
        bool,
        typer.Option(
            "--timestamps", help="Also write when each word is heard, as JSON lines.", rich_help_panel=INPUT_OUTPUT
        ),
    ] = False,
    nbest: Annotated[int, count_option(help="The number of candidates per recording.", panel=SEARCH)] = 1,
    beam: Annotated[int | None, count_option(help="The beam size; 1 is greedy search.", panel=SEARCH)] = None,
    chunk: Annotated[
        float | None,
        seconds_option(
            help="Split recordings longer than this into parts; by default task.longest, the limit in training.",
            panel=SEARCH,
        ),
    ] = None,
    language: Annotated[
        Path | None,
        model_option(
            help="Decode with this language model, which must have the same pieces; see language_weight.", panel=MODELS
        ),
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Transcribe recordings: wav, flac and whatever else libsndfile reads.

    Several channels are mixed into one, and other sampling rates are resampled. A long recording is transcribed in
    overlapping parts. If a file cannot be used, the error is reported, the other files are still transcribed, and the
    exit code is 2; in text output, the file leaves an empty line.

    With --timestamps, each word has a start and an end in seconds, from the CTC alignment or, without CTC, from the
    peaks of attention.

    Examples:

        calque transcribe runs/digits call.wav

        calque transcribe runs/digits *.flac --format tsv --output transcripts.tsv

        calque transcribe runs/digits lecture.wav --timestamps --chunk 20

        calque transcribe runs/speech talk.wav --language runs/english --beam 20 language_weight=0.3
    """
    from calque.commands.loading import load_language_model, search_of
    from calque.commands.output import refuse_output, sink
    from calque.commands.recogniser_scores import refuse_idle_speech_settings
    from calque.engine import load_recogniser

    settings = [text for text in files if "=" in text and not exists(Path(text))]
    paths = [text for text in files if text not in settings]
    if not paths:
        raise ConfigError("no audio files were given; name at least one after the model")
    format_name = _format(format, timestamps=timestamps, several=len(paths) > 1 or nbest > 1)
    device_name, precision_name = device_and_precision(device, precision)
    refuse_output(output, *map(Path, paths))
    recogniser = load_recogniser(model, device=device_name, precision=precision_name)
    generator = None
    if language is not None:
        generator = load_language_model(language, device=device_name, precision=precision_name)
    search = search_of(recogniser.search, settings, beam=beam, nbest=nbest, batch_tokens=None)
    refuse_idle_speech_settings(settings, search=search, recogniser=recogniser, language=language)
    answers = recogniser.answers(
        paths, search=search, nbest=nbest, timestamps=timestamps, language=generator, chunk=chunk
    )
    failures: list[CalqueError] = []
    with sink(output) as out:
        for row in _rows(paths, answers, failures, format=format_name, nbest=nbest):
            out.write(row)
            out.flush()
    if failures:
        raise typer.Exit(max(map(exit_code, failures)))


def _format(format: str | None, *, timestamps: bool, several: bool) -> str:
    default = "jsonl" if timestamps else "tsv" if several else "text"
    name: str = choice(format or default, FORMATS, option="--format")
    if timestamps and name != "jsonl":
        raise ConfigError("--timestamps needs JSON lines; leave --format out, or set it to jsonl")
    return name


def _rows(
    paths: Sequence[str], answers: "Iterator[SpeechAnswer]", failures: list[CalqueError], *, format: str, nbest: int
) -> Iterator[bytes]:
    """Yields the output of each recording; errors are printed, added to `failures` and, with JSON lines, output too.

    In text output, a failed recording leaves empty lines, so that lines can be matched with files.
    """
    for path, answer in zip(paths, answers, strict=True):
        if isinstance(answer, CalqueError):
            failures.append(answer)
            typer.echo(f"error: {answer}", err=True)
            match format:
                case "text":
                    yield b"\n" * nbest
                case "jsonl":
                    yield json_line({"file": path, "error": str(answer)})
        else:
            yield _row(path, answer, format=format)


def _row(path: str, transcript: "Transcript", *, format: str) -> bytes:
    match format:
        case "text":
            return "".join(f"{one_field(candidate.text)}\n" for candidate in transcript.candidates).encode()
        case "tsv":
            lines = (
                f"{one_field(path)}\t{candidate.score:.4f}\t{one_field(candidate.text)}\n"
                for candidate in transcript.candidates
            )
            return "".join(lines).encode()
        case _:
            values = {
                "file": path,
                "seconds": round(transcript.seconds, 3),
                "text": transcript.text,
                "candidates": [candidate._asdict() for candidate in transcript.candidates],
            }
            if transcript.words is not None:
                values["words"] = [word._asdict() for word in transcript.words]
            return json_line(values)
