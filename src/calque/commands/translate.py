"""`calque translate`."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from calque.commands.inputs import input_lines, input_name, refuse_unreadable
from calque.commands.windows import WINDOW, windows
from calque.errors import ConfigError, DataError, TextError

if TYPE_CHECKING:
    from calque.commands.answering import Answered, Answering, Channel
    from calque.commands.rendering import Rendering
    from calque.commands.resuming import Part
    from calque.data.lines import Invalid
    from calque.search.settings import SearchConfig
    from calque.translator import DeviceName, PrecisionName, Translator

LINE_LIMIT = 1 << 16  # bytes of a line that are read; a model reads far less
FORMATS = ("text", "tsv", "jsonl")


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
        str, typer.Option(help="A line with more pieces than the model reads: cut it, or split it into sentences.")
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
    from calque.commands import wishes
    from calque.commands.answering import Answering
    from calque.commands.choices import choice
    from calque.commands.rendering import Rendering
    from calque.commands.resuming import Part
    from calque.translator import DEVICES, PRECISIONS

    policy = choice(invalid, ("fail", "skip", "replace"), option="--invalid")
    chosen = choice(format or ("text" if nbest == 1 else "tsv"), FORMATS, option="--format")
    if attention and chosen != "jsonl":
        raise DataError("--attention goes with --format jsonl")
    splits = choice(long, ("cut", "split"), option="--long") == "split"
    where = choice(device, DEVICES, option="--device")
    fine = choice(precision, PRECISIONS, option="--precision")
    refuse_unreadable(input, prefixes, terms, forbid, dictionary)
    _refuse_output(output, input=input)
    company = _Company(model, tuple(ensemble or ()), language, reverse)
    translator, channel = company.load(device=where, precision=fine)
    rendering = Rendering(chosen, nbest=nbest, attention=attention)
    answering = Answering(
        translator,
        _search(translator, settings or [], beam=beam, nbest=nbest, batch_tokens=batch_tokens),
        wishes.Requests(input_name(input), prefixes=prefixes, terms=terms, inline=inline),
        wishes.read(forbid=forbid, replace_unknown=replace_unknown, dictionary=dictionary, detail=chosen == "jsonl"),
        nbest,
        splits,
        channel,
    )
    if input is None and output is None and sys.stdin.isatty():
        _converse(answering, rendering=rendering if format else None)
        return
    part = None
    if output is not None:
        ways = [answering.search.model_dump(), rendering._asdict(), policy, replace_unknown, splits, WINDOW]
        ways += [inline, fine, translator.device.type, company.shape]
        part = Part(output, models=company.folders, inputs=(input, prefixes, terms, forbid, dictionary), settings=ways)
    _stream(answering, input, invalid=policy, rendering=rendering, part=part)


class _Company(NamedTuple):
    """The models that translate together."""

    model: Path
    ensemble: tuple[Path, ...]
    language: Path | None
    reverse: Path | None

    @property
    def folders(self) -> list[Path]:
        return [self.model, *self.ensemble, *(each for each in (self.language, self.reverse) if each)]

    @property
    def shape(self) -> list[int]:
        """Which of the folders is what."""
        return [len(self.ensemble), bool(self.language), bool(self.reverse)]

    def load(self, *, device: "DeviceName", precision: "PrecisionName") -> "tuple[Translator, Channel | None]":
        """One translator of all, and what ranks its beam again where that was asked for."""
        from calque.commands.answering import Channel
        from calque.translator import load

        loaded = {path: load(path, device=device, precision=precision) for path in self.folders}
        prior = loaded[self.language] if self.language else None
        if prior is not None and not prior.is_language_model:
            raise DataError(
                f"{self.language}: reads a source, so it is no language model; train one with --system language"
            )
        translator, others = loaded[self.model], [loaded[each] for each in self.ensemble]
        if self.reverse is not None:
            return translator.beside(others) if others else translator, Channel(loaded[self.reverse], prior)
        return translator.beside(others, language=prior) if others or prior else translator, None


def _refuse_output(output: Path | None, *, input: Path | None) -> None:
    if input and output and output.exists() and output.samefile(input):
        raise DataError(f"{output}: is the input too, and would be lost; choose another --output")
    if output and output.is_dir():
        raise DataError(f"{output}: is a folder; name a file for --output")


def _stream(
    answering: "Answering", input: Path | None, *, invalid: "Invalid", rendering: "Rendering", part: "Part | None"
) -> None:
    """Answers go out as soon as they are there: to standard output, or behind what a cut file holds already."""
    from calque.commands.progress import counting
    from calque.commands.rendering import render

    name, done = input_name(input), part.lines if part else 0
    if part and done:
        typer.echo(f"{part.path}: going on behind line {done:,}", err=True)
    with part or nullcontext(sys.stdout.buffer) as sink, counting("translating", total=None) as more:
        lines = input_lines(input, limit=LINE_LIMIT, invalid=invalid)
        for window in windows(lines, live=input is None, skip=done):
            for answered in answering.answers(window):
                _report(answered, name=name, limit=answering.search.source_limit)
                sink.write(render(answered, rendering=rendering))
            sink.flush()
            more(len(window))
            done = window[-1].number
            if part is not None:
                part.reached(done)
        answering.requests.end(done)


def _search(
    translator: "Translator", settings: list[str], *, beam: int | None, nbest: int, batch_tokens: int | None
) -> "SearchConfig":
    from calque.config import check, override, to_values
    from calque.search.settings import SearchConfig

    for text in settings:
        if "=" not in text:
            raise ConfigError(f"{text!r} is not a setting: write KEY=VALUE, e.g. coverage=0.2")
    least = max(translator.search.beam, nbest)
    values = {**to_values(translator.search), "beam": beam or least}
    if batch_tokens:
        values["batch_tokens"] = batch_tokens
    return check(SearchConfig, override(values, settings), origin="search settings")


def _report(answered: "Answered", *, name: str, limit: int) -> None:
    """Says on standard error what of a line was not translated, or looks wrong."""
    line, translation = answered.line, answered.translation
    where = f"{name}: line {line.number}"
    if line.invalid is not None:
        typer.echo(f"{where}: byte {line.invalid} is not UTF-8", err=True)
    best = translation.candidates[0]
    if line.cut or translation.source_cut:
        typer.echo(f"{where}: too long; only its beginning ({limit} pieces) was read", err=True)
    elif best.cut:
        typer.echo(f"{where}: the translation reached its maximum length", err=True)
    if "loop" in best.oddities:
        typer.echo(f"{where}: the translation repeats itself", err=True)


def _converse(answering: "Answering", *, rendering: "Rendering | None") -> None:
    """Answers what is typed, line by line; as a file's lines would be where a format was asked for."""
    from calque.commands.rendering import render
    from calque.data.lines import Line

    typer.echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # results alone go into a file
    number = 1
    while True:
        try:
            text = input(prompt)
            text.encode()  # a terminal's bytes that are no text come as lone surrogates
            (answered,) = answering.answers([Line(text, number, cut=False, invalid=None)])
        except EOFError:
            return
        except UnicodeError:
            typer.echo("that line is not UTF-8", err=True)
            continue
        except (TextError, DataError) as error:
            typer.echo(str(error), err=True)
            continue
        number += 1
        _report(answered, name="standard input", limit=answering.search.source_limit)
        if rendering is not None:
            typer.echo(render(answered, rendering=rendering), nl=False)
            continue
        for each in answered.translation.candidates:
            typer.echo(each.text if answering.nbest == 1 else f"{each.score:8.3f}  {each.text}")
