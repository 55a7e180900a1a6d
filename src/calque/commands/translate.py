"""The command `calque translate`, which translates a file or standard input."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calque.commands.inputs import choice, input_lines, input_name, is_pipe, refuse_unreadable
from calque.commands.options import (
    COMPUTATION,
    CONSTRAINTS,
    INPUT_OUTPUT,
    MODELS,
    SEARCH,
    UNKNOWN,
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_argument,
    model_option,
    search_argument,
)
from calque.commands.rendering import FORMATS
from calque.errors import ConfigError, DataError, shell_path

if TYPE_CHECKING:
    from calque.commands.rendering import Rendering
    from calque.commands.streaming import LineTranslator
    from calque.engine import Translator
    from calque.search.settings import SearchConfig


def translate(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    settings: Annotated[
        list[str] | None,
        search_argument(help="Search settings, e.g. coverage=0.2 method=sample"),
    ] = None,
    input: Annotated[
        Path | None,
        file_option(help="Sentences, one per line (plain or compressed); stdin by default.", panel=INPUT_OUTPUT),
    ] = None,
    output: Annotated[
        Path | None, file_option(help="Write the translations to this file; stdout by default.", panel=INPUT_OUTPUT)
    ] = None,
    beam: Annotated[int | None, count_option(help="The beam size; a smaller beam is faster.", panel=SEARCH)] = None,
    nbest: Annotated[int, count_option(help="Write the N best translations of each line.", panel=SEARCH)] = 1,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist",
            rich_help_panel=SEARCH,
            help="Consider only likely words, which is faster; see `calque shortlist`.",
        ),
    ] = False,
    format: Annotated[
        str | None,
        choice_option(
            choices=FORMATS, help="tsv: line number, score and text; jsonl: all details.", panel=INPUT_OUTPUT
        ),
    ] = None,
    attention: Annotated[
        bool,
        typer.Option("--attention", rich_help_panel=INPUT_OUTPUT, help="With jsonl: also write attention weights."),
    ] = False,
    ensemble: Annotated[
        list[Path] | None,
        model_option(help="Average the probabilities with those of this run. Repeat for several.", panel=MODELS),
    ] = None,
    language: Annotated[
        Path | None, model_option(help="Fuse this language model (shallow fusion); see language_weight.", panel=MODELS)
    ] = None,
    reverse: Annotated[
        Path | None,
        model_option(help="Rerank the beam with this model of the reverse direction (noisy channel).", panel=MODELS),
    ] = None,
    prefixes: Annotated[
        Path | None,
        file_option(
            help="Force each translation to begin with the corresponding line of this file.", panel=CONSTRAINTS
        ),
    ] = None,
    terms: Annotated[
        Path | None,
        file_option(
            help="Require phrases: each line is a source term, a tab, and the phrase it requires.", panel=CONSTRAINTS
        ),
    ] = None,
    inline: Annotated[
        bool,
        typer.Option(
            "--inline",
            rich_help_panel=CONSTRAINTS,
            help='Read terminology markup in the input: <term target="required phrase">words</term>.',
        ),
    ] = False,
    forbid: Annotated[
        Path | None, file_option(help="Forbid the words in this file, one per line.", panel=CONSTRAINTS)
    ] = None,
    replace_unknown: Annotated[
        bool,
        typer.Option(
            "--replace-unknown",
            rich_help_panel=UNKNOWN,
            help="Replace unknown words by the source words that they attend to.",
        ),
    ] = False,
    dictionary: Annotated[
        Path | None,
        file_option(
            help="Replace unknown words by this dictionary: a source word, a tab, its translation.", panel=UNKNOWN
        ),
    ] = None,
    long: Annotated[
        str,
        choice_option(
            choices=("cut", "split"),
            help="Cut long lines at the model's limit, or split them into parts about as long as training lines.",
            panel=INPUT_OUTPUT,
        ),
    ] = "cut",
    batch_tokens: Annotated[
        int | None, count_option(help="The number of source pieces per batch, padding included.", panel=COMPUTATION)
    ] = None,
    invalid: Annotated[
        str,
        choice_option(
            choices=("fail", "skip", "replace"),
            help="What to do with lines that are not UTF-8; skip writes an empty translation.",
            panel=INPUT_OUTPUT,
        ),
    ] = "fail",
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Translate a file, standard input, or typed lines, with one output line per input line.

    An empty line stays empty; a line that is too long is cut, with a warning on standard error. Settings are those of
    the config's search section; `calque init` explains them. The same command resumes an interrupted output file.

    Examples:

        calque translate runs/1 --input test.de --output test.hypothesis

        echo "Guten Morgen!" | calque translate runs/1

        calque translate runs/1 --nbest 5 --beam 10 --format jsonl < test.de

        calque translate runs/1 method=sample temperature=0.7 < test.de

        calque translate runs/1 --terms terms.tsv --forbid words.txt --input test.de

        calque translate runs/1 --shortlist --precision int8 --input test.de

        echo 'Der <term target="depot">Bahnhof</term> ist zu.' | calque translate runs/1 --inline
    """
    from calque.commands.loading import (
        ModelPaths,
        read_forbidden_words,
        read_replacements,
        refuse_idle_settings,
        search_of,
    )
    from calque.commands.output import fingerprint, refuse_output
    from calque.commands.rendering import Rendering
    from calque.commands.statistical_models import load_statistical, refuse_neural_options
    from calque.commands.streaming import LineTranslator
    from calque.engine import Request, is_statistical
    from calque.engine.constraint_files import RequestBuilder
    from calque.engine.engine import WINDOW
    from calque.search.decode import check_phrases_supported

    invalid_lines = choice(invalid, ("fail", "skip", "replace"), option="--invalid")
    long_lines: Literal["cut", "split"] = choice(long, ("cut", "split"), option="--long")
    rendering = Rendering.from_options(format, nbest=nbest, attention=attention)
    paths = ModelPaths.from_options(model, ensemble or (), language, reverse, device=device, precision=precision)
    files = (prefixes, terms, forbid, dictionary)
    if is_statistical(model):
        neural = {"--shortlist": shortlist, "--attention": attention, "--ensemble": ensemble, "--language": language}
        neural |= {"--reverse": reverse, "--prefixes": prefixes, "--terms": terms, "--inline": inline}
        neural |= {"--forbid": forbid, "--replace-unknown": replace_unknown, "--dictionary": dictionary}
        refuse_neural_options(neural | {"--batch-tokens": batch_tokens}, model=model)
        refuse_unreadable(input)
        refuse_output(output, input)
        statistical = load_statistical(model, settings or [], beam=beam, device=device, precision=precision)
        template = Request(
            "", search=statistical.search, nbest=nbest, long=long_lines, detail=rendering.format == "jsonl"
        )
        statistical_engine = statistical.engine()
        statistical_engine.check(template)
        _stream(
            LineTranslator(
                statistical_engine,
                RequestBuilder(input_name(input), template=template, prefixes=None, terms=None, inline=False),
            ),
            input,
            output,
            format=format,
            rendering=rendering,
            invalid=invalid_lines,
            made_from=lambda: fingerprint(
                models=[model],
                input=input,
                files=(),
                settings=[statistical.config.search.model_dump(), rendering, invalid_lines, long],
            ),
        )
        return
    if forbid is not None and not forbid.exists():
        raise DataError(f"--forbid {forbid}: no such file; expected a file with one word per line")
    refuse_unreadable(input, *files)
    refuse_output(output, input, *files)
    translator, channel = paths.load()
    search = search_of(translator.search, settings or [], beam=beam, nbest=nbest, batch_tokens=batch_tokens)
    search = search.model_copy(update={"shortlist": search.shortlist or shortlist})
    refuse_idle_settings(settings or [], search=search, paths=paths)
    if search.shortlist and translator.shortlist is None:
        raise ConfigError(f"{model}: the model has no shortlist; add one with `calque shortlist {shell_path(model)}`")
    template = Request(
        "",
        forbidden=read_forbidden_words(forbid),
        search=search,
        nbest=nbest,
        long=long_lines,
        replace_unknown=read_replacements(replace_unknown, dictionary, translator=translator),
        detail=rendering.format == "jsonl",
    )
    requests = RequestBuilder(input_name(input), template=template, prefixes=prefixes, terms=terms, inline=inline)
    _warn(translator, search, requires_phrases=bool(terms or inline), attention=attention)
    engine = translator.engine(channel=channel)
    engine.check(template)
    if terms or inline:
        check_phrases_supported(search)
    parts = [search.model_dump(), rendering, invalid_lines, replace_unknown, long == "split", WINDOW, inline]
    parts.append(paths.fingerprint_parts(translator))
    _stream(
        LineTranslator(engine, requests),
        input,
        output,
        format=format,
        rendering=rendering,
        invalid=invalid_lines,
        made_from=lambda: fingerprint(models=paths.folders, input=input, files=files, settings=parts),
    )


