"""The tables of a comparison of translations."""

from collections.abc import Iterator, Sequence

from calque.commands.compare_tables import bucket_rows, bucket_table, names_of, p_value_text, size_and_speed
from calque.commands.compare_task import Block, Document
from calque.commands.tables import Row, aligned

LEVEL = 0.05
SHOWN_NGRAMS, SHOWN_SENTENCES = 8, 3
TESTS = {"bootstrap": "paired bootstrap", "randomisation": "approximate randomisation"}


def translation_tables(document: Document) -> Iterator[Block]:
    """The tables of a comparison of translations, each with its title."""
    test = document["test"]
    systems, metrics = document["systems"], document["metrics"]
    names = names_of(systems)
    sizes = f"{test['sentences']:,} sentences, {test['words']:,} reference words"
    yield f"{test['reference']}: {sizes}; the baseline is {names[0]}", score_lines(document)
    yield "signatures", aligned([[metric["title"], metric["signature"]] for metric in metrics], left=2)
    yield from significance_tables(document)
    yield from group_tables(document)
    yield "n-gram precision, length, errors", _details(systems, names)
    yield from size_and_speed(systems, names, unit="sentences")
    for section in document["sections"]:
        yield bucket_table(section, names, metric=metrics[0])
    for section in document["words"]:
        rows = [[_f1(row[place]) for row in section["systems"]] for place in range(len(section["buckets"]))]
        counts = [f"{row['reference']:,}" for row in section["systems"][0]]
        yield (
            f"{section['title']}: F1, %",
            bucket_rows(["word", "in references", *names], section["buckets"], counts, rows),
        )
    yield from _ngrams(document, names)
    yield from _sentences(document, names)


def score_lines(document: Document) -> list[str]:
    """Scores with the bootstrap's confidence intervals; a star marks a significant difference from the baseline."""
    tests = {test["method"]: test["systems"] for test in document["significance"]}
    header = ["system", *(metric["title"] for metric in document["metrics"]), "exact match, %"]
    rows = [header]
    for place, system in enumerate(document["systems"]):
        cells = [system["name"]]
        for metric in document["metrics"]:
            results = [test[metric["name"]][place] for test in tests.values()]
            half = next((result["interval"] for result in results if result["interval"] is not None), None)
            is_significant = (
                place
                and tests
                and all(
                    _is_significant(test[metric["name"]][place], test[metric["name"]][0]) for test in tests.values()
                )
            )
            star = "*" if is_significant else " " if tests else ""
            cells.append(f"{system['scores'][metric['name']]:.2f}{'' if half is None else f' ± {half:.2f}'}{star}")
        rows.append([*cells, f"{system['exact_match']:.2f}"])
    lines = aligned(rows)
    if tests:
        stated = " and ".join(TESTS[method] for method in tests)
        is_starred = any("*" in cell for row in rows for cell in row[1:])
        lines.append(
            f"* p < {LEVEL} against the baseline by {stated}"
            if is_starred
            else f"no score differs from the baseline's with p < {LEVEL} by {stated}"
        )
    return lines


def _is_significant(result: Document, baseline: Document) -> bool:
    """Whether a score differs significantly from the baseline's; equal scores never do, however small the p-value."""
    return bool(result["p_value"] < LEVEL and result["score"] != baseline["score"])


def significance_tables(document: Document) -> Iterator[Block]:
    """Yields a table of p-values, with its title, for each significance test that was run."""
    metrics, others = document["metrics"], list(enumerate(document["systems"]))[1:]
    size = document["test"]["sentences"]
    for test in document["significance"]:
        rows: list[list[str]] = [["p-value", *(metric["title"] for metric in metrics), "different outputs"]]
        for place, system in others:
            rows_of = [test["systems"][metric["name"]] for metric in metrics]
            values = [
                "equal" if row[place]["score"] == row[0]["score"] else p_value_text(row[place]["p_value"])
                for row in rows_of
            ]
            rows.append([system["name"], *values, f"{system['different']:,} of {size:,}"])
        unit = "resamples" if test["method"] == "bootstrap" else "trials"
        yield f"{TESTS[test['method']]}, {test['samples']:,} {unit}, seed {test['seed']}", aligned(rows)


