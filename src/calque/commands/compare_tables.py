"""The results of a comparison as tables for the terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from calque.commands.compare_recommenders import recommendation_tables
from calque.commands.compare_retrieval import retrieval_blocks
from calque.commands.tables import Row, aligned

LEVEL = 0.05
SHOWN_NGRAMS, SHOWN_SENTENCES, SHOWN_LABELS, SHOWN_CONFUSIONS = 8, 3, 25, 10
TESTS = {"bootstrap": "paired bootstrap", "randomisation": "approximate randomisation"}
NGRAMS = {"correct": "right", "excess": "wrongly", "missing": "missed"}

Document = dict[str, Any]


def table_lines(document: Document) -> Iterator[str]:
    """The lines of all tables of a comparison, each table under its title."""
    match document["task"]:
        case "translation":
            blocks = _translation(document)
        case "tagging":
            blocks = _tagging(document)
        case "recommendation":
            blocks = recommendation_tables(document)
        case "embedding":
            blocks = _retrieval(document)
        case _:
            blocks = _language_modelling(document)
    for number, (title, lines) in enumerate(blocks):
        yield from ([""] if number else [])
        yield title
        yield from lines


Block = tuple[str, list[str]]


def _translation(document: Document) -> Iterator[Block]:
    test = document["test"]
    systems, metrics = document["systems"], document["metrics"]
    names = _names(systems)
    sizes = f"{test['sentences']:,} sentences, {test['words']:,} reference words"
    yield f"{test['reference']}: {sizes}; the baseline is {names[0]}", _scores(document)
    yield "signatures", aligned([[metric["title"], metric["signature"]] for metric in metrics], left=2)
    yield from _significance(document)
    yield from _groups(document)
    yield "n-gram precision, length, errors", _details(systems, names)
    yield from _size_and_speed(systems, names, unit="sentences")
    for section in document["sections"]:
        yield _bucket_table(section, names, metric=metrics[0])
    for section in document["words"]:
        rows = [[_f1(row[place]) for row in section["systems"]] for place in range(len(section["buckets"]))]
        counts = [f"{row['reference']:,}" for row in section["systems"][0]]
        yield (
            f"{section['title']}: F1, %",
            _bucket_rows(["word", "in references", *names], section["buckets"], counts, rows),
        )
    yield from _ngrams(document, names)
    yield from _sentences(document, names)


def _names(systems: Sequence[Document]) -> list[str]:
    return [system["name"] for system in systems]


def _scores(document: Document) -> list[str]:
    """Scores with the bootstrap's confidence intervals; a star marks a significant difference to the baseline."""
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
    """Whether a score differs significantly from the baseline's; equal scores do not, however small the p-value."""
    return bool(result["p_value"] < LEVEL and result["score"] != baseline["score"])


def _significance(document: Document) -> Iterator[Block]:
    metrics, others = document["metrics"], list(enumerate(document["systems"]))[1:]
    size = document["test"]["sentences"]
    for test in document["significance"]:
        rows: list[list[str]] = [["p-value", *(metric["title"] for metric in metrics), "different outputs"]]
        for place, system in others:
            rows_of = [test["systems"][metric["name"]] for metric in metrics]
            values = [
                "equal" if row[place]["score"] == row[0]["score"] else _p_value(row[place]["p_value"])
                for row in rows_of
            ]
            rows.append([system["name"], *values, f"{system['different']:,} of {size:,}"])
        unit = "resamples" if test["method"] == "bootstrap" else "trials"
        yield f"{TESTS[test['method']]}, {test['samples']:,} {unit}, seed {test['seed']}", aligned(rows)


