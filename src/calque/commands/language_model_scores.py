"""`calque evaluate --text`: computes the perplexity of a text under a language model."""

import json
from pathlib import Path

import typer

from calque.commands.inputs import device_and_precision, input_lines, refuse_unreadable
from calque.errors import DataError


def evaluate_language_model(model: Path, *, text: Path, as_json: bool, device: str, precision: str) -> None:
    """Prints the perplexity of a text per piece, word and byte."""
    from calque.commands.loading import load_to_evaluate
    from calque.engine import TextGenerator

    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(text)
    generator = load_to_evaluate(model, TextGenerator, device=device_name, precision=precision_name)
    result = generator.perplexity(_whole_lines(text))
    values = {"per piece": result.per_token, "per word": result.per_word, "per byte": result.per_byte}
    counts = {"per piece": result.tokens, "per word": result.words, "per byte": result.bytes}
    if as_json:
        perplexities = {name.replace("per ", "perplexity_"): value for name, value in values.items()}
        typer.echo(json.dumps({**perplexities, "nats": result.nats, **result._asdict()}, indent=1))
        return
    for name, value in values.items():
        unit = name.removeprefix("per ")
        typer.echo(f"perplexity {name:10} {value:9.3f}   {counts[name]:,} {unit}s, line ends counted")


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file; raises a DataError if one is too long, since cutting it would change the perplexity."""
    from calque.data.corpora import RUNNING_LIMIT

    lines = list(input_lines(path, limit=RUNNING_LIMIT, invalid="fail"))
    if long := [line.number for line in lines if line.cut]:
        raise DataError(f"{path}: line {long[0]:,} has more than {RUNNING_LIMIT >> 20} MiB; split it")
    return [line.text for line in lines]
