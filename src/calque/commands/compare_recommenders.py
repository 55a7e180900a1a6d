"""`calque compare --sequences`: compares recommenders by how high they rank the last item of each user."""

import time
from collections import Counter
from collections.abc import Iterator

from calque.commands.compare_tables import significance_note
from calque.commands.compare_task import Block, ComparisonRequest, Document, TaskComparison, refuse_files
from calque.commands.compared_systems import load, model_facts, speed
from calque.commands.tables import Row, aligned
from calque.errors import ConfigError

SHOWN_METRICS = ("hr@1", "hr@10", "ndcg@10", "mrr")
SHOWN_USERS = 8


def compare_recommenders(request: ComparisonRequest) -> Document:
    """Compares recommenders by the rank of every user's last item; returns the comparison as a JSON document."""
    from calque.commands.progress import counting
    from calque.commands.recommender_scores import read_test_users
    from calque.engine import Recommender
    from calque.evaluation.comparison.recommendations import RankedSystem, RankedTest, compare_recommendations

    arguments, options, sequences = request.arguments, request.options, request.files["--sequences"]
    refuse_files(
        arguments, "recommenders are compared by the ranks that they compute, so output files cannot be compared"
    )
    systems, frequencies, excluded = [], Counter[str](), set[bool]()
    test = None
    for argument in arguments:
        recommender = load(argument, Recommender, device=options.device, precision=options.precision)
        test = read_test_users(sequences, recommender)
        excluded.add(recommender.task.exclude_seen)
        started = time.perf_counter()
        with counting(f"ranking with {argument.name}", total=len(test.users)) as advance:
            ranked = recommender.rank(test.histories, test.targets)
            advance(len(test.users))
        pace = speed(time.perf_counter() - started, len(test.users), len(test.users), device=str(recommender.device))
        systems.append(RankedSystem(argument.name, ranked.ranks, model_facts(argument, recommender) | {"speed": pace}))
        if not frequencies:
            catalogue = recommender.catalogue
            ids = catalogue.item_ids(test.targets)
            frequencies.update({item: catalogue.counts[id] for item, id in zip(test.targets, ids, strict=True)})
    assert test is not None
    if len(excluded) > 1:
        raise ConfigError(
            "task.exclude_seen differs between these models, so their rankings cannot be compared; compare models with "
            "the same setting"
        )
    ranked_test = RankedTest(
        test.users,
        test.targets,
        [len(history.items) for history in test.histories],
        [frequencies[target] for target in test.targets],
        {"path": str(sequences), "seen_excluded": excluded.pop()},
    )
    return compare_recommendations(ranked_test, systems, samples=options.randomisation)


def recommendation_tables(document: Document) -> Iterator[Block]:
    """The tables of a comparison of recommenders, each with its title."""
    test, systems = document["test"], document["systems"]
    names = [system["name"] for system in systems]
    tested = SHOWN_METRICS if document["randomisation"]["samples"] else ()
    header: Row = [
        "system",
        *(name.upper() for name in SHOWN_METRICS),
        *(f"p of {name.upper()}" for name in tested),
        "better",
        "worse",
    ]
    rows: list[Row] = [header]
    for system in systems:
        p_values = system["p_values"] or {}
        rows.append(
            [
                system["name"],
                *(f"{system['scores'][name]:.4f}" for name in SHOWN_METRICS),
                *(f"{p_values[name]:.4f}" if name in p_values else "" for name in tested),
                *("" if system[key] is None else f"{system[key]:,}" for key in ("better", "worse")),
            ]
        )
    seen = "excluded" if test["seen_excluded"] else "included"
    counts = f"{test['users']:,} users, items of their histories {seen}"
    explained = f"better and worse count users whose target ranks higher or lower than with {names[0]}"
    yield f"{test['path']}: {counts}{significance_note(document)}; {explained}", aligned(rows)
    for section in document["sections"]:
        lines = [
            [bucket, f"{section['counts'][place]:,}", *(f"{scores[place]:.4f}" for scores in section["scores"])]
            for place, bucket in enumerate(section["buckets"])
        ]
        yield f"NDCG@10 {section['title']}", aligned([["", "users", *names], *lines])
    items = document["users"]["items"][:SHOWN_USERS]
    if items:
        lines = [
            [item["user"], item["target"], str(item["history"]), *(str(rank or "none") for rank in item["ranks"])]
            for item in items
        ]
        yield "ranks of the target that differ most", aligned([["user", "target", "history", *names], *lines], left=2)


RECOMMENDATION = TaskComparison(
    "recommendation",
    "--sequences",
    "--sequences for recommenders",
    compare_recommenders,
    recommendation_tables,
)