def _stream(
    translator: "LineTranslator",
    input: Path | None,
    output: Path | None,
    *,
    format: str | None,
    rendering: "Rendering",
    invalid: Literal["fail", "skip", "replace"],
    made_from: Callable[[], str | None],
) -> None:
    """Translates a file, a pipe or typed lines; resumes an output file if the fingerprint `made_from()` is the same."""
    from calque.commands.output import sink
    from calque.commands.streaming import converse, stream

    typed = input is None and sys.stdin.isatty()
    if typed and output is None:
        converse(translator, rendering=rendering if format else None)
        return
    lines = input_lines(input, invalid=invalid)
    is_live = input is None or is_pipe(input)
    target = sink(output, made_from=made_from() if output else None)
    stream(translator, lines, live=is_live, typed=typed, rendering=rendering, sink=target)


def _warn(translator: "Translator", search: "SearchConfig", *, requires_phrases: bool, attention: bool) -> None:
    """Warns about options that have little or no effect with this model and search."""
    if requires_phrases and search.beam == 1:
        typer.echo(
            "with a beam of 1, search cannot choose where required phrases fit best; use a larger beam",
            err=True,
        )
    if attention and not translator.attends:
        typer.echo("--attention has no effect: this model has none; the JSON has null instead of weights", err=True)
