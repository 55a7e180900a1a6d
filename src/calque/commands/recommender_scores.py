"""`calque evaluate --sequences`: scores how high a recommender ranks the last item of each user's history."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from calque.commands.inputs import device_and_precision, refuse_unreadable
from calque.commands.sequence_options import checked_corpus
from calque.errors import DataError

if TYPE_CHECKING:
    from calque.engine import History, Recommender


class TestUsers(NamedTuple):
    """The users of a test file: their histories, and the item that followed each."""

    users: "list[str]"
    histories: "list[History]"
    targets: "list[str]"


def evaluate_recommender(
    model: Path, *, sequences: Path, exclude_seen: bool | None, as_json: bool, device: str, precision: str
) -> None:
    """Prints HR@k, NDCG@k and MRR of the last item of every user in a file, with confidence intervals."""
    from calque.commands.loading import load_to_evaluate
    from calque.engine import Recommender
    from calque.evaluation.ranking import CUTOFFS, MISSED, ranking_intervals

    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(sequences)
    recommender = load_to_evaluate(model, Recommender, device=device_name, precision=precision_name)
    test = read_test_users(sequences, recommender)
    ranked = recommender.rank(test.histories, test.targets, exclude_seen=exclude_seen)
    excludes = recommender.task.exclude_seen if exclude_seen is None else exclude_seen
    scores = ranking_intervals(ranked.ranks)
    users, unknown = len(ranked.ranks), len(ranked.ranks) - ranked.known
    cold = sum(not any(map(recommender.catalogue.is_known, history.items)) for history in test.histories)
    items = len(recommender.catalogue.items) - 4
    if as_json:
        values = {name: interval._asdict() for name, interval in scores.items()}
        counts = {"users": users, "items": items, "unknown_targets": unknown, "seen_targets": ranked.seen, "cold": cold}
        typer.echo(json.dumps({**values, **counts, "seen_excluded": excludes, "loss": ranked.per_target}, indent=1))
        return
    for name, (value, low, high) in scores.items():
        typer.echo(f"{name.upper():10} {value:7.4f}   95 % interval {low:.4f} to {high:.4f}")
    seen = "items of the history excluded" if excludes else "items of the history included"
    typer.echo(f"{users:,} users; ranked among all {items:,} items, {seen}; ties count against the target")
    notes = {
        "targets are not in the catalogue and count as missed": unknown,
        "targets are in the user's own history" + (" and count as missed" if excludes else ""): ranked.seen,
        "users have no known item in their history and get the most popular items": cold,
    }
    for note, count in notes.items():
        if count:
            typer.echo(f"{sequences}: {count:,} {note}", err=True)
    if max(ranked.ranks, default=MISSED) <= max(CUTOFFS) and users >= 10 and items > 10 * max(CUTOFFS):
        typer.echo(
            f"{sequences}: every target is ranked among the top {max(CUTOFFS)}, which is suspicious; check that these "
            "users were not part of the training data",
            err=True,
        )


def read_test_users(path: Path, recommender: "Recommender") -> TestUsers:
    """Reads the users of a file, whose last items are the targets; raises a DataError that names the faulty lines."""
    from calque.data.corpora import read_blocks
    from calque.data.problems import refuse
    from calque.data.rows import parse
    from calque.data.sequence_files import BEHAVIOURS, ITEMS, LINE_BYTES, TIMES, USER
    from calque.engine import History

    corpus = checked_corpus(path)
    config = recommender.config
    reads = ((TIMES, config.reads_times), (BEHAVIOURS, config.reads_behaviours))
    if missing := [name for name, is_read in reads if is_read and name not in corpus.columns]:
        raise DataError(
            f"{path} lacks {' and '.join(missing)}, which this model reads too; give JSON records with these keys"
        )
    test, problems = TestUsers([], [], []), list[str]()
    for block in read_blocks(corpus, limit=LINE_BYTES):
        parsed = parse(block, corpus=corpus, invalid="fail", limit=LINE_BYTES)
        problems += parsed.malformed + parsed.invalid
        for row in parsed.rows:
            texts = dict(zip(corpus.columns, row.texts, strict=True))
            *items, target = texts[ITEMS].split("\t")
            times = [int(time) for time in texts[TIMES].split("\t")] if TIMES in texts else []
            behaviours = texts[BEHAVIOURS].split("\t") if BEHAVIOURS in texts else []
            now = times[-1] if times else None
            test.users.append(texts[USER])
            test.histories.append(History(items, times[:-1], behaviours[:-1], now))
            test.targets.append(target)
    refuse(problems)
    if not test.targets:
        raise DataError(f"{path} contains no users")
    return test
