"""The command `calque embed`, which computes sentence vectors and finds nearest sentences."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import choice, device_and_precision, is_pipe, refuse_unreadable
from calque.commands.options import (
    COMPUTATION,
    INPUT_OUTPUT,
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_argument,
)
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import Loaded
    from calque.engine.sentence_vectors import VectorReader

POOLINGS = ("last", "mean", "attention")
SIDES = ("source", "target")
INVALID = ("fail", "skip", "replace")
NEAREST = "Nearest sentences"
TOP = 5


def embed(
    model: Annotated[Path, model_argument(help="A run or model folder of any text model.")],
    *,
    input: Annotated[
        Path | None, file_option(help="Sentences, one per line (plain or compressed); stdin by default.")
    ] = None,
    output: Annotated[
        Path | None,
        file_option(
            help="Write the vectors to this NumPy file (JSON lines with --jsonl); JSON lines on stdout by default."
        ),
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Write JSON lines with texts and vectors.")] = False,
    pooling: Annotated[
        str | None,
        choice_option(choices=POOLINGS, help="How to combine the vectors of all positions into one; mean by default."),
    ] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale every vector to length 1.")] = False,
    side: Annotated[
        str | None,
        choice_option(
            choices=SIDES,
            help="Encode the sentences as sources or as targets of the training pairs; source by default.",
        ),
    ] = None,
    nearest: Annotated[
        Path | None,
        file_option(help="Find the nearest sentences in this file instead of writing vectors.", panel=NEAREST),
    ] = None,
    top: Annotated[
        int | None, count_option(help="The number of nearest sentences to find; 5 by default.", panel=NEAREST)
    ] = None,
    nearest_side: Annotated[
        str | None,
        choice_option(
            choices=SIDES,
            help="Encode the file of --nearest as sources or as targets; target by default.",
            panel=NEAREST,
        ),
    ] = None,
    invalid: Annotated[
        str,
        choice_option(
            choices=INVALID,
            help="What to do with lines that are not UTF-8; skip treats them as empty.",
            panel=INPUT_OUTPUT,
        ),
    ] = "fail",
    batch_tokens: Annotated[
        int | None, count_option(help="The number of pieces or words per batch, padding included.", panel=COMPUTATION)
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compute a vector for each sentence, with the encoder of any model, or find the nearest sentences of a file.

    The model may be a sentence encoder (`calque train --system sentences`), a translation model (its encoder reads the
    source), a language model or a tagger. --pooling takes the mean of all positions, the last state, or a weighted
    mean by attention; a sentence encoder always uses the pooling that it was trained with. The vector of a line without
    words is 0.

    --nearest searches exactly, by cosine. The output has one line per neighbour with five columns, separated by tabs:
    input line, rank, cosine, line in the file, sentence. With --jsonl, it has one JSON line per input sentence.

    Examples:

        calque embed runs/captions --input test.en --output vectors.npy

        calque embed runs/captions --input test.de --side target --jsonl > vectors.jsonl

        calque embed runs/captions --input queries.en --nearest captions.de --top 3

        calque embed runs/translation --pooling mean --normalise --input test.en --output vectors.npy
    """
    from calque.commands.output import fingerprint, refuse_output
    from calque.commands.sentence_vectors import Output, VectorSettings, write_nearest, write_vectors
    from calque.engine import load
    from calque.memory import keep_memory

    if pooling is not None:
        choice(pooling, POOLINGS, option="--pooling")
    invalid_lines = choice(invalid, INVALID, option="--invalid")
    device_name, precision_name = device_and_precision(device, precision)
    if nearest is None and (top is not None or nearest_side is not None):
        raise ConfigError("--top and --nearest-side need --nearest FILE, the sentences to search")
    refuse_unreadable(input, nearest)
    refuse_output(output, input, nearest)
    refuse_unwritable(output, jsonl=jsonl, nearest=nearest)
    keep_memory()
    loaded = load(model, device=device_name, precision=precision_name)
    reader = reader_of(loaded, side, default="source", option="--side")
    settings = VectorSettings.checked(
        reader, pooling=pooling, normalise=normalise, invalid=invalid_lines, batch_tokens=batch_tokens
    )
    made_from = None
    if output is not None:
        parts = [settings.pooling, normalise, side, nearest_side, top, jsonl, invalid, device, precision]
        made_from = fingerprint(models=[model], input=input, files=[nearest], settings=parts)
    is_live = input is None or is_pipe(input)
    written = Output(output, jsonl=jsonl, made_from=made_from, live=is_live)
    if nearest is None:
        write_vectors(reader, input, settings, output=written)
        return
    corpus_reader = reader_of(loaded, nearest_side, default="target", option="--nearest-side")
    write_nearest(reader, input, settings, output=written, corpus=nearest, corpus_reader=corpus_reader, top=top or TOP)


def reader_of(loaded: "Loaded", side: str | None, *, default: str, option: str) -> "VectorReader":
    """The reader that encodes source or target texts; `side` is rejected if the model encodes all texts alike."""
    from calque.engine import SentenceEncoder, model_kind
    from calque.engine.sentence_vectors import EmbedsText

    if isinstance(loaded, SentenceEncoder):
        return loaded.vector_reader(choice(side or default, SIDES, option=option))
    if side is not None:
        raise ConfigError(
            f"{option}: this is {model_kind(loaded)}, which does not distinguish sources from targets; leave the "
            "option out"
        )
    if isinstance(loaded, EmbedsText):
        return loaded.vector_reader()
    raise DataError(f"{model_kind(loaded)} has no sentence encoder, so it cannot compute sentence vectors")


def refuse_unwritable(output: Path | None, *, jsonl: bool, nearest: Path | None) -> None:
    """Raises an error if a NumPy file would be written to a pipe, or if the output has the suffix of another format."""
    from calque.commands.output import is_replaceable

    if output is None or jsonl or nearest is not None:
        return
    if not is_replaceable(output):
        raise DataError(f"{output}: a NumPy file cannot be written to a pipe; add --jsonl")
    if output.suffix in (".jsonl", ".json", ".txt", ".tsv"):
        raise ConfigError(
            f"{output}: without --jsonl, the output is a NumPy file; add --jsonl, or choose a name that ends in .npy"
        )