def group_tables(document: Document) -> Iterator[Block]:
    """The scores of groups of systems that differ only in their seed; yields nothing if there are no groups."""
    if not document["groups"]:
        return
    for metric in document["metrics"]:
        rows: list[list[str]] = [["group", "seeds", "mean", "sd", "95 %", "difference", "95 %", "p-value"]]
        for group in document["groups"]:
            score = group["scores"][metric["name"]]
            difference = "" if score["difference"] is None else f"{score['difference']:+.2f}"
            deviation = "" if score["deviation"] is None else f"{score['deviation']:.2f}"
            rows.append(
                [
                    group["name"],
                    str(len(group["systems"])),
                    f"{score['mean']:.2f}",
                    deviation,
                    _interval(score["interval"]),
                    difference,
                    _interval(score["difference_interval"]),
                    p_value_text(score["p_value"]),
                ]
            )
        yield f"groups: {metric['title']}, bootstrap over seeds and sentences", aligned(rows)


def _interval(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def _details(systems: Sequence[Document], names: Sequence[str]) -> list[str]:
    rows: list[Row] = [["", *names]]
    for order in range(4):
        rows.append([f"{order + 1}-gram precision, %", *(f"{system['precisions'][order]:.1f}" for system in systems)])
    rows.append(["brevity penalty", *(f"{system['brevity_penalty']:.3f}" for system in systems)])
    rows.append(["length ratio", *(f"{system['length_ratio']:.3f}" for system in systems)])
    for key, title in (("repetitions", "repeated n-grams"), ("copies", "source words left untranslated")):
        if systems[0]["errors"][key] is not None:
            cells = [
                f"{system['errors'][key]:,} in {system['errors'][f'sentences_with_{key}']:,}" for system in systems
            ]
            rows.append([f"{title}, in sentences", *cells])
    return aligned(rows)


def _f1(score: Document) -> str:
    return f"{100 * score['f1']:.2f}" if score["hypothesis"] or score["reference"] else "–"


def _ngrams(document: Document, names: Sequence[str]) -> Iterator[Block]:
    for pair in document["ngrams"]:
        first, second = (names[place] for place in pair["systems"])
        for side, (better, worse) in (("second", (second, first)), ("first", (first, second))):
            entries = pair["correct"][side][:SHOWN_NGRAMS]
            rows = [[" ".join(entry["words"]), *(f"{count:,}" for count in entry["counts"])] for entry in entries]
            if rows:
                yield f"n-grams that {better} gets right more often", aligned([["", better, worse], *rows])


def _sentences(document: Document, names: Sequence[str]) -> Iterator[Block]:
    """Yields titled lists of the sentences on which each of the first two systems most outscores the other."""
    metric = document["metrics"][0]
    sign = 1 if metric["better"] == "higher" else -1
    items = document["sentences"]["items"]

    def gain(item: Document) -> float:
        first, second = (item["systems"][place]["scores"][metric["name"]] for place in (0, 1))
        return float(sign * (second - first))

    for name, chosen in (
        (names[1], sorted(items, key=lambda item: -gain(item))),
        (names[0], sorted(items, key=gain)),
    ):
        other = names[0] if name == names[1] else names[1]
        shown = [item for item in chosen[:SHOWN_SENTENCES] if (gain(item) > 0) == (name == names[1]) and gain(item)]
        lines = [line for item in shown for line in _sentence(item, names, metric=metric)]
        if lines:
            yield f"sentences that {name} translates better than {other}", lines


def _sentence(item: Document, names: Sequence[str], *, metric: Document) -> list[str]:
    rows = [[f"line {item['line']}", "", item["source"]]] if item["source"] is not None else []
    rows.append(["reference" if rows else f"line {item['line']}", "", "".join(item["reference"]).strip()])
    for name, system in zip(names, item["systems"], strict=True):
        rows.append([name, f"{system['scores'][metric['name']]:.1f}", "".join(system["words"]).strip()])
    return aligned(rows, left=3)
