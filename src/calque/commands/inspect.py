"""The command `calque inspect`, which shows what a model computes for a text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.inputs import choice, device_and_precision
from calque.commands.inspect_gradients import write_gradient_flow
from calque.commands.inspect_histories import histories_of
from calque.commands.inspect_output import FORMATS, View, output_format, write_views
from calque.commands.inspect_questions import Question, labelled_words, questions_of, split_settings
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
    from calque.commands.inspect_tasks import Shown
    from calque.engine import Loaded, Translator
    from calque.inspection.state_index import StateIndex
    from calque.inspection.what_if import WhatIf

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
)
LIMIT = 20


def inspect(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SENTENCE]... [KEY=VALUE]...",
            help="Sentences to inspect, side by side if there are two; search settings, e.g. beam=10.",
        ),
    ] = None,
    source: Annotated[
        Path | None, file_option(help="A file of sentences, one per line; for taggers also CoNLL-U or columns.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="A translation to inspect instead of the model's own; with --source, a file."
        ),
    ] = None,
    images: Annotated[
        list[Path] | None, file_option("--image", help="Captioners: an image to inspect; repeat it for several.")
    ] = None,
    limit: Annotated[int, count_option(help="With --source: inspect the first N sentences.")] = LIMIT,
    others: Annotated[
        list[Path] | None, model_option("--with", help="Another model, shown side by side with the first.")
    ] = None,
    output: Annotated[
        Path | None, file_option(help="A file: .html, .json, .svg or .png, unless --format is given.")
    ] = None,
    format: Annotated[
        str | None, choice_option(choices=FORMATS, help="By default the suffix of --output, or text.")
    ] = None,
    picture: Annotated[
        str | None,
        choice_option(
            choices=PICTURES, help="What to draw as .svg or .png; by default the first kind that the model supports."
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What if the translation began like this?")] = "",
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            "--forbid-word",
            metavar="WORD",
            help="Show what is found if this word is forbidden. Repeat the option for several.",
        ),
    ] = None,
    attend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET:SOURCE",
            help="What if target piece 3 attended to source piece 5 alone? Write 3:5; decoding continues from there.",
        ),
    ] = None,
    saliency: Annotated[
        bool,
        typer.Option(
            "--saliency", help="Also show gradients by source piece; on by default for models without attention."
        ),
    ] = False,
    states: Annotated[
        bool, typer.Option("--states", help="Also the training sentences whose states are nearest; needs --index once.")
    ] = False,
    index: Annotated[
        bool, typer.Option("--index", help="Build the index of training states that --states searches.")
    ] = False,
    index_states: Annotated[
        int, count_option(help="With --index: the number of encoder and of decoder states.")
    ] = 100_000,
    gradients: Annotated[
        bool,
        typer.Option("--gradients", help="Gradient flow instead, on --source and --target or the validation data."),
    ] = False,
    continuation: Annotated[
        int | None, count_option(help="Language models: also continue the text by up to N pieces.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Look inside a model: attention, beam search, alternatives, saliency, nearest states, gradients, what-if changes.

    Prints tables; --output writes a page that works offline (.html), all numbers (.json), or a picture (.svg, .png).
    Pieces are counted from 1, end marks included. Language models show what could come next, taggers the probabilities
    of all labels. Sentence encoders show the cosines of all sentences, with those of --target if it is given, and their
    places in two dimensions; recommenders the candidates and what each item of the history contributes (no .html page).

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
    """
    from calque.commands.inspect_tasks import TASKS
    from calque.commands.output import refuse_output
    from calque.inspection.what_if import Move, WhatIf

    what_if_options: dict[str, Any] = {"--prefix": prefix, "--forbid-word": forbid, "--attend": attend}
    if gradients:
        other_options: dict[str, Any] = {
            "--with": others,
            "--picture": picture,
            **what_if_options,
            "--saliency": saliency,
        }
        other_options |= {"--states": states, "--index": index, "--continuation": continuation, "a sentence": texts}
        other_options |= {"--image": images}
        if idle := _given(other_options):
            raise ConfigError(f"--gradients measures a corpus and cannot be combined with {', '.join(idle)}")
        write_gradient_flow(model, source, target, format=format, output=output, sentences=limit, device=device)
        return
    written = output_format(format, output)
    if picture is not None and written not in ("svg", "png"):
        raise ConfigError("--picture needs an --output that ends in .svg or .png")
    if states and attend:
        raise ConfigError(
            "--states shows states under the model's own attention, which --attend would change: give one of the two"
        )
    what_if = WhatIf(prefix, tuple(forbid or ()), tuple(map(Move.parse, attend or ())))
    if target is not None and (prefix or forbid):
        raise ConfigError(
            "with --target there is no search that --prefix or --forbid-word could constrain; leave out either"
        )
    sentences, settings = split_settings(texts or [])
    if images and (sentences or source is not None):
        raise ConfigError("give --image, or sentences, not both")
    questions = [Question(str(path)) for path in images or ()]
    if not index and not questions:
        questions = questions_of(sentences, source=source, target=target, limit=limit)
    paths = [model, *(others or ())]
    if len(set(paths)) < len(paths):
        raise ConfigError("--with names the same model again; name another one")
    refuse_output(output, source)
    models = _load(paths, device=device, precision=precision)
    if type(models[str(model)]) not in TASKS:
        raise ConfigError(f"{model}: speech recognisers cannot be inspected")
    shown = TASKS[type(models[str(model)])]
    shown_together = 1 if shown.task == "embedding" else len(questions)
    _refuse_picture(picture, written=written, states=states, views=shown_together * len(paths))
    if (shown.task == "captioning") != bool(images):
        raise ConfigError(
            f"{model}: is a captioner, which reads images: give --image FILE instead of sentences"
            if not images
            else f"--image: for captioners only; this model is for {shown.task}"
        )
    if shown.task == "tagging" and source is not None:
        questions = labelled_words(models[str(model)], source, limit=limit) or questions  # type: ignore[arg-type]
    if shown.task == "recommendation":
        if written == "html":
            raise ConfigError("there is no page for recommenders; write .json, .svg, .png or .txt")
        if source is not None:
            histories = histories_of(models[str(model)], source, limit=limit)  # type: ignore[arg-type]
            questions = [Question(history) for history in histories]
    options = {"--target": target, **what_if_options, "--states": states, "--index": index}
    _refuse_other_options(options, shown=shown, continuation=continuation)
    if index:
        if sentences or source is not None or output is not None:
            raise ConfigError("--index builds an index and shows nothing: give it without sentences and --output")
        for path, loaded in models.items():
            _build_index(loaded, Path(path), states=index_states)  # type: ignore[arg-type]
        return
    drawn = choice(picture or ("states" if states else shown.pictures[0]), shown.pictures, option="--picture")
    indices = _open_indices(models) if states else {}
    if shown.task == "embedding":
        write_views(_similarity_views(models, questions), models, shown, format=written, output=output, picture=drawn)
        return
    views = [
        _view(
            loaded,
            name,
            question,
            settings,
            what_if,
            saliency=saliency,
            index=indices.get(name),
            continuation=continuation,
        )
        for question in questions
        for name, loaded in models.items()
    ]
    write_views(views, models, shown, format=written, output=output, picture=drawn)


