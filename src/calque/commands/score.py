"""The command `calque score`, which scores existing translations or text."""

from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import choice, device_and_precision, input_lines, is_pipe, refuse_unreadable
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    file_option,
    model_argument,
)
from calque.commands.rendering import json_line
from calque.errors import DataError, shell_path

if TYPE_CHECKING:
    from calque.data.lines import Line
    from calque.devices import DeviceName, PrecisionName
    from calque.engine import Scored, TextGenerator, Translator


FORMATS = ("tsv", "jsonl")


def score(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    target: Annotated[
        Path,
        file_option(
            help="The translations to score, one per line (plain or compressed); for a language model, the text."
        ),
    ],
    source: Annotated[
        Path | None, file_option(help="The sources of the translations; leave it out for a language model.")
    ] = None,
    format: Annotated[
        str,
        choice_option(
            choices=FORMATS,
            help="tsv: total log-probability and mean per piece; jsonl: also the log-probability of every piece.",
        ),
    ] = "tsv",
    output: Annotated[Path | None, file_option(help="Write the scores to this file; stdout by default.")] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Score existing translations, or text, by log-probability; one output line per pair or line.

    The score is the one that search would compute: log P of all pieces and of the end mark, in nats. A blank line is
    an empty translation, for which only the end mark is scored. A language model scores text without a source.

    Examples:

        calque score runs/1 --source test.de --target test.en

        calque score runs/english --target news.en
    """
    from calque.commands.output import refuse_output, sink
    from calque.commands.progress import counting
    from calque.commands.streaming import LineWarnings
    from calque.engine.engine import WINDOW
    from calque.evaluation.perplexity import perplexity

    format_name = choice(format, FORMATS, option="--format")
    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(source, target)
    refuse_output(output, source, target)
    count = _count(source, target)
    if count == 0:
        raise DataError(f"{target} has no lines, so there is nothing to score")
    scorer = _load_scorer(model, source=source, device=device_name, precision=precision_name)
    lines, pieces, log_prob = 0, 0, 0.0
    pairs, warnings = _pairs(source, target), LineWarnings(str(source or target))
    with sink(output) as out, counting("scoring", total=count) as advance:
        while window := list(islice(pairs, WINDOW)):
            for pair, scored in zip(window, _score_window(scorer, window), strict=True):
                log_prob, pieces = log_prob + scored.log_prob, pieces + len(scored.log_probs)
                lines = pair[0].number
                if scored.cut or any(line.cut for line in pair):
                    warnings.warn("too long; only its beginning was read", line=lines)
                out.write(_row(scored, number=lines, format=format_name))
            out.flush()
            advance(len(window))
    if not pieces:
        raise DataError(f"{target} has no lines, so there is nothing to score")
    warnings.summarise()
    kind, per_piece = "pairs" if source else "lines", perplexity(-log_prob, count=pieces)
    typer.echo(f"{lines:,} {kind}, {pieces:,} pieces, perplexity {per_piece:.3f} per piece", err=True)


def _load_scorer(
    model: Path, *, source: Path | None, device: "DeviceName", precision: "PrecisionName"
) -> "Translator | TextGenerator":
    """Loads a model that can score text; raises a DataError if it cannot, or if --source is missing or unused."""
    from calque.commands.loading import EVALUATION_OPTIONS
    from calque.engine import PhraseTranslator, SentenceEncoder, TextGenerator, Translator, load, model_kind

    scorer = load(model, device=device, precision=precision)
    if not isinstance(scorer, Translator | TextGenerator):
        reason = " and cannot score text"
        if isinstance(scorer, SentenceEncoder | PhraseTranslator):
            reason = ", whose scores are not probabilities"
        raise DataError(
            f"{model} is {model_kind(scorer)}{reason}; `calque evaluate {shell_path(model)} "
            f"{EVALUATION_OPTIONS[type(scorer)]}` evaluates it"
        )
    if isinstance(scorer, TextGenerator) and source is not None:
        raise DataError(
            f"--source has no effect: {model} is a language model and reads no source; leave the option out"
        )
    if isinstance(scorer, Translator) and source is None:
        raise DataError(f"--source is missing: {model} is a translation model and scores translations of a source")
    return scorer


def _score_window(scorer: "Translator | TextGenerator", window: "list[tuple[Line, Line]]") -> Iterator["Scored"]:
    from calque.engine import TextGenerator

    sources, targets = ([line.text for line in side] for side in zip(*window, strict=True))
    return scorer.score(targets) if isinstance(scorer, TextGenerator) else scorer.score(sources, targets)


def _row(scored: "Scored", *, number: int, format: str) -> bytes:
    if format == "jsonl":
        values = {"line": number, "log_prob": scored.log_prob, **scored._asdict()}
        return json_line(values)
    return f"{scored.log_prob:.4f}\t{scored.log_prob / len(scored.log_probs):.4f}\n".encode()


def _count(source: Path | None, target: Path) -> int | None:
    """The number of lines to score; None if a file is a pipe. Raises an error if the files differ in length."""
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
    """Yields pairs of source and target lines; without a source file, all sources are empty."""
    from calque.data.line_counts import refuse_misaligned

    if source is None:
        yield from ((line._replace(text="", cut=False), line) for line in input_lines(target, invalid="fail"))
        return
    for source_line, target_line in zip_longest(*(input_lines(path, invalid="fail") for path in (source, target))):
        if source_line is None or target_line is None:
            refuse_misaligned(source, target=target)
        yield source_line, target_line
