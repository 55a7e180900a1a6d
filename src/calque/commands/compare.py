"""The command `calque compare`, which compares systems on one test set."""

from pathlib import Path
from typing import Annotated, Any

import typer

from calque.commands.column_options import Columns
from calque.commands.compare_task import ComparisonRequest
from calque.commands.compare_tasks import table_lines, task_of
from calque.commands.compare_translations import METRICS
from calque.commands.compared_systems import Argument, Options, read_arguments
from calque.commands.inputs import choice, device_and_precision, refuse_unreadable
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_option,
)
from calque.commands.rendering import finite, json_line
from calque.errors import ConfigError

FORMATS = ("table", "json")
PAGES, DATA = (".html", ".htm"), (".json",)
VIEW = "calque/comparison"


def compare(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SYSTEM]...",
            help="Runs, model folders or output files, the baseline first: PATH, NAME=PATH, PATH:SETTING=VALUE.",
        ),
    ] = None,
    *,
    source: Annotated[Path | None, file_option(help="The sentences of the test set, one per line.")] = None,
    reference: Annotated[Path | None, file_option(help="The reference translations, one per line.")] = None,
    target: Annotated[
        Path | None,
        file_option(help="The translation (or other partner) of each --source line, to compare sentence vectors."),
    ] = None,
    text: Annotated[Path | None, file_option(help="A text file, to compare language models.")] = None,
    conll: Annotated[
        Path | None, file_option(help="A file of labelled words (CoNLL-U or columns), to compare taggers.")
    ] = None,
    sequences: Annotated[
        Path | None,
        file_option(help="A file of user histories, to compare recommenders; the last item of each is the target."),
    ] = None,
    images: Annotated[Path | None, file_option(help="A manifest of images, to compare captioners.")] = None,
    audio: Annotated[
        Path | None, file_option("--audio", help="A manifest of recordings, to compare speech recognisers.")
    ] = None,
    columns: Columns = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH,PATH",
            help="A group of systems that differ only in their seed; repeat the option for each group.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help=f"Metrics, separated by commas; by default {', '.join(METRICS)}."),
    ] = None,
    bootstrap: Annotated[
        int, count_option(at_least=0, help="The number of bootstrap resamples; 0 skips the test.")
    ] = 1000,
    randomisation: Annotated[
        int, count_option(at_least=0, help="The number of trials of approximate randomisation; 0 skips the test.")
    ] = 10_000,
    train_source: Annotated[
        list[Path] | None, file_option(help="The source side of the training data; by default that of the first run.")
    ] = None,
    train_target: Annotated[
        list[Path] | None,
        file_option(help="Training targets, to group words by frequency; by default of the first run."),
    ] = None,
    train_text: Annotated[
        list[Path] | None, file_option(help="With --text: the training text; by default that of the first run.")
    ] = None,
    training_data: Annotated[
        bool,
        typer.Option(
            help="Also break the comparison down by word frequency in the training data and by overlap with it."
        ),
    ] = True,
    tagger: Annotated[
        Path | None, model_option(help="A tagger; also report word accuracy by the label that it predicts.")
    ] = None,
    sentence_labels: Annotated[
        Path | None,
        file_option(help="A file with one label per sentence, such as its domain; also report scores by label."),
    ] = None,
    sentences: Annotated[
        int | None,
        count_option(
            help="How many of the most improved, and of the most worsened, sentences to show; 1000 by default."
        ),
    ] = None,
    beam: Annotated[
        int | None, count_option(help="The beam size of all systems; RUN:beam=1 sets it for one system.")
    ] = None,
    format: Annotated[str, choice_option(choices=FORMATS, help="The format of standard output.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Annotated[
        Path | None, file_option(help="Write a report to this file: .html (a single page for a browser) or .json.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compare two or more systems on one test set: scores, significance, and where they differ.

    A run or model folder first translates the test set. Search settings for one system may follow its path, as in
    runs/base:beam=1. A file is taken as a system's output, one line per sentence.

    Translations are compared by BLEU, chrF and TER, with sacreBLEU's paired bootstrap and approximate randomisation,
    and by sentence length, word frequency, overlap with the training data, n-grams, errors and single sentences.
    Taggers are compared by label and by confusions, and language models by the loss per word, by position and word
    frequency. The sentence vectors of any models are compared by retrieval (--source and --target). Recommenders are
    compared by the ranks of items, by length of the history and by frequency of the item. Captions are compared like
    translations, with the first caption of each image as the reference. Transcripts are compared by word and character
    error rates, by confused words and by length.

    Examples:

        calque compare runs/base runs/wide --source test.de --reference test.en --output report.html

        calque compare greedy=runs/base:beam=1 runs/base:beam=10:length_penalty=1 --source test.de --reference test.en

        calque compare base=base.txt new=new.txt --reference test.en --metric bleu,chrf

        calque compare --group base=runs/a1,runs/a2 --group wide=runs/b1,runs/b2 --source test.de --reference test.en

        calque compare runs/upos-1 runs/upos-2 --conll test.conllu

        calque compare runs/lm-1 runs/lm-2 --text test.txt --format json

        calque compare runs/popularity runs/sasrec --sequences users.txt

        calque compare runs/bag runs/captions --source test.en --target test.de

        calque compare soft=runs/soft hard=runs/hard --images test.jsonl --output captions.html

        calque compare greedy=runs/speech:beam=1 runs/speech:beam=10 --audio test.jsonl --output transcripts.html

        calque compare runs/speech with-language.txt --audio test.jsonl
    """
    format_name = "json" if as_json else choice(format, FORMATS, option="--format")
    arguments = read_arguments(systems or [], group or [])
    _refuse_few(arguments)
    given = {"--source": source, "--reference": reference, "--target": target, "--text": text, "--conll": conll}
    given |= {"--sequences": sequences, "--images": images, "--audio": audio}
    files = {option: path for option, path in given.items() if path is not None}
    outputs = [argument.path for argument in arguments if argument.is_file]
    trained = [*(train_source or ()), *(train_target or ()), *(train_text or ())]
    inputs = [*files.values(), sentence_labels, *outputs, *trained]
    refuse_unreadable(*inputs)
    _refuse_output(output, inputs)
    task = task_of(files)
    task.refuse_settings(arguments)
    special: dict[str, object] = {"--columns": columns, "--train-source": train_source, "--train-target": train_target}
    special |= {"--train-text": train_text, "--tagger": tagger, "--sentence-labels": sentence_labels, "--group": group}
    special |= {"--beam": beam, "--metric": metric, "--sentences": sentences}
    special |= {"--no-training-data": not training_data}
    task.refuse_options(
        [name for name, value in special.items() if value is not None and value is not False and value != []]
    )
    request = ComparisonRequest(
        arguments,
        files,
        Options(beam, *device_and_precision(device, precision), randomisation),
        metrics=",".join(METRICS) if metric is None else metric,
        bootstrap=bootstrap,
        sentences=1000 if sentences is None else sentences,
        columns=columns,
        train_source=train_source,
        train_target=train_target,
        train_text=train_text,
        training_data=training_data,
        tagger=tagger,
        sentence_labels=sentence_labels,
    )
    _write(finite(task.compare(request)), format=format_name, output=output)


def _refuse_few(arguments: list[Argument]) -> None:
    if len(arguments) < 2:
        count = "one system" if arguments else "no system"
        raise ConfigError(f"{count} was given; give at least two runs, model folders or output files to compare")


def _refuse_output(output: Path | None, inputs: list[Path | None]) -> None:
    from calque.commands.output import refuse_output

    if output is not None and output.suffix.lower() not in (*PAGES, *DATA):
        raise ConfigError(f"--output {output}: the name must end in .html or .json")
    refuse_output(output, *inputs)


def _write(document: dict[str, Any], *, format: str, output: Path | None) -> None:
    """Writes the comparison to standard output, as tables or JSON, and to `output` (HTML or JSON) if it is given."""
    from calque.commands.output import sink

    if output is not None:
        with sink(output) as out:
            out.write(_page(document) if output.suffix.lower() in PAGES else json_line(document))
    if format == "json":
        with sink(None) as out:
            out.write(json_line(document))
            out.flush()
        return
    for line in table_lines(document):
        typer.echo(line)
    if output is not None:
        typer.echo(f"the report is in {output}", err=True)


def _page(document: dict[str, Any]) -> bytes:
    from calque.web import page

    names = ", ".join(system["name"] for system in document["systems"])
    return page(title=f"calque compare: {names}", view=VIEW, document=document).encode()
