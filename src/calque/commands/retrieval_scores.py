"""`calque evaluate --source --target`: scores the sentence vectors of a model by retrieval."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from calque.commands.embed import POOLINGS as POOLINGS
from calque.commands.embed import reader_of
from calque.commands.inputs import choice, device_and_precision, input_lines, refuse_unreadable
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import Loaded
    from calque.evaluation.retrieval import Ranks

NAMES = {"top1": "top-1", "top5": "top-5", "mrr": "MRR"}


class SentencePairs(NamedTuple):
    """The lines of a source and a target file."""

    sources: list[str]
    targets: list[str]


def evaluate_retrieval(
    model: Path,
    *,
    source: Path | None,
    target: Path,
    pooling: str | None,
    as_json: bool,
    device: str,
    precision: str,
) -> None:
    """Prints retrieval scores: how high each line's translation ranks, by cosine, among the lines of the other file."""
    from calque.engine import load
    from calque.memory import keep_memory

    if source is None:
        raise ConfigError(
            "--target needs --source too: line n of the target file is the translation of line n of the source file"
        )
    if pooling is not None:
        choice(pooling, POOLINGS, option="--pooling")
    device_name, precision_name = device_and_precision(device, precision)
    pairs = read_pairs_of_lines(source, target)
    keep_memory()
    loaded = load(model, device=device_name, precision=precision_name)
    scores = retrieval_ranks(loaded, pairs, pooling=pooling).scores
    directions = {"source to target": scores.to_target, "target to source": scores.to_source, "mean": scores.mean}
    if as_json:
        values = {name.replace(" ", "_"): direction._asdict() for name, direction in directions.items()}
        typer.echo(json.dumps({**values, "pairs": len(pairs.sources)}, indent=1))
        return
    typer.echo(f"{'retrieval, %':18}" + "".join(f"{name:>8}" for name in NAMES.values()))
    for name, direction in directions.items():
        typer.echo(f"{name:18}" + "".join(f"{value:8.2f}" for value in direction))
    typer.echo(f"{len(pairs.sources):,} pairs", err=True)


def read_pairs_of_lines(source: Path, target: Path) -> SentencePairs:
    """The lines of two files; raises an error if they do not line up or are empty."""
    from calque.data.line_counts import refuse_misaligned

    refuse_unreadable(source, target)
    sources, targets = ([line.text for line in input_lines(path, invalid="fail")] for path in (source, target))
    if len(sources) != len(targets):
        refuse_misaligned(source, target=target)
    if not sources:
        raise DataError(f"{source} is empty; expected one sentence per line")
    return SentencePairs(sources, targets)


def retrieval_ranks(loaded: "Loaded", pairs: SentencePairs, *, pooling: str | None) -> "Ranks":
    """The rank of each line's translation among all lines of the other file, by the cosines of sentence vectors."""
    from calque.commands.progress import counting
    from calque.commands.sentence_vectors import unit_vectors
    from calque.engine.sentence_vectors import checked_pooling
    from calque.evaluation.retrieval import partner_ranks

    vectors = []
    with counting("embedding", total=2 * len(pairs.sources)) as advance:
        for side, texts in (("source", pairs.sources), ("target", pairs.targets)):
            reader = reader_of(loaded, None, default=side, option="")
            vectors.append(unit_vectors(reader, texts, pooling=checked_pooling(reader, pooling), advance=advance))
    return partner_ranks(vectors[0], vectors[1], sources=pairs.sources, targets=pairs.targets)
