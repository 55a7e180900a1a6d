"""`calque score`."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from calque.commands.inputs import input_lines, refuse_unreadable


def score(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    source: Annotated[Path, typer.Option(help="Sentences, one a line (plain or .gz).")],
    target: Annotated[Path, typer.Option(help="Their translations, line by line.")],
    format: Annotated[str, typer.Option(help="tsv (log-probability, per piece) or jsonl (each piece).")] = "tsv",
    output: Annotated[Path | None, typer.Option(help="Where the scores go; else stdout.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float64.")] = "float32",
) -> None:
    """Give the log-probability of translations that are there already; one line out for each pair in.

    It is what search would give the same translation: log P of all its pieces and its end, in nats.

    Example:

        calque score runs/1 --source test.de --target test.en
    """
    from calque.commands.choices import choice
    from calque.commands.progress import counting
    from calque.data.alignment import refuse_misaligned
    from calque.translator import DEVICES, PRECISIONS, load

    chosen = choice(format, ("tsv", "jsonl"), option="--format")
    where = choice(device, DEVICES, option="--device")
    fine = choice(precision, PRECISIONS, option="--precision")
    refuse_unreadable(source, target)
    sources, targets = (
        [line.text for line in input_lines(path, limit=1 << 16, invalid="fail")] for path in (source, target)
    )
    if len(sources) != len(targets):
        refuse_misaligned(source, target=target)
    translator = load(model, device=where, precision=fine)
    rows, total, pieces = [], 0.0, 0
    with counting("scoring", total=len(sources)) as more:
        for number, found in enumerate(translator.score(sources, targets), start=1):
            total, pieces = total + found.log_prob, pieces + len(found.log_probs)
            if found.cut:
                typer.echo(f"{source}: line {number}: too long; only the beginnings of the pair were read", err=True)
            if chosen == "jsonl":
                values = {"line": number, "log_prob": found.log_prob, **found._asdict()}
                rows.append(json.dumps(values, ensure_ascii=False))
            else:
                rows.append(f"{found.log_prob:.4f}\t{found.log_prob / len(found.log_probs):.4f}")
            more(1)
    text = "".join(f"{row}\n" for row in rows)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", newline="\n")
    perplexity = math.exp(min(-total / max(pieces, 1), 700.0))
    typer.echo(f"{len(sources):,} pairs, {pieces:,} pieces, perplexity {perplexity:.3f} per piece", err=True)
