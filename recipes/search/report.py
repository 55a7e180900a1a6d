"""The results of the recipe as tables and a figure.

    python -m recipes.search.report OUT [--write README.md] [--name NAME]

prints the report of the results in OUT, and writes it to OUT/report.md with the figure OUT/beams.png; with --write also
between the marks of a page, with the figure next to it. A page can contain several reports: each has a NAME in its
marks and in the name of its figure.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recipes.runner.arguments import parser_of
from recipes.runner.files import read_json, read_jsonl
from recipes.runner.pages import table, write_page
from recipes.search import beams, stopping
from recipes.search.common import TEST, VALID
from recipes.search.figure import draw_beams

LETTERS = {"length_penalty": "α", "coverage": "β", "end_normalisation": "γ", "reward": "ρ"}
Row = Mapping[str, Any]


def mark(name: str) -> str:
    """The name of a report's marks in a page."""
    return f"results {name}".strip()


def figure_name(name: str) -> str:
    """The file of a report's figure."""
    return f"beams{name and '-'}{name}.png"


def label(parameters: Mapping[str, Any]) -> str:
    """The parameters of a setting, written with the letters of docs/search.md."""
    parts = [f"{letter} {parameters[key]:g}" for key, letter in LETTERS.items() if key in parameters]
    return ", ".join(parts) or "log P alone"


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The test rows of every setting, by beam; only those with the largest number of sentences."""
    test = [row for row in rows if row["part"] == TEST]
    most = max((row["sentences"] for row in test), default=0)
    lines = {
        name: [row for row in test if (row["setting"], row["sentences"]) == (name, most)] for name in beams.SETTINGS
    }
    return {name: sorted(own, key=lambda row: row["beam"]) for name, own in lines.items() if own}


def beams_table(lines: Mapping[str, Sequence[Row]]) -> str:
    """Lowercased BLEU (cased; length ratio), one row per setting, one column per beam; the best per beam is bold."""
    widths = sorted({row["beam"] for rows in lines.values() for row in rows})
    best = {
        beam: max(row["bleu_lowercased"] for rows in lines.values() for row in rows if row["beam"] == beam)
        for beam in widths
    }
    cells = []
    for name, rows in lines.items():
        by_beam = {row["beam"]: _cell(row, is_best=row["bleu_lowercased"] == best[row["beam"]]) for row in rows}
        cells.append([name, label(rows[0]["parameters"]), *(by_beam.get(beam, "") for beam in widths)])
    return table(["setting", "", *(f"beam {beam}" for beam in widths)], cells)


def grid_table(rows: Sequence[Row]) -> str:
    """The parameters tried on `val`, and those used on the test set."""
    tried = [row for row in rows if row["part"] == VALID]
    most = max(row["sentences"] for row in tried)
    tried = [row for row in tried if row["sentences"] == most]
    selected = beams.select(tried)
    cells = [
        [
            row["setting"],
            label(row["parameters"]),
            f"{row['bleu_lowercased']:.2f}",
            f"{row['ratio']:.3f}",
            ("chosen" if row["setting"] not in beams.GIVEN else "given")
            if selected[row["setting"]] == row["parameters"]
            else "",
        ]
        for row in tried
    ]
    return table(["setting", "", "BLEU lowercased", "length ratio", "used"], cells)


def stopping_table(rows: Sequence[Row]) -> str:
    """BLEU, work and time of every stopping rule."""
    most = max(row["sentences"] for row in rows)
    cells = []
    for row in (row for row in rows if row["sentences"] == most):
        (exact,) = (
            other
            for other in rows
            if (other["beam"], other["sentences"], other["stopping"]) == (row["beam"], most, "exact")
        )
        cells.append(
            [
                str(row["beam"]),
                row["stopping"],
                f"{row['bleu_lowercased']:.2f}",
                f"{row['bleu']:.2f}",
                f"{row['ratio']:.3f}",
                f"{row['same_as_exact'] / most:.1%}",
                f"{row['steps']:,}",
                f"{row['rows']:,} ({row['rows'] / exact['rows']:.2f})",
                f"{row['seconds']:.0f} ({row['seconds'] / exact['seconds']:.2f})",
            ]
        )
    head = [
        "beam",
        "stopping",
        "BLEU lowercased",
        "cased",
        "length ratio",
        "same translation as exact",
        "decoder steps",
    ]
    return table([*head, "hypotheses × steps (of exact)", "seconds (of exact)"], cells)


def terms_table(terms: Mapping[str, Any]) -> str:
    """Required and forbidden words: how often they are present, BLEU and speed."""
    required, forbidden, scores = terms["required"], terms["forbidden"], terms["scores"]
    forbids = f"{len(forbidden['words'])} words forbidden everywhere"
    asks = f"{required['words']:,} words required in {required['sentences']:,} sentences"
    cells = [
        ["without constraints", "", *_scores(scores["plain"]), "1"],
        [asks, _share(required["there_without"], required["there"], required["words"]), *_scores(scores["required"])],
        [forbids, f"{forbidden['there_without']:,} → {forbidden['there']:,} times", *_scores(scores["forbidden"])],
    ]
    for row, name in zip(cells[1:], ("required", "forbidden"), strict=True):
        speed = terms["speed"][name]
        row.append(f"{speed['ratio']:.2f} ({speed['slowest']:.2f} to {speed['fastest']:.2f})")
    return table(["", "present, without → with", "BLEU lowercased", "cased", "length ratio", "speed (rounds)"], cells)


def terms_text(terms: Mapping[str, Any]) -> str:
    """The text before the table of terms."""
    required, lacking = terms["required"], terms["scores_where_asked"]
    before, after = (f"{lacking[name]['bleu_lowercased']:.2f}" for name in ("plain", "required"))
    failures = len(required["failures"]) + len(terms["forbidden"]["failures"])
    rounds = f"{terms['rounds']} round{'s' if terms['rounds'] > 1 else ''}"
    return (
        f"{terms['sentences']:,} sentences in {rounds}, beam {terms['beam']}; failures: {failures}. In "
        f"the {required['sentences_where_asked']:,} sentences whose translation lacked\na required word BLEU "
        f"lowercased goes from {before} to {after}: required words come from the reference, so this is no gain in "
        "quality."
    )


def provenance(rows: Sequence[Row]) -> str:
    """Date, versions and machine as a list; all distinct values if rows differ."""

    def distinct(key: str) -> str:
        return " / ".join(dict.fromkeys(str(row["made_with"][key]) for row in rows))

    signatures = [row["signatures"] for row in rows if "signatures" in row]
    kinds = (("lowercased", "bleu_lowercased"), ("cased", "bleu"))
    threads = "one thread" if distinct("threads") == "1" else f"{distinct('threads')} threads"
    lines = [
        f"{distinct('date')}, torch {distinct('torch')}, Calque {distinct('calque')}, CPU {distinct('cpu')}, {threads}",
        *(
            f"BLEU {name}: `{' / '.join(dict.fromkeys(signature[key] for signature in signatures))}`"
            for name, key in kinds
        ),
    ]
    return "\n".join(f"- {line}" for line in lines)


def report(out: Path, *, name: str = "") -> tuple[str, dict[str, list[Row]]]:
    """All results of a folder, and the lines of its figure."""
    rows, stops = read_jsonl(out / beams.RESULTS), read_jsonl(out / stopping.RESULTS)
    terms = read_json(out / "terms.json") if (out / "terms.json").exists() else None
    with_terms = [{**terms, "signatures": terms["scores"]["plain"]["signatures"]}] if terms else []
    lines, parts, used = lines_of(rows), [], [*rows, *stops, *with_terms]
    if not used:
        raise ValueError(f"{out}: no results yet: run beams, stopping or terms first")
    if lines:
        count = next(iter(lines.values()))[0]["sentences"]
        parts += [
            "### Beams",
            f"test_2016_flickr, {count:,} sentences: BLEU lowercased (cased; length ratio).",
            beams_table(lines),
            f"![BLEU and length ratio against the beam]({figure_name(name)})",
            f"The grid: `val`, beam {beams.GRID_BEAM}.",
            grid_table(rows),
        ]
    if stops:
        parts += ["### Stopping", f"test_2016_flickr, α {stopping.ALPHA}.", stopping_table(stops)]
    if terms:
        parts += ["### Required and forbidden words", terms_text(terms), terms_table(terms)]
    return "\n\n".join([*parts, "### Made with", provenance(used)]) + "\n", lines


def _cell(row: Row, *, is_best: bool) -> str:
    value = f"{row['bleu_lowercased']:.2f}"
    return f"{f'**{value}**' if is_best else value} ({row['bleu']:.2f}; {row['ratio']:.3f})"


def _scores(scores: Row) -> list[str]:
    return [f"{scores['bleu_lowercased']:.2f}", f"{scores['bleu']:.2f}", f"{scores['ratio']:.3f}"]


def _share(before: int, after: int, total: int) -> str:
    return f"{before / total:.1%} → {after / total:.1%}"


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--write", type=Path, help="write the results between the marks of this Markdown page")
    parser.add_argument("--name", default="", help="name of the marks in a page with several reports")
    options = parser.parse_args()
    try:
        text, lines = report(options.out, name=options.name)
        print(text)
        (options.out / "report.md").write_text(text, encoding="utf-8")
        labels = {name: f"{name}: {label(rows[0]['parameters'])}" for name, rows in lines.items()}
        folders = [options.out, *([options.write.parent] if options.write else [])]
        for folder in folders if lines else []:
            draw_beams(folder / figure_name(options.name), lines, labels=labels)
        if options.write:
            write_page(options.write, text, name=mark(options.name))
    except (OSError, ValueError) as error:
        sys.exit(f"recipes.search.report: {error}")


if __name__ == "__main__":
    _main()
