"""Tables and texts that all kinds of comparisons share."""

from collections.abc import Iterator, Sequence

from calque.commands.compare_task import Block, Document
from calque.commands.tables import Row, aligned


def names_of(systems: Sequence[Document]) -> list[str]:
    """The names of the systems."""
    return [system["name"] for system in systems]


def p_value_text(value: float | None) -> str:
    """A p-value with four decimals; empty for the baseline, which has none."""
    return "" if value is None else f"{value:.4f}"


def significance_note(document: Document, *, place: str = "") -> str:
    """The part of a table's title that names the significance test; empty without a test.

    `place` says where the table shows the p-values, e.g. "in parentheses, ".
    """
    trials = document["randomisation"]["samples"]
    baseline = document["systems"][0]["name"]
    return f"; {place}p-values against {baseline} by approximate randomisation, {trials:,} trials" if trials else ""


def size_and_speed(systems: Sequence[Document], names: Sequence[str], *, unit: str) -> Iterator[Block]:
    """Yields a table of architectures, sizes, speeds and training times; nothing if all systems are files."""
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
    return "sentences" if unit in ("sentences", "recordings", "lines") else unit


def _count(values: Document | None, key: str) -> str:
    return "" if not values or values.get(key) is None else f"{values[key]:,.0f}"


def _scaled(values: Document | None, key: str, unit: float) -> str:
    return "" if not values or values.get(key) is None else f"{values[key] / unit:,.1f}"


def bucket_rows(header: Row, labels: Sequence[str], counts: Sequence[str] | None, rows: Sequence[Row]) -> list[str]:
    """The lines of a table with one row per bucket: its label, its count if `counts` are given, and its cells."""
    middle = [[]] * len(labels) if counts is None else [[count] for count in counts]
    return aligned([header, *([label, *count, *row] for label, count, row in zip(labels, middle, rows, strict=True))])


def bucket_table(section: Document, names: Sequence[str], *, metric: Document, unit: str = "sentences") -> Block:
    """A table of the systems' scores in each bucket of sentences, such as a range of lengths.

    The table also shows the number of sentences in each bucket: once, or per system if the systems differ.
    """
    scores, counts = section["scores"][metric["name"]], section["counts"]
    is_shared = all(row == counts[0] for row in counts)
    rows = []
    for place in range(len(section["buckets"])):
        cells = ["–" if row[place] is None else f"{row[place]:.2f}" for row in scores]
        if not is_shared:
            cells = [f"{cell} ({row[place]:,})" for cell, row in zip(cells, counts, strict=True)]
        rows.append(cells)
    header = ["", *([unit] if is_shared else []), *names]
    shared = [f"{count:,}" for count in counts[0]] if is_shared else None
    title = f"{metric['title']} {section['title']}" + ("" if is_shared else f" ({unit})")
    return title, bucket_rows(header, section["buckets"], shared, rows)
