"""The command `calque inspect`, which shows what a model computes for a text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.inputs import choice, device_and_precision
from calque.commands.inspect_gradients import write_gradient_flow
from calque.commands.inspect_output import FORMATS, output_format, write_views
from calque.commands.inspect_questions import Question, questions_of, refuse_search_settings, split_settings
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_argument,
    model_option,
)
from calque.errors import ConfigError

if TYPE_CHECKING:
    from calque.commands.inspect_task import TaskInspection
    from calque.devices import DeviceName, PrecisionName
    from calque.engine import Loaded, Translator

PICTURES = (
    "attention",
    "heads",
    "beam",
    "states",
    "next",
    "pieces",
    "marginals",
    "transitions",
    "similarity",
    "projection",
    "phrases",
    "history",
    "candidates",
    "recording",
    "spectrogram",
    "posteriors",
)
LIMIT = 20


def inspect(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SENTENCE]... [KEY=VALUE]...",
            help="Sentences to inspect (two are shown side by side), and search settings, e.g. beam=10.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        file_option(help="Inspect the sentences of this file, one per line; taggers also read CoNLL-U and columns."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Inspect this text instead of the model's own output. With --source, a file with one text per line.",
        ),
    ] = None,
    images: Annotated[
        list[Path] | None, file_option("--image", help="Captioners: inspect this image. Repeat the option for several.")
    ] = None,
    audio: Annotated[
        list[Path] | None,
        file_option("--audio", help="Speech recognisers: inspect this recording. Repeat the option for several."),
    ] = None,
    language: Annotated[
        Path | None,
        model_option("--language", help="With --audio: decode with this language model, as in `calque transcribe`."),
    ] = None,
    limit: Annotated[int, count_option(help="With --source: inspect only the first N sentences.")] = LIMIT,
    others: Annotated[
        list[Path] | None, model_option("--with", help="Show this model side by side with the first.")
    ] = None,
    output: Annotated[
        Path | None, file_option(help="Write to this file: .html, .json, .svg or .png, or any name with --format.")
    ] = None,
    format: Annotated[
        str | None,
        choice_option(choices=FORMATS, help="The output format; by default that of the suffix of --output, or text."),
    ] = None,
    picture: Annotated[
        str | None,
        choice_option(
            choices=PICTURES,
            help="The kind of picture to draw as .svg or .png; by default the first that the model supports.",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Force the translation to begin with this text.")] = "",
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            "--forbid-word",
            metavar="WORD",
            help="Forbid this word in the translation. Repeat the option for several.",
        ),
    ] = None,
    attend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET:SOURCE",
            help="Force a target piece to attend to a single source piece, e.g. 3:5, and continue decoding from there.",
        ),
    ] = None,
    saliency: Annotated[
        bool,
        typer.Option(
            "--saliency",
            help="Also show how source pieces affect outputs (gradients); the default for models without attention.",
        ),
    ] = False,
    states: Annotated[
        bool,
        typer.Option(
            "--states",
            help="Also show the training sentences with the nearest hidden states; build the index with --index first.",
        ),
    ] = False,
    index: Annotated[
        bool,
        typer.Option("--index", help="Build the index of hidden states of training sentences that --states searches."),
    ] = False,
    index_states: Annotated[
        int, count_option(help="With --index: store at most this many encoder states and as many decoder states.")
    ] = 100_000,
    gradients: Annotated[
        bool,
        typer.Option(
            "--gradients", help="Only measure gradient flow, on --source and --target or on the validation data."
        ),
    ] = False,
    continuation: Annotated[
        int | None, count_option(help="Language models: also continue the text, by up to N pieces.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Look inside a model: attention, beam search, alternatives, saliency, nearest states, gradients, what-if changes.

    Prints tables; --output writes a page that works offline (.html), all numbers (.json), or a picture (.svg, .png).
    Pieces are counted from 1, end marks included.

    For language models, it shows what could come next; for taggers, the probabilities of all labels; for sentence
    encoders, the cosines between all sentences (or between them and those of --target) and a map of them in two
    dimensions; for recommenders, the candidates and what each item of the history contributes; for speech recognisers,
    the time of each word, the CTC posteriors, attention, and the components of each candidate's score.

    Examples:

        calque inspect runs/1 "Guten Morgen!"

        calque inspect runs/1 "Guten Morgen!" --output morning.html

        calque inspect runs/1 "Guten Morgen!" --target "Good day!" --output day.svg

        calque inspect runs/1 "Der Bahnhof ist zu." "Der Bahnhof ist offen." beam=10 --output two.html

        calque inspect runs/1 "Der Bahnhof ist zu." --with runs/2 --output models.html

        calque inspect runs/1 "Der Bahnhof ist zu." --prefix "The depot" --forbid-word station

        calque inspect runs/1 "Der Bahnhof ist zu." --attend 2:3

        calque inspect runs/1 --source test.de --target test.en --limit 50 --output test.html

        calque inspect runs/1 --index

        calque inspect runs/1 "Der Bahnhof ist zu." --states --output states.svg --picture states

        calque inspect runs/1 --gradients --output flow.html

        calque inspect runs/1 --gradients --source test.de --target test.en --output pictures

        calque inspect runs/english "The weather" --continuation 10

        calque inspect runs/upos "Time flies" --output labels.svg --picture marginals

        calque inspect runs/shop "shampoo comb"

        calque inspect runs/captions --source test.en --target test.de --limit 30 --output vectors.html

        calque inspect runs/captions --image photo.jpg --output photo.html

        calque inspect runs/digits --audio call.wav --output call.html

        calque inspect runs/digits --audio call.wav --target "four two" --output aligned.svg
    """
    from calque.commands.inspect_task import ViewOptions
    from calque.commands.inspect_tasks import TASKS, refuse_options
    from calque.commands.output import refuse_output
    from calque.inspection.what_if import Move, WhatIf

    what_if_options: dict[str, Any] = {"--prefix": prefix, "--forbid-word": forbid, "--attend": attend}
    task_options = {"--target": target, **what_if_options, "--states": states, "--index": index}
    task_options |= {"--continuation": continuation, "--language": language, "--saliency": saliency}
    if gradients:
        other_options = {"--with": others, "--picture": picture, **task_options}
        other_options |= {"a sentence": texts, "--image": images, "--audio": audio, "--target": None}
        _refuse_beside_gradients(other_options)
        write_gradient_flow(model, source, target, format=format, output=output, sentences=limit, device=device)
        return
    written = output_format(format, output)
    if picture is not None and written not in ("svg", "png"):
        raise ConfigError("--picture needs an --output whose name ends in .svg or .png")
    if states and attend:
        raise ConfigError(
            "--states and --attend cannot be combined: --states shows the states under the model's own attention, "
            "which --attend changes; leave one of them out"
        )
    what_if = WhatIf(prefix, tuple(forbid or ()), tuple(map(Move.parse, attend or ())))
    if target is not None and (prefix or forbid):
        raise ConfigError(
            "--prefix and --forbid-word constrain the search, but with --target there is no search; leave out "
            "--target, or the constraints"
        )
    sentences, settings = split_settings(texts or [])
    files = {"--image": images, "--audio": audio}
    questions = _file_questions(files, target=target, is_text=bool(sentences or source))
    is_text = not index and not questions
    if is_text and (sentences or source or not settings):
        questions = questions_of(sentences, source=source, target=target, limit=limit)
    paths = [model, *(others or ())]
    if len(set(paths)) < len(paths):
        raise ConfigError("--with names a model that is already shown; name a different one")
    refuse_output(output, source)
    device_name, precision_name = device_and_precision(device, precision, gradients=True)
    models = _load(paths, device=device_name, precision=precision_name)
    first = models[str(model)]
    task = TASKS[type(first)]
    if not task.searches:
        refuse_search_settings(settings, models=task.models)
        sentences, settings = texts or [], []
    if is_text and (sentences or source is None):
        questions = questions_of(sentences, source=source, target=target, limit=limit)
    _refuse_picture(
        picture, written=written, states=states, views=(1 if task.is_joint else len(questions)) * len(paths)
    )
    _refuse_other_files(model, task, given=_given(files))
    questions = task.questions(first, questions, source=source, limit=limit)
    refuse_options(task, _given(task_options))
    if index:
        if sentences or source is not None or output is not None:
            raise ConfigError(
                "--index only builds the index and shows nothing; give it without sentences, --source and --output"
            )
        for path, loaded in models.items():
            _build_index(loaded, Path(path), states=index_states)  # type: ignore[arg-type]
        return
    drawn = choice(picture or ("states" if states else task.pictures[0]), task.pictures, option="--picture")
    options = ViewOptions(
        settings, what_if, True if saliency else None, states, continuation, language, device_name, precision_name
    )
    views = task.views(models, questions, options)
    write_views(views, models, task, format=written, output=output, picture=drawn)


