"""The command `calque tag`, which labels words."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calque.commands.column_options import column_names, found_format
from calque.commands.inputs import (
    choice,
    device_and_precision,
    input_lines,
    input_name,
    raw_input_lines,
    refuse_unreadable,
)
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    file_option,
    model_argument,
)
from calque.commands.rendering import json_line, one_field
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.data.column_files import ColumnFormat
    from calque.engine import TaggedSentence, Tagger

FORMATS = ("auto", "text", "conllu", "columns")

_SUSPICIOUS = 10  # lines with equally many words, which suggest a column file that is read as text


def tag(
    model: Annotated[Path, model_argument(help="A run or model folder of a tagger.")],
    *,
    input: Annotated[Path | None, file_option(help="The file to tag (plain or compressed); stdin by default.")] = None,
    output: Annotated[
        Path | None, file_option(help="Write the labelled words to this file; stdout by default.")
    ] = None,
    format: Annotated[
        str,
        choice_option(
            choices=FORMATS, help="text: words separated by spaces; auto: decided by the file's name and content."
        ),
    ] = "auto",
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="The names of the columns, e.g. form,pos,chunk; by default those used in training."
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Write the labels to a new last column instead of replacing a column.")
    ] = False,
    marginals: Annotated[bool, typer.Option("--marginals", help="Also write the probability of each label.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Label the words of a CoNLL-U file, a column file or raw text.

    The format follows from the file's name, from the files that the model was trained on and from the file's first
    word; --format sets it. Standard input is text.

    A CoNLL-U or column file is copied byte for byte, with the predicted column replaced, or appended if it is missing.
    In text, every line is a sentence of words separated by white space, and the output contains its labels on one line,
    separated by spaces. With --marginals, the probability of each predicted label is written to a further column (in
    CoNLL-U, to MISC); for text, the output is JSON lines with the probabilities of all labels.

    Examples:

        calque tag runs/upos --input test.conllu --output tagged.conllu

        calque tag runs/chunks --input test.txt --format columns --append > compared.txt

        echo "The dog barks ." | calque tag runs/upos
    """
    from calque.commands.output import refuse_output, sink
    from calque.engine import load_tagger

    format_name = choice(format, FORMATS, option="--format")
    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(input)
    refuse_output(output, input)
    tagger = load_tagger(model, device=device_name, precision=precision_name)
    format_name = _input_format(format_name, input, columns=columns, append=append, tagger=tagger)
    rows = (
        _tagged_text(tagger, input, marginals=marginals)
        if format_name == "text"
        else _tagged_columns(tagger, input, format=format_name, columns=columns, append=append, marginals=marginals)
    )
    with sink(output) as out:
        for row in rows:
            out.write(row)
        out.flush()


def _input_format(
    format: "ColumnFormat | Literal['auto', 'text']",
    path: Path | None,
    *,
    columns: str | None,
    append: bool,
    tagger: "Tagger",
) -> "ColumnFormat | Literal['text']":
    """Resolves the format `auto`; raises a ConfigError if options for column files are given with another format.

    With `auto`, the file's suffix decides. If it is unknown, a file is a column file if --columns or --append is given
    or the tagger was trained on column files, otherwise CoNLL-U if its first word line is CoNLL-U, and otherwise text.
    Standard input is a column file with --columns or --append, and otherwise text.
    """
    if format == "auto":
        is_columns = bool(columns or append)
        if path is None:
            format = "columns" if is_columns else "text"
        else:
            format = found_format(path, is_columns=is_columns or bool(tagger.columns)) or "text"
    if format != "columns" and columns:
        raise ConfigError(
            f"--columns needs a column file, but {input_name(path)} is read as {format}; add --format columns"
        )
    if format != "columns" and append:
        raise ConfigError(
            f"--append needs a column file (one word per line), but {input_name(path)} is read as {format}"
        )
    return format


def _tagged_columns(
    tagger: "Tagger",
    path: Path | None,
    *,
    format: "ColumnFormat",
    columns: str | None,
    append: bool,
    marginals: bool,
) -> Iterator[bytes]:
    from calque.data.column_files import LINE_BYTES, read_sentences
    from calque.engine.tag_files import ColumnLayout, tag_columns

    layout = ColumnLayout.of(tagger, format=format, names=column_names(columns))
    minimum = layout.least(tagger.task.words, *tagger.task.inputs)
    lines = raw_input_lines(path, limit=LINE_BYTES)
    sentences = read_sentences(lines, name=input_name(path), format=format, columns=minimum)
    yield from tag_columns(sentences, tagger=tagger, layout=layout, append=append, marginals=marginals)


def _tagged_text(tagger: "Tagger", path: Path | None, *, marginals: bool) -> Iterator[bytes]:
    from calque.engine import Sentence
    from calque.engine.tagger import TOGETHER

    if tagger.task.inputs:
        raise DataError(
            f"this model also reads the column {', '.join(tagger.task.inputs)}, which text does not have; give a "
            "column file (--format columns)"
        )
    cut: list[int] = []
    sizes = Counter[int]()  # sentences by their number of words

    def sentences() -> Iterator[Sentence]:
        for line in input_lines(path, invalid="fail"):
            if line.cut:
                cut.append(line.number)
            words = line.text.split()
            sizes[len(words)] += 1
            yield Sentence(words)

    typed = path is None and sys.stdin.isatty()
    for tagged in tagger.stream(sentences(), marginals=marginals, together=1 if typed else TOGETHER):
        yield _line(tagged, marginals=marginals)
    del sizes[0]
    if len(sizes) == 1 and 1 not in sizes and sizes.total() >= _SUSPICIOUS:
        typer.echo(
            f"warning: every line of {input_name(path)} has {next(iter(sizes))} words; if it is a column file with one "
            "word per line, use --format columns",
            err=True,
        )
    if cut:
        typer.echo(
            f"{input_name(path)}: {len(cut):,} lines are too long, the first of them line {cut[0]:,}; only their "
            "beginnings were read",
            err=True,
        )


def _line(tagged: "TaggedSentence", *, marginals: bool) -> bytes:
    if marginals:
        return json_line({"words": tagged.words, "labels": tagged.labels, "marginals": tagged.marginals})
    return (" ".join(map(one_field, tagged.labels)) + "\n").encode()