def _p_value(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _groups(document: Document) -> Iterator[Block]:
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
                    _p_value(score["p_value"]),
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


def _size_and_speed(systems: Sequence[Document], names: Sequence[str], *, unit: str) -> Iterator[Block]:
    if not any(system["model"] for system in systems):
        return
    rows: list[Row] = [["", *names]]
    rows.append(["architecture", *((system["model"] or {}).get("architecture", "") for system in systems)])
    rows.append(["search settings", *(", ".join(system.get("settings") or ()) for system in systems)])
    rows.append(["parameters", *(_count(system["model"], "parameters") for system in systems)])
    rows.append(["weights, MB", *(_scaled(system["model"], "bytes", 1e6) for system in systems)])
    rows.append(
        [
            f"{unit} per second on this machine",
            *(_scaled(system["speed"], f"{_pace(unit)}_per_second", 1) for system in systems),
        ]
    )
    rows.append(["training steps", *(_count(system["run"], "steps") for system in systems)])
    rows.append(["training, minutes", *(_scaled(system["run"], "seconds", 60) for system in systems)])
    rows.append(["training, tokens per second", *(_count(system["run"], "tokens_per_second") for system in systems)])
    yield "size and speed", aligned([row for row in rows if any(row[1:])])


def _pace(unit: str) -> str:
    return "sentences" if unit in ("sentences", "lines") else unit


def _count(values: Document | None, key: str) -> str:
    return "" if not values or values.get(key) is None else f"{values[key]:,.0f}"


def _scaled(values: Document | None, key: str, unit: float) -> str:
    return "" if not values or values.get(key) is None else f"{values[key] / unit:,.1f}"


def _bucket_table(section: Document, names: Sequence[str], *, metric: Document) -> Block:
    """A table of the systems' scores in each bucket of sentences, such as a range of lengths.

    The table also has the numbers of sentences in each bucket: once, or per system if the systems differ.
    """
    scores, counts = section["scores"][metric["name"]], section["counts"]
    is_shared = all(row == counts[0] for row in counts)
    rows = []
    for place in range(len(section["buckets"])):
        cells = ["–" if row[place] is None else f"{row[place]:.2f}" for row in scores]
        if not is_shared:
            cells = [f"{cell} ({row[place]:,})" for cell, row in zip(cells, counts, strict=True)]
        rows.append(cells)
    header = ["", *(["sentences"] if is_shared else []), *names]
    shared = [f"{count:,}" for count in counts[0]] if is_shared else None
    title = f"{metric['title']} {section['title']}" + ("" if is_shared else " (sentences)")
    return title, _bucket_rows(header, section["buckets"], shared, rows)


def _bucket_rows(header: Row, labels: Sequence[str], counts: Sequence[str] | None, rows: Sequence[Row]) -> list[str]:
    middle = [[]] * len(labels) if counts is None else [[count] for count in counts]
    return aligned([header, *([label, *count, *row] for label, count, row in zip(labels, middle, rows, strict=True))])


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
    """The sentences with the largest differences between the first two systems, in either direction."""
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


def _tagging(document: Document) -> Iterator[Block]:
    test, systems, metrics = document["test"], document["systems"], document["metrics"]
    names = _names(systems)
    rows: list[Row] = [["system", *(metric["title"] for metric in metrics), *(["p-value"] * len(metrics)), "different"]]
    for system in systems:
        p_values = system["p_values"] or {}
        different = "" if system["different"] is None else f"{system['different']:,} words"
        scores = [f"{system['scores'][metric['name']]:.2f}" for metric in metrics]
        rows.append(
            [system["name"], *scores, *(_p_value(p_values.get(metric["name"])) for metric in metrics), different]
        )
    trials = document["randomisation"]["samples"]
    yield (
        f"{test['path']}: {test['words']:,} words in {test['sentences']:,} sentences; p-values against {names[0]} by "
        f"approximate randomisation, {trials:,} trials",
        aligned(rows),
    )
    yield from _size_and_speed(systems, names, unit="words")
    for title, entries in (("F1 of spans, %, by type", document["spans"]), ("F1 of labels, %", document["labels"])):
        if entries:
            shown = entries[:SHOWN_LABELS]
            cells = [[f"{100 * score['f1']:.2f}" for score in entry["systems"]] for entry in shown]
            counts = [f"{entry['support']:,}" for entry in shown]
            yield title, _bucket_rows(["", "number", *names], [entry["label"] for entry in shown], counts, cells)
    for system in systems:
        yield f"most frequent confusions of {system['name']}", _confusions(system["confusion"])


def _retrieval(document: Document) -> Iterator[Block]:
    yield from retrieval_blocks(document)
    yield from _size_and_speed(document["systems"], _names(document["systems"]), unit="sentences")


def _confusions(confusion: Document) -> list[str]:
    labels, table = confusion["labels"], confusion["counts"]
    errors = [
        (count, labels[row], labels[column])
        for row, counts in enumerate(table)
        for column, count in enumerate(counts)
        if count and row != column
    ]
    errors.sort(key=lambda error: (-error[0], error[1:]))
    rows = [[gold, predicted, f"{count:,}"] for count, gold, predicted in errors[:SHOWN_CONFUSIONS]]
    return aligned([["gold", "predicted", "words"], *rows], left=2)


def _language_modelling(document: Document) -> Iterator[Block]:
    test, systems, metrics = document["test"], document["systems"], document["metrics"]
    names = _names(systems)
    rows: list[Row] = [["system", *(metric["title"] for metric in metrics), "per piece", "pieces", "p-value"]]
    for system in systems:
        scores = [f"{system['scores'][metric['name']]:.3f}" for metric in metrics]
        rows.append(
            [
                system["name"],
                *scores,
                f"{system['per_piece']:.3f}",
                f"{system['pieces']:,}",
                _p_value(system["p_value"]),
            ]
        )
    trials = document["randomisation"]["samples"]
    yield (
        f"{test['path']}: {test['words']:,} words in {test['lines']:,} lines, line ends counted; p-values against "
        f"{names[0]} by approximate randomisation, {trials:,} trials",
        aligned(rows),
    )
    yield from _size_and_speed(systems, names, unit="words")
    for section in document["sections"]:
        cells = [[f"{row[place]:.3f}" for row in section["nats"]] for place in range(len(section["buckets"]))]
        counts = [f"{count:,}" for count in section["counts"]]
        yield (
            f"{section['title']}, nats per word",
            _bucket_rows(["", "words", *names], section["buckets"], counts, cells),
        )