def _given(options: Mapping[str, Any]) -> list[str]:
    """The names of the options that were given."""
    return [name for name, value in options.items() if value]


def _refuse_beside_gradients(options: Mapping[str, Any]) -> None:
    if idle := _given(options):
        raise ConfigError(f"--gradients measures a whole corpus and cannot be combined with {', '.join(idle)}")


def _file_questions(files: Mapping[str, list[Path] | None], *, target: str | None, is_text: bool) -> list[Question]:
    """A `Question` per image or recording to inspect; raises a ConfigError if text was given too (`is_text`)."""
    given = _given(files)
    if given and is_text:
        raise ConfigError(f"both {given[0]} and sentences were given; give only one of them")
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are for different kinds of models; give only one of them")
    paths = [path for group in files.values() for path in group or ()]
    if target is not None and len(paths) > 1:
        raise ConfigError(
            f"--target takes the text of a single file, but {given[0]} names {len(paths)} files; name one"
        )
    return [Question(str(path), target) for path in paths]


def _refuse_other_files(model: Path, task: "TaskInspection[Any, Any]", *, given: Sequence[str]) -> None:
    """Raises a ConfigError if --image or --audio is given but not read by the model, or needed but not given."""
    from calque.commands.inspect_tasks import TASKS

    for name in given:
        if name != task.reads:
            (models,) = (other.models for other in TASKS.values() if other.reads == name)
            raise ConfigError(f"{name} is supported for {models} only, but this model is for {task.task}; leave it out")
    if task.advice and not given:
        raise ConfigError(f"{model} {task.advice}")


