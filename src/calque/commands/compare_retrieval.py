"""`calque compare --source --target`: compares the sentence vectors of any models by retrieval."""

import time
from collections.abc import Iterator
from typing import Any

from calque.commands.compare_tables import names_of, significance_note, size_and_speed
from calque.commands.compare_task import Block, ComparisonRequest, Document, TaskComparison, refuse_files
from calque.commands.compared_systems import model_facts, speed
from calque.commands.retrieval_scores import read_pairs_of_lines, retrieval_ranks
from calque.commands.tables import Row, aligned

SHOWN = 10  # pairs in the terminal


def compare_vectors(request: ComparisonRequest) -> Document:
    """Compares the sentence vectors of models on two files that are parallel line by line; returns a JSON document."""
    from calque.engine import load
    from calque.evaluation.comparison.retrievals import RetrievalSystem, RetrievalTest, compare_retrievals

    arguments, options = request.arguments, request.options
    source, target = request.files["--source"], request.files["--target"]
    refuse_files(arguments, "sentence vectors are computed by models, so output files cannot be compared")
    pairs = read_pairs_of_lines(source, target)
    words = sum(len(text.split()) for side in pairs for text in side)
    systems = []
    for argument in arguments:
        loaded = load(argument.path, device=options.device, precision=options.precision)
        started = time.perf_counter()
        ranks = retrieval_ranks(loaded, pairs, pooling=None)
        pace = speed(time.perf_counter() - started, 2 * len(pairs.sources), words, device=str(loaded.device))
        systems.append(RetrievalSystem(argument.name, ranks, model_facts(argument, loaded) | {"speed": pace}))
    test = RetrievalTest(*pairs, {"path": str(source), "target": str(target)})
    return compare_retrievals(test, systems, samples=options.randomisation)


def retrieval_tables(document: Document) -> Iterator[Block]:
    """The tables of a comparison of sentence vectors, each with its title."""
    test, systems, metrics = document["test"], document["systems"], document["metrics"]
    names = [system["name"] for system in systems]
    rows: list[Row] = [["system", *(metric["title"] for metric in metrics), "different"]]
    for system in systems:
        scores = [_score(system, metric["name"]) for metric in metrics]
        rows.append([system["name"], *scores, "" if system["different"] is None else f"{system['different']:,}"])
    note = significance_note(document, place="in parentheses, ")
    yield f"{test['path']}: {test['sentences']:,} pairs{note}", aligned(rows)
    lengths: list[Row] = [["words", "pairs", *names]]
    for row in document["lengths"]:
        lengths.append([row["label"], f"{row['count']:,}", *(f"{share:.1f}" for share in row["systems"])])
    yield "top-1 accuracy, %, mean of both directions, by number of source words", aligned(lengths)
    pairs: list[Row] = [["line", *names, "source"]]
    for item in document["sentences"]["items"][:SHOWN]:
        ranks = [f"{ranks['to_target']:,}, {ranks['to_source']:,}" for ranks in item["systems"]]
        pairs.append([str(item["line"]), *ranks, item["source"]])
    if len(pairs) > 1:
        yield (
            "pairs on which the systems differ most: ranks of the target for the source, of the source for the target",
            aligned(pairs),
        )
    yield from size_and_speed(systems, names_of(systems), unit="sentences")


def _score(system: dict[str, Any], metric: str) -> str:
    p_value = (system["p_values"] or {}).get(metric)
    return f"{system['scores'][metric]:.2f}" + ("" if p_value is None else f" ({p_value:.3f})")


EMBEDDING = TaskComparison(
    "embedding",
    "--target",
    "--source and --target for sentence vectors",
    compare_vectors,
    retrieval_tables,
)
