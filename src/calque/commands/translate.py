"""`calque translate`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from calque.commands.inputs import choice, input_lines, input_name, is_pipe, refuse_unreadable


def translate(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Search settings, e.g. coverage=0.2 method=sample"),
    ] = None,
    input: Annotated[Path | None, typer.Option(help="Sentences, one a line (plain or .gz); else stdin.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where translations go; else stdout.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept a step; fewer is quicker.")] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Give the N best of each line.")] = 1,
    format: Annotated[
        str | None, typer.Option(help="text, tsv (line, score, text) or jsonl (all there is to know).")
    ] = None,
    attention: Annotated[bool, typer.Option("--attention", help="Attention weights too, in jsonl.")] = False,
    ensemble: Annotated[
        list[Path] | None, typer.Option(help="Another run whose probabilities are averaged with the first's.")
    ] = None,
    language: Annotated[
        Path | None, typer.Option(help="A language model that counts at each step; see language_weight.")
    ] = None,
    reverse: Annotated[
        Path | None, typer.Option(help="A model of the other direction that ranks the beam again (noisy channel).")
    ] = None,
    prefixes: Annotated[Path | None, typer.Option(help="How each translation begins, line by line.")] = None,
    terms: Annotated[
        Path | None, typer.Option(help="Source term, tab, phrase that must appear when the term does.")
    ] = None,
    inline: Annotated[
        bool, typer.Option("--inline", help='Lines have marks: <term target="what must appear">words</term>.')
    ] = False,
    forbid: Annotated[Path | None, typer.Option(help="Words that must not appear, one a line.")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Unknown words become the source words they come from.")
    ] = False,
    dictionary: Annotated[Path | None, typer.Option(help="Source word, tab, what replaces it when unknown.")] = None,
    long: Annotated[
        str, typer.Option(help="A long line: cut it at what the model reads, or split it into parts it is used to.")
    ] = "cut",
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source positions decoded together.")] = None,
    invalid: Annotated[str, typer.Option(help="A line that is not UTF-8: fail, skip (empty) or replace.")] = "fail",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 (half the memory, for GPUs) or float64.")
    ] = "float32",
) -> None:
    """Translate a file, standard input, or what you type; one line out for each line in.

    An empty line stays empty; one that is too long is cut and reported on standard error. Settings are those of the
    config's search section; `calque init` explains them. A file that was cut off is finished by the same command.

    Examples:

        calque translate runs/1 --input test.de --output test.hypothesis

        echo "Guten Morgen!" | calque translate runs/1

        calque translate runs/1 --nbest 5 --beam 10 --format jsonl < test.de

        calque translate runs/1 method=sample temperature=0.7 < test.de

        calque translate runs/1 --terms terms.tsv --forbid words.txt --input test.de

        echo 'Der <term target="depot">Bahnhof</term> ist zu.' | calque translate runs/1 --inline
    """
    from calque.commands.loading import ModelPaths, output_options, refuse_idle_settings, search_of
    from calque.commands.output import fingerprint, refuse_output, sink
    from calque.commands.rendering import Rendering
    from calque.commands.streaming import converse, stream
    from calque.engine.constraint_files import RequestBuilder
    from calque.engine.pipeline import Pipeline
    from calque.engine.translator import WINDOW

    policy = choice(invalid, ("fail", "skip", "replace"), option="--invalid")
    splits = choice(long, ("cut", "split"), option="--long") == "split"
    rendering = Rendering.chosen(format, nbest=nbest, attention=attention)
    paths = ModelPaths.chosen(model, ensemble or (), language, reverse, device=device, precision=precision)
    files = (prefixes, terms, forbid, dictionary)
    refuse_unreadable(input, *files)
    refuse_output(output, input, *files)
    translator, channel = paths.load()
    search = search_of(translator.search, settings or [], beam=beam, nbest=nbest, batch_tokens=batch_tokens)
    refuse_idle_settings(settings or [], search=search, paths=paths)
    requests = RequestBuilder(input_name(input), prefixes=prefixes, terms=terms, inline=inline)
    options = output_options(
        forbid, replace_unknown, dictionary, detail=rendering.format == "jsonl", translator=translator
    )
    if (terms or inline) and search.beam == 1:
        typer.echo(
            "a beam of 1 puts required phrases where it must, not where they fit; a wider one does better", err=True
        )
    if attention and not translator.attends:
        typer.echo("--attention: changes nothing here: this model has no attention, so its weights are null", err=True)
    pipeline = Pipeline(translator, search, requests, options, nbest, splits, channel)
    if input is None and output is None and sys.stdin.isatty():
        converse(pipeline, rendering=rendering if format else None)
        return
    ways = [search.model_dump(), rendering, policy, replace_unknown, splits, WINDOW, inline, paths.ways(translator)]
    made_from = fingerprint(models=paths.folders, input=input, files=files, settings=ways) if output else None
    lines = input_lines(input, invalid=policy)
    is_live = input is None or is_pipe(input)
    typed = input is None and sys.stdin.isatty()
    out = sink(output, made_from=made_from)
    stream(pipeline, lines, live=is_live, typed=typed, rendering=rendering, sink=out)
