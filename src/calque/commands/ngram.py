"""The commands `calque ngram export` and `calque ngram import`, which write and read ARPA files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.command_group import CommandGroup
from calque.commands.inputs import choice, refuse_unreadable
from calque.commands.option_hints import HintingCommand
from calque.commands.options import choice_option, file_option, model_argument, model_option
from calque.errors import FolderError

if TYPE_CHECKING:
    from calque.statistics.ngram_tables import NgramTables
    from calque.text import Tokenizer

READINGS = ("auto", "lines", "running")

app = typer.Typer(cls=CommandGroup, help="Export n-gram models as ARPA files, or import them.", no_args_is_help=True)


@app.command(cls=HintingCommand)
def export(
    model: Annotated[Path, model_argument(help="A run or model folder of an n-gram model.")],
    output: Annotated[
        Path | None,
        file_option(help="The ARPA file to write, compressed if it is named .gz, .xz or .bz2; stdout by default."),
    ] = None,
) -> None:
    """Write an n-gram model as an ARPA file, which SRILM, KenLM and other tools read.

    The words of the file are the pieces of the model's vocabulary. White space inside a piece is written as its code
    point, such as <U+0020>. A model of running text has no n-grams that begin with <s>, because each of its lines
    follows the </s> of the line before.

    Examples:

        calque ngram export runs/kneser-ney --output model.arpa

        calque ngram export runs/kneser-ney --output model.arpa.gz
    """
    from calque.commands.output import refuse_output, sink
    from calque.commands.progress import preparing
    from calque.data.compression import compressor_for
    from calque.engine.folder import load_text_generator
    from calque.engine.ngram_models import ngram_tables
    from calque.statistics.arpa import arpa_lines

    refuse_output(output)
    compressor = compressor_for(output)
    generator = load_text_generator(model, device="cpu")
    tables = ngram_tables(generator, origin=str(model))
    with sink(output) as out, preparing() as progress:
        for lines in arpa_lines(tables, generator.tokenizer.vocabulary.pieces, progress=progress):
            out.write(compressor.compress(lines.encode()))
        out.write(compressor.flush())
        out.flush()
    typer.echo(f"wrote {_listed(tables)}", err=True)


@app.command("import", cls=HintingCommand)
def import_arpa(
    arpa: Annotated[Path, typer.Argument(metavar="FILE", help="An ARPA file (plain or compressed).")],
    output: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new model folder.")],
    like: Annotated[
        Path | None,
        model_option(
            help="Use the tokenizer of this run or model, e.g. of a translator that the model will be fused with."
        ),
    ] = None,
    reading: Annotated[
        str,
        choice_option(
            choices=READINGS,
            help="What precedes a line: <s> (lines), the previous line and </s> (running); auto: as the file implies.",
        ),
    ] = "auto",
) -> None:
    """Read an ARPA file of SRILM, KenLM or another tool, and write it as a language model.

    By default, the model has the vocabulary of the file and splits text into words at white space. With --like, the
    file's words must be pieces of that model's vocabulary, and pieces that are missing from the file share the
    probability of its <unk>. Errors name the line of the file.

    Examples:

        calque ngram import news.arpa.gz models/news

        calque evaluate models/news --text test.en

        calque ngram import pieces.arpa models/prior --like runs/de-en

        calque translate runs/de-en --language models/prior --input test.de
    """
    from calque.commands.progress import preparing
    from calque.engine.language_model_folder import save_language_model
    from calque.engine.ngram_models import arpa_card, arpa_generator
    from calque.statistics.arpa import read_arpa

    reading_name = choice(reading, READINGS, option="--reading")
    refuse_unreadable(arpa)
    if output.exists():
        raise FolderError(f"{output} already exists; choose another folder")
    tokenizer = None if like is None else _tokenizer(like)
    with preparing() as progress:
        pieces = None if tokenizer is None else tokenizer.vocabulary.pieces
        found = read_arpa(arpa, pieces=pieces, progress=progress)
    if reading_name == "auto":
        reading_name = "running" if found.is_running else "lines"
    generator = arpa_generator(found, tokenizer=tokenizer, reading=reading_name)
    save_language_model(output, generator, card=arpa_card(found, name=arpa.name))
    if like is None and any(piece.startswith("▁") for piece in generator.tokenizer.vocabulary.pieces):
        typer.echo(
            f"warning: {arpa}: the file contains pieces of a tokenizer, such as ▁the, but the new model splits text "
            "into whole words, most of which the file lacks; use --like MODEL, where MODEL has the file's tokenizer",
            err=True,
        )
    for remark in found.remarks:
        typer.echo(f"warning: {arpa}: {remark}", err=True)
    typer.echo(f"read {_listed(found.tables)}", err=True)
    typer.echo(output)


def _listed(tables: "NgramTables") -> str:
    """A list such as "9 1-grams, 20 2-grams"; the padding symbol, which is stored as a 1-gram, is not counted."""
    sizes = [tables.sizes[0] - 1, *tables.sizes[1:]]
    return ", ".join(f"{size:,} {order}-grams" for order, size in enumerate(sizes, start=1))


def _tokenizer(path: Path) -> "Tokenizer":
    """The tokenizer of the model at `path`: for a language model, of its text; for a translator, of the target side."""
    from calque.errors import TextError
    from calque.text import GivenConfig, load_tokenizer

    try:
        return load_tokenizer(GivenConfig(path=path).folder, column="text")
    except TextError as error:
        raise FolderError(f"--like: {str(error).removeprefix('text.path: ')}") from None
