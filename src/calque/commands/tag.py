"""`calque tag`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import choice, input_lines, input_name, raw_input_lines, refuse_unreadable
from calque.commands.rendering import json_line, one_field
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.data.column_files import ColumnFormat
    from calque.engine import TaggedSentence, Tagger

FORMATS = ("auto", "text", "conllu", "columns")


def tag(
    model: Annotated[Path, typer.Argument(help="A run or model folder of a tagger.")],
    *,
    input: Annotated[Path | None, typer.Option(help="The file to tag (plain or .gz); else standard input.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where the labels go; else standard output.")] = None,
    format: Annotated[
        str, typer.Option(help="text (words between spaces), conllu or columns; auto goes by the file's name.")
    ] = "auto",
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns, e.g. form,pos,chunk; else those of the training files.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Write labels to a new last column.")] = False,
    marginals: Annotated[bool, typer.Option("--marginals", help="Give probabilities of labels, too.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float64.")] = "float32",
) -> None:
    """Label the words of a CoNLL-U file, a column file or raw text.

    A CoNLL-U or column file comes back byte for byte, with the predicted column replaced, or appended where there is
    none. Of text, every line is a sentence with words between white space, and gives one line: its labels, with spaces
    between them. With --marginals, column files have the probability of each label in a further column, CoNLL-U has it
    in MISC, and text becomes JSON lines with the probabilities of all labels.

    Examples:

        calque tag runs/upos --input test.conllu --output tagged.conllu

        calque tag runs/chunks --input test.txt --format columns --append > compared.txt

        echo "The dog barks ." | calque tag runs/upos
    """
    from calque.commands.output import refuse_output, sink
    from calque.devices import DEVICES, PRECISIONS
    from calque.engine.tag_files import file_format

    chosen = choice(format, FORMATS, option="--format")
    where = choice(device, DEVICES, option="--device")
    fine = choice(precision, PRECISIONS, option="--precision")
    refuse_unreadable(input)
    refuse_output(output, input)
    if chosen == "auto":
        named = file_format(input) if input is not None else None
        chosen = named or ("columns" if columns or append else "text")
    if chosen != "columns" and columns:
        raise ConfigError(f"--columns is for column files; {input_name(input)} is read as {chosen} (--format columns)")
    if chosen != "columns" and append:
        raise ConfigError(f"--append is for column files; {input_name(input)} is read as {chosen}")
    tagger = load_tagger(model, device=where, precision=fine)
    written = (
        _tagged_text(tagger, input, marginals=marginals)
        if chosen == "text"
        else _tagged_columns(tagger, input, format=chosen, columns=columns, append=append, marginals=marginals)
    )
    with sink(output) as out:
        for data in written:
            out.write(data)
        out.flush()


def load_tagger(model: Path, *, device: str, precision: str) -> "Tagger":
    """The tagger in a folder; any other model is refused."""
    from calque.engine import Tagger, load

    tagger = load(model, device=device, precision=precision)  # type: ignore[arg-type]
    if not isinstance(tagger, Tagger):
        raise DataError(f"{model}: is no tagger; train one with `calque train --conll FILE`")
    return tagger


def names_of(columns: str | None) -> tuple[str, ...]:
    """The names of columns that an option lists."""
    return tuple(name.strip() for name in columns.split(",")) if columns else ()


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

    layout = ColumnLayout.of(tagger, format=format, names=names_of(columns))
    least = layout.least(tagger.task.words, *tagger.task.inputs)
    lines = raw_input_lines(path, limit=LINE_BYTES)
    sentences = read_sentences(lines, name=input_name(path), format=format, columns=least)
    yield from tag_columns(sentences, tagger=tagger, layout=layout, append=append, marginals=marginals)


def _tagged_text(tagger: "Tagger", path: Path | None, *, marginals: bool) -> Iterator[bytes]:
    from calque.engine import Sentence
    from calque.engine.tagger import TOGETHER

    if tagger.task.inputs:
        raise DataError(
            f"this model also reads the column {', '.join(tagger.task.inputs)}, which text has not: give it a column "
            "file (--format columns)"
        )
    cut: list[int] = []

    def sentences() -> Iterator[Sentence]:
        for line in input_lines(path, invalid="fail"):
            if line.cut:
                cut.append(line.number)
            yield Sentence(line.text.split())

    typed = path is None and sys.stdin.isatty()
    for tagged in tagger.stream(sentences(), marginals=marginals, together=1 if typed else TOGETHER):
        yield _line(tagged, marginals=marginals)
    if cut:
        typer.echo(
            f"{input_name(path)}: {len(cut):,} lines are too long, the first is line {cut[0]:,}; only their beginnings "
            "were read",
            err=True,
        )


def _line(tagged: "TaggedSentence", *, marginals: bool) -> bytes:
    if marginals:
        return json_line({"words": tagged.words, "labels": tagged.labels, "marginals": tagged.marginals})
    return (" ".join(map(one_field, tagged.labels)) + "\n").encode()
