"""The results of the recipe as tables and a figure.

    python recipes/search/report.py OUT [--write README.md] [--name NAME]

prints the report of what OUT has, and writes it to OUT/report.md with its figure OUT/beams.png; with --write also
between the marks of that file, and the figure beside it. A file may hold several reports: each has a NAME in its marks
and in the name of its figure.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import beams
import stopping
from drawing import draw_beams
from sentences import TEST, VALID, read_rows

LETTERS = {"length_penalty": "α", "coverage": "β", "end_normalisation": "γ", "reward": "ρ"}
Row = Mapping[str, Any]


def marks(name: str) -> tuple[str, str]:
    """What stands before and behind a report."""
    return f"<!-- results{name and ' '}{name} -->", f"<!-- /results{name and ' '}{name} -->"


def figure_name(name: str) -> str:
    """The file of a report's figure."""
    return f"beams{name and '-'}{name}.png"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def told(parameters: Mapping[str, Any]) -> str:
    """Parameters by their letters, those of docs/search.md."""
    parts = [f"{letter} {parameters[key]:g}" for key, letter in LETTERS.items() if key in parameters]
    return ", ".join(parts) or "log P alone"


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The test rows of each setting, by beam; of the largest number of sentences that was run."""
    test = [row for row in rows if row["part"] == TEST]
    most = max((row["sentences"] for row in test), default=0)
    found = {
        name: [row for row in test if (row["setting"], row["sentences"]) == (name, most)] for name in beams.SETTINGS
    }
    return {name: sorted(own, key=lambda row: row["beam"]) for name, own in found.items() if own}


def beams_table(lines: Mapping[str, Sequence[Row]]) -> str:
    """Lowercased BLEU (cased; length ratio), a row a setting and a column a beam; the best of each beam is bold."""
    widths = sorted({row["beam"] for rows in lines.values() for row in rows})
    best = {
        beam: max(row["bleu_lowercased"] for rows in lines.values() for row in rows if row["beam"] == beam)
        for beam in widths
    }
    table = []
    for name, rows in lines.items():
        cells = {row["beam"]: _cell(row, is_best=row["bleu_lowercased"] == best[row["beam"]]) for row in rows}
        table.append([name, told(rows[0]["parameters"]), *(cells.get(beam, "") for beam in widths)])
    return markdown(["setting", "", *(f"beam {beam}" for beam in widths)], table)


def grid_table(rows: Sequence[Row]) -> str:
    """What was tried on `val`, and what was taken for the test set."""
    tried = [row for row in rows if row["part"] == VALID]
    most = max(row["sentences"] for row in tried)
    tried = [row for row in tried if row["sentences"] == most]
    taken = beams.chosen(tried)
    table = [
        [
            row["setting"],
            told(row["parameters"]),
            f"{row['bleu_lowercased']:.2f}",
            f"{row['ratio']:.3f}",
            ("chosen" if row["setting"] not in beams.GIVEN else "given")
            if taken[row["setting"]] == row["parameters"]
            else "",
        ]
        for row in tried
    ]
    return markdown(["setting", "", "BLEU lowercased", "length ratio", "used"], table)


def stopping_table(rows: Sequence[Row]) -> str:
    """BLEU, work and time of each way to stop."""
    most = max(row["sentences"] for row in rows)
    table = []
    for row in (row for row in rows if row["sentences"] == most):
        (exact,) = (
            each for each in rows if (each["beam"], each["sentences"], each["stopping"]) == (row["beam"], most, "exact")
        )
        table.append(
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
    return markdown([*head, "hypotheses × steps (of exact)", "seconds (of exact)"], table)


def terms_table(found: Mapping[str, Any]) -> str:
    """What must be there and what must not: how often it is, BLEU and speed."""
    required, forbidden, scores = found["required"], found["forbidden"], found["scores"]
    forbids = f"{len(forbidden['words'])} words forbidden everywhere"
    asks = f"{required['words']:,} words required in {required['sentences']:,} sentences"
    table = [
        ["without constraints", "", *_scores(scores["plain"]), "1"],
        [asks, _share(required["there_without"], required["there"], required["words"]), *_scores(scores["required"])],
        [forbids, f"{forbidden['there_without']:,} → {forbidden['there']:,} times", *_scores(scores["forbidden"])],
    ]
    for row, name in zip(table[1:], ("required", "forbidden"), strict=True):
        speed = found["speed"][name]
        row.append(f"{speed['ratio']:.2f} ({speed['slowest']:.2f} to {speed['fastest']:.2f})")
    return markdown(["", "there without → with", "BLEU lowercased", "cased", "length ratio", "speed (rounds)"], table)


def terms_text(found: Mapping[str, Any]) -> str:
    """What the table of terms is of."""
    required, asked = found["required"], found["scores_where_asked"]
    before, after = (f"{asked[name]['bleu_lowercased']:.2f}" for name in ("plain", "required"))
    failures = len(required["failures"]) + len(found["forbidden"]["failures"])
    rounds = f"{found['rounds']} round{'s' if found['rounds'] > 1 else ''}"
    return (
        f"{found['sentences']:,} sentences in {rounds}, beam {found['beam']}; failures: {failures}. In "
        f"the {required['sentences_where_asked']:,} sentences whose translation lacked\na required word BLEU "
        f"lowercased goes from {before} to {after}: required words come from the reference, so this is no gain in "
        "quality."
    )


def made(rows: Sequence[Row]) -> str:
    """What the numbers were made with: a list in Markdown; where rows differ, all there is."""
    with_ = [row["made_with"] for row in rows]

    def said(key: str) -> str:
        return " / ".join(dict.fromkeys(str(each[key]) for each in with_))

    signatures = [row["signatures"] for row in rows if "signatures" in row]
    kinds = (("lowercased", "bleu_lowercased"), ("cased", "bleu"))
    threads = "one thread" if said("threads") == "1" else f"{said('threads')} threads"
    lines = [
        f"{said('date')}, torch {said('torch')}, Calque {said('calque')}, CPU {said('cpu')}, {threads}",
        *(f"BLEU {name}: `{' / '.join(dict.fromkeys(each[key] for each in signatures))}`" for name, key in kinds),
    ]
    return "\n".join(f"- {line}" for line in lines)


def report(out: Path, *, name: str = "") -> tuple[str, dict[str, list[Row]]]:
    """All that a folder has, in Markdown, and the lines of its figure."""
    rows, stops = read_rows(out / beams.RESULTS), read_rows(out / stopping.RESULTS)
    terms = json.loads((out / "terms.json").read_bytes()) if (out / "terms.json").exists() else None
    told_of = [{**terms, "signatures": terms["scores"]["plain"]["signatures"]}] if terms else []
    lines, parts, used = lines_of(rows), [], [*rows, *stops, *told_of]
    if not used:
        raise ValueError(f"{out}: no results yet: run beams.py, stopping.py or terms.py first")
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
        parts += ["### Words that must and must not be there", terms_text(terms), terms_table(terms)]
    return "\n\n".join([*parts, "### Made with", made(used)]) + "\n", lines


def filled(text: str, *, results: str, name: str = "") -> str:
    """`text` with the results between its marks."""
    begin, end = marks(name)
    before, begins, rest = text.partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"there is no place for the results: it begins with {begin} and ends with {end}")
    return f"{before}{begin}\n\n{results}\n{end}{after}"


def _cell(row: Row, *, is_best: bool) -> str:
    value = f"{row['bleu_lowercased']:.2f}"
    return f"{f'**{value}**' if is_best else value} ({row['bleu']:.2f}; {row['ratio']:.3f})"


def _scores(scores: Row) -> list[str]:
    return [f"{scores['bleu_lowercased']:.2f}", f"{scores['bleu']:.2f}", f"{scores['ratio']:.3f}"]


def _share(before: int, after: int, total: int) -> str:
    return f"{before / total:.1%} → {after / total:.1%}"


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--write", type=Path, help="a file with marks, to be filled")
    parser.add_argument("--name", default="", help="of the marks, where the file has several reports")
    given = parser.parse_args()
    try:
        text, lines = report(given.out, name=given.name)
        print(text)
        (given.out / "report.md").write_text(text, encoding="utf-8")
        labels = {name: f"{name}: {told(rows[0]['parameters'])}" for name, rows in lines.items()}
        folders = [given.out, *([given.write.parent] if given.write else [])]
        for folder in folders if lines else []:
            draw_beams(folder / figure_name(given.name), lines, labels=labels)
        if given.write:
            given.write.write_text(
                filled(given.write.read_text(encoding="utf-8"), results=text, name=given.name), encoding="utf-8"
            )
    except (OSError, ValueError) as error:
        sys.exit(f"report.py: {error}")


if __name__ == "__main__":
    _main()
