"""`calque score`."""

import math
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import choice, input_lines, is_pipe, refuse_unreadable
from calque.commands.rendering import json_line
from calque.errors import DataError

if TYPE_CHECKING:
    from calque.data.lines import Line
    from calque.engine import Scored


def score(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    target: Annotated[Path, typer.Option(help="Translations, one a line (plain or .gz); of a language model, text.")],
    source: Annotated[Path | None, typer.Option(help="What they translate; not for a language model.")] = None,
    format: Annotated[str, typer.Option(help="tsv (log-probability, per piece) or jsonl (each piece).")] = "tsv",
    output: Annotated[Path | None, typer.Option(help="Where the scores go; else stdout.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float64.")] = "float32",
) -> None:
    """Give the log-probability of translations that are there already; one line out for each pair in.

    It is what search would give the same translation: log P of all its pieces and its end, in nats. A blank line is an
    empty translation, of its end alone. A language model scores text alone.

    Examples:

        calque score runs/1 --source test.de --target test.en

        calque score runs/english --target news.en
    """
    from calque.commands.output import refuse_output, sink
    from calque.commands.progress import counting
    from calque.commands.streaming import LineWarnings
    from calque.engine import DEVICES, PRECISIONS, Tagger, TextGenerator, Translator, load
    from calque.engine.translator import WINDOW

    chosen = choice(format, ("tsv", "jsonl"), option="--format")
    where = choice(device, DEVICES, option="--device")
    fine = choice(precision, PRECISIONS, option="--precision")
    refuse_unreadable(source, target)
    refuse_output(output, source, target)
    count = _count(source, target)
    scorer = load(model, device=where, precision=fine)
    if isinstance(scorer, Tagger):
        raise DataError(f"{model}: is a tagger, which scores no text; `calque evaluate {model} --conll FILE` scores it")
    if isinstance(scorer, TextGenerator) and source is not None:
        raise DataError(f"--source: {model} is a language model and reads none; leave it out")
    if isinstance(scorer, Translator) and source is None:
        raise DataError(f"--source is missing: {model} translates, so what it is given to score are translations of it")
    done, pieces, total = 0, 0, 0.0
    pairs, warnings = _pairs(source, target), LineWarnings(str(source or target))
    with sink(output) as out, counting("scoring", total=count) as more:
        while window := list(islice(pairs, WINDOW)):
            sources, targets = ([line.text for line in side] for side in zip(*window, strict=True))
            scores = scorer.score(targets) if isinstance(scorer, TextGenerator) else scorer.score(sources, targets)
            for pair, found in zip(window, scores, strict=True):
                total, pieces = total + found.log_prob, pieces + len(found.log_probs)
                done = pair[0].number
                if found.cut or any(line.cut for line in pair):
                    warnings.say("too long; only its beginning was read", line=done)
                out.write(_row(found, number=done, format=chosen))
            out.flush()
            more(len(window))
    warnings.end()
    perplexity = math.exp(min(-total / max(pieces, 1), 700.0))
    kind = "pairs" if source else "lines"
    typer.echo(f"{done:,} {kind}, {pieces:,} pieces, perplexity {perplexity:.3f} per piece", err=True)


def _row(found: "Scored", *, number: int, format: str) -> bytes:
    if format == "jsonl":
        values = {"line": number, "log_prob": found.log_prob, **found._asdict()}
        return json_line(values)
    return f"{found.log_prob:.4f}\t{found.log_prob / len(found.log_probs):.4f}\n".encode()


def _count(source: Path | None, target: Path) -> int | None:
    """How many there are; None where that cannot be known before they are read. Misaligned files are refused."""
    from calque.data.line_counts import refuse_misaligned
    from calque.data.lines import LINE_LIMIT, file_lines

    files = [path for path in (source, target) if path]
    if any(map(is_pipe, files)):
        return None
    counts = [sum(1 for _ in file_lines(path, limit=LINE_LIMIT)) for path in files]
    if source and counts[0] != counts[-1]:
        refuse_misaligned(source, target=target)
    return counts[-1]


def _pairs(source: Path | None, target: Path) -> Iterator[tuple["Line", "Line"]]:
    """Sources and targets; where there is no source, with nothing in place of it."""
    from calque.data.line_counts import refuse_misaligned

    if source is None:
        yield from ((line._replace(text="", cut=False), line) for line in input_lines(target, invalid="fail"))
        return
    for one, other in zip_longest(*(input_lines(path, invalid="fail") for path in (source, target))):
        if one is None or other is None:
            refuse_misaligned(source, target=target)
        yield one, other