def _given(options: Mapping[str, Any]) -> list[str]:
    """The names of the options that were given."""
    return [name for name, value in options.items() if value]


def _refuse_picture(picture: str | None, *, written: str, states: bool, views: int) -> None:
    """Raises a ConfigError for a picture of more than one sentence or model, or of states that are not looked up."""
    shows_states = picture == "states" or (picture is None and states)
    if written in ("svg", "png") and not shows_states and views > 1:
        raise ConfigError("a picture shows one sentence and one model, and more were given: use an .html page")
    if picture == "states" and not states:
        raise ConfigError("--picture states needs --states")


def _load(paths: Sequence[Path], *, device: str, precision: str) -> "dict[str, Loaded]":
    """Loads models, which must be of one kind; returns them by their paths."""
    from calque.engine import load, model_kind

    names = device_and_precision(device, precision, gradients=True)
    models = {str(path): load(path, device=names[0], precision=names[1]) for path in paths}
    kinds = {name: model_kind(loaded) for name, loaded in models.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
        raise ConfigError(f"models of different kinds cannot be shown side by side: {listed}")
    return models


def _refuse_other_options(options: Mapping[str, Any], *, shown: "Shown", continuation: int | None) -> None:
    """Raises a ConfigError for options that apply only to models of another task."""
    given = _given(options)
    if shown.task == "statistical translation" and given:
        raise ConfigError(f"{', '.join(given)}: for neural translation models only; this model is a statistical one")
    given = [name for name in _given(options) if shown.task != "embedding" or name != "--target"]
    if shown.task != "translation" and given:
        raise ConfigError(f"{', '.join(given)}: for translation models only; this model is for {shown.task}")
    if shown.task != "language-modelling" and continuation is not None:
        raise ConfigError(f"--continuation: for language models only; this model is for {shown.task}")


def _build_index(translator: "Translator", run: Path, *, states: int) -> None:
    from calque.commands.progress import preparing
    from calque.inspection.state_index import build_run_index

    with preparing() as progress:
        build_run_index(
            translator, run, states=states, progress=progress, report=lambda line: typer.echo(line, err=True)
        )


def _open_indices(models: "dict[str, Loaded]") -> "dict[str, StateIndex]":
    from calque.inspection.state_index import open_run_index

    return {name: open_run_index(loaded, Path(name)) for name, loaded in models.items()}  # type: ignore[arg-type]


def _similarity_views(models: "dict[str, Loaded]", questions: Sequence[Question]) -> list[View]:
    """The views of sentence encoders, each of all sentences together."""
    from calque.engine import SentenceEncoder
    from calque.inspection.sentence_similarity import inspect_similarity

    sources = [str(question.text) for question in questions]
    targets = [question.target for question in questions if question.target is not None] or None
    return [
        View(name, inspect_similarity(loaded, sources, targets))
        for name, loaded in models.items()
        if isinstance(loaded, SentenceEncoder)
    ]


def _view(
    loaded: "Loaded",
    name: str,
    question: Question,
    settings: list[str],
    what_if: "WhatIf",
    *,
    saliency: bool,
    index: "StateIndex | None",
    continuation: int | None,
) -> View:
    """Runs a model on a text and returns what it computed."""
    from calque.commands.loading import search_of
    from calque.commands.statistical_models import with_settings
    from calque.engine import (
        Captioner,
        PhraseTranslator,
        Recommender,
        Request,
        Sentence,
        Tagger,
        TextGenerator,
        Translator,
    )
    from calque.engine.recommender import as_history
    from calque.inspection.captioning import inspect_caption
    from calque.inspection.language_model import inspect_text
    from calque.inspection.phrase_view import inspect_phrases
    from calque.inspection.recommendation import inspect_recommendation
    from calque.inspection.states import states_of_view
    from calque.inspection.tagging import inspect_tagging
    from calque.inspection.translation import inspect_translation

    wanted = True if saliency else None
    if isinstance(loaded, Recommender):
        assert not isinstance(question.text, Sentence)
        return View(name, inspect_recommendation(loaded, as_history(question.text)))
    if isinstance(loaded, PhraseTranslator):
        assert isinstance(question.text, str)
        return View(name, inspect_phrases(with_settings(loaded, settings, beam=None), question.text))
    if isinstance(loaded, Tagger):
        assert isinstance(question.text, str | Sentence)
        return View(name, inspect_tagging(loaded, question.text, saliency=wanted))
    assert isinstance(question.text, str) and isinstance(loaded, Translator | TextGenerator | Captioner)
    search = search_of(loaded.search, settings, beam=None, nbest=1, batch_tokens=None)
    if isinstance(loaded, Captioner):
        return View(name, inspect_caption(loaded, Path(question.text), search=search))
    if isinstance(loaded, TextGenerator):
        if continuation is None:
            return View(name, inspect_text(loaded, question.text, saliency=wanted))
        return View(name, inspect_text(loaded, question.text, saliency=wanted, search=search, maximum=continuation))
    request = Request(question.text, prefix=what_if.prefix, forbidden=what_if.forbidden, search=search)
    view = inspect_translation(loaded, request, target=question.target, moves=what_if.moves, saliency=wanted)
    nearest = states_of_view(loaded, view, index=index) if index is not None else None
    return View(name, view, nearest)