def _refuse_picture(picture: str | None, *, written: str, states: bool, views: int) -> None:
    """Raises a ConfigError if a picture would show several sentences or models, or states without --states."""
    shows_states = picture == "states" or (picture is None and states)
    if written in ("svg", "png") and not shows_states and views > 1:
        raise ConfigError(
            "a picture shows one sentence and one model, but more were given; write an .html page instead"
        )
    if picture == "states" and not states:
        raise ConfigError("--picture states needs --states, which looks up the nearest states")


def _load(paths: Sequence[Path], *, device: "DeviceName", precision: "PrecisionName") -> "dict[str, Loaded]":
    """Loads the models, which must all be of one kind (e.g. all taggers), and returns them by path."""
    from calque.engine import load, model_kind

    models = {str(path): load(path, device=device, precision=precision) for path in paths}
    kinds = {name: model_kind(loaded) for name, loaded in models.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
        raise ConfigError(f"only models of the same kind can be shown side by side, but {listed}")
    return models


def _build_index(translator: "Translator", run: Path, *, states: int) -> None:
    from calque.commands.progress import preparing
    from calque.inspection.state_index import build_run_index

    with preparing() as progress:
        build_run_index(
            translator, run, states=states, progress=progress, report=lambda line: typer.echo(line, err=True)
        )
