"""The command `calque recommend`, which recommends items to users."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from calque.commands.inputs import device_and_precision, input_lines, input_name, refuse_unreadable
from calque.commands.options import Device, Precision, count_option, file_option, model_argument
from calque.commands.rendering import json_line, one_field
from calque.commands.sequence_options import is_records
from calque.errors import DataError, TextError

if TYPE_CHECKING:
    from calque.engine import History, Recommendations, Recommender

SHOWN = 5  # lines with errors that are reported one by one


class Asked(NamedTuple):
    """A line of the input: its number, its user, and the history or the reason why it cannot be read."""

    line: int
    user: str
    history: "History | TextError"


class Answered(NamedTuple):
    """A line of the input with its recommendations, or with an error in place of them."""

    asked: Asked
    answer: "Recommendations | TextError"


def recommend(
    model: Annotated[Path, model_argument(help="A run or model folder of a recommender.")],
    *,
    input: Annotated[
        Path | None, file_option(help="User histories, one user per line (plain or compressed); stdin by default.")
    ] = None,
    output: Annotated[
        Path | None, file_option(help="Write the recommendations to this file; stdout by default.")
    ] = None,
    top: Annotated[int, count_option(help="The number of items per user.")] = 10,
    exclude_seen: Annotated[
        bool | None,
        typer.Option(
            "--exclude-seen/--include-seen",
            help="Exclude items of the history, or include them; by default as the model's task.exclude_seen says.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per user, with scores.")] = False,
    records: Annotated[
        bool,
        typer.Option("--records", help="Read JSON records; by default only if the name of the input ends in .jsonl."),
    ] = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Recommend the items that users are most likely to choose next, out of the whole catalogue.

    Each input line describes one user: an id, then the items of the history in order of time, separated by white space.
    With --records, each line is a JSON object with the keys user and items and, if the model reads them, times (in
    seconds), behaviours and now (the time of the recommendation; by default the last of times).

    Each input line yields one output line: the user, a tab, and the items, best first, separated by spaces. With
    --json, each line is an object with the user, the items and their scores (log-probabilities). A user without known
    items gets the most popular items. If an input line cannot be read, its output line is empty (with --json, an object
    with the error), the error is reported, and the exit code is 2.

    Examples:

        calque recommend runs/beauty --input users.txt --top 5

        echo "u1 item7 item3" | calque recommend runs/beauty

        calque recommend runs/shop --input users.jsonl --json --include-seen > recommended.jsonl
    """
    from calque.commands.output import refuse_output, sink
    from calque.engine import load_recommender

    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(input)
    refuse_output(output, input)
    recommender = load_recommender(model, device=device_name, precision=precision_name)
    is_json = records or (input is not None and is_records(input))
    errors = 0
    with sink(output) as out:
        for answered in _answers(recommender, input, records=is_json, top=top, exclude_seen=exclude_seen):
            out.write(_line(answered, as_json=as_json))
            if isinstance(answered.answer, TextError):
                errors += 1
                if errors <= SHOWN:
                    typer.echo(f"{input_name(input)}: line {answered.asked.line}: {answered.answer}", err=True)
        out.flush()
    if errors:
        lines = "1 line could not be read and has" if errors == 1 else f"{errors:,} lines could not be read and have"
        raise DataError(f"{input_name(input)}: {lines} no recommendations in the output")


def _answers(
    recommender: "Recommender", path: Path | None, *, records: bool, top: int, exclude_seen: bool | None
) -> Iterator[Answered]:
    from calque.engine import History
    from calque.engine.recommender import TOGETHER

    is_typed = path is None and sys.stdin.isatty()
    lines = read_histories(recommender, path, records=records)
    while group := list(islice(lines, 1 if is_typed else TOGETHER)):
        histories = [asked.history for asked in group]
        readable = [history for history in histories if isinstance(history, History)]
        answers = iter(recommender.stream(readable, top=top, exclude_seen=exclude_seen))
        for asked in group:
            yield Answered(asked, next(answers) if isinstance(asked.history, History) else asked.history)


def read_histories(recommender: "Recommender", path: Path | None, *, records: bool) -> Iterator[Asked]:
    """Yields the history on each line of a file or of standard input, or an error in place of a malformed one."""
    from calque.data.sequence_files import LINE_BYTES
    from calque.engine import History

    for line in input_lines(path, limit=LINE_BYTES, invalid="replace"):
        if line.invalid is not None:
            yield Asked(line.number, "", TextError(f"byte number {line.invalid} of the line is not UTF-8"))
        elif line.cut:
            yield Asked(line.number, "", TextError(f"longer than {LINE_BYTES >> 20} MiB"))
        elif records and line.text.strip():
            yield _record(recommender, line.text, number=line.number)
        else:
            user, *items = line.text.split() or [""]
            yield Asked(line.number, user, History(items))


def _record(recommender: "Recommender", text: str, *, number: int) -> Asked:
    from calque.data.sequence_files import SequenceRecordsConfig, parse_record
    from calque.engine import History
    from calque.parsing import parse_json

    config = recommender.config
    corpus = SequenceRecordsConfig(
        path=Path(),
        times_key="times" if config.reads_times else None,
        behaviours_key="behaviours" if config.reads_behaviours else None,
    )
    try:
        record = parse_record(text, corpus=corpus, empty=True)
        now = parse_json(text).get("now")
    except ValueError as error:
        return Asked(number, "", TextError(str(error)))
    return Asked(number, record.user, History(record.items, record.times, record.behaviours, now))


def _line(answered: Answered, *, as_json: bool) -> bytes:
    asked, answer = answered
    if isinstance(answer, TextError):
        return json_line({"user": asked.user, "error": str(answer)}) if as_json else b"\n"
    if as_json:
        items = [{"item": item, "score": score} for item, score in answer]
        return json_line({"user": asked.user, "items": items, "cold": answer.is_cold, "unknown": answer.unknown})
    return (f"{one_field(asked.user)}\t" + " ".join(map(one_field, answer.items)) + "\n").encode()
