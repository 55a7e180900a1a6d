"""The results of the line as a table, a figure and the papers' claims.

    python recipes/lineage/report.py OUT [OUT2 ...] [--write README.md]

prints the report, and writes it to OUT/report.md with its figure OUT/lineage.png; with --write also between the
marks of that file, and the figure beside it.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from claims import Results, claims_table, findings
from entries import ENTRIES
from figure import draw_line
from lengths import BUCKET_NAMES, JOINED

BEGIN, END = "<!-- results -->", "<!-- /results -->"
FIGURE = "lineage.png"


def collect(folders: Sequence[Path]) -> dict[str, dict[int, dict[str, Any]]]:
    """Every result.json in the folders' runs by entry and seed: entries as listed, then names that are not known."""
    found: dict[str, dict[int, dict[str, Any]]] = {entry.name: {} for entry in ENTRIES}
    seen: dict[tuple[str, int], Path] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*/result.json")):
        result = json.loads(path.read_bytes())
        key = result["name"], result["seed"]
        if key in seen:
            raise ValueError(f"{path} and {seen[key]} are of the same entry and seed: leave one out")
        seen[key] = path
        found.setdefault(key[0], {})[key[1]] = result
    return {name: dict(sorted(seeds.items())) for name, seeds in found.items() if seeds}


def table(results: Results) -> str:
    """One row an entry, in Markdown; means over seeds, and the range of BLEU."""
    head = [
        "system",
        "parameters",
        "seeds",
        "BLEU lowercased (range)",
        "cased",
        "chrF",
        "target tokens/s",
        *BUCKET_NAMES,
    ]
    rows = [head, ["---"] * len(head)]
    for name, seeds in results.items():
        ones = list(seeds.values())
        bleu = [one["bleu_lowercased"] for one in ones]
        rows.append(
            [
                name,
                " / ".join(f"{count:,}" for count in sorted({one["parameters"] for one in ones})),
                str(len(ones)),
                f"**{_mean(bleu):.2f}** ({min(bleu):.2f} to {max(bleu):.2f})",
                *(f"{_mean([one[key] for one in ones]):.2f}" for key in ("bleu", "chrf")),
                f"{round(_mean([one['tokens_per_second'] for one in ones]), -2):,.0f}",
                *(_at_length(ones, bucket) for bucket in BUCKET_NAMES),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def made_with(results: Results) -> str:
    """What the numbers were made with: a list in Markdown; where runs differ, all there is."""
    ones = [one for seeds in results.values() for one in seeds.values()]

    def told(*keys: str) -> str:
        return " / ".join(dict.fromkeys(str(reduce(getitem, keys, one)) for one in ones))

    lengths = ", ".join(f"{name}: {told('lengths', name, 'sentences')}" for name in BUCKET_NAMES)
    signatures = (("BLEU lowercased", "bleu_lowercased"), ("BLEU cased", "bleu"), ("chrF", "chrf"))
    lines = [
        f"{len(ones)} runs of {told('steps')} steps on {told('device')}",
        f"torch {told('torch')}, Calque {told('calque')}",
        f"beam {told('search', 'beam')}, length penalty {told('search', 'length_penalty')}",
        f"sentences by length, of the test set and its neighbours joined by {', '.join(map(str, JOINED))}: {lengths}; "
        f"longer and left out: {told('longer')}",
        *(f"{name}: `{told('signatures', key)}`" for name, key in signatures),
    ]
    return "\n".join(f"- {line}" for line in lines)


def report(results: Results) -> str:
    """All of it in Markdown."""
    parts = [
        table(results),
        f"![BLEU by length of the source, and of all entries]({FIGURE})",
        "The claims, in points of lowercased BLEU; *shown* is a mean difference larger than the seeds' spread, the "
        "largest\ndistance between two seeds of one entry (for *does not lose*: no larger). Losing on long sentences "
        f"is BLEU on {BUCKET_NAMES[0]} less BLEU on {BUCKET_NAMES[-1]}.",
        claims_table(findings(results)),
        made_with(results),
    ]
    return "\n\n".join(parts) + "\n"


def filled(text: str, *, results: str) -> str:
    """`text` with the results between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"there is no place for the results: it begins with {BEGIN} and ends with {END}")
    return f"{before}{BEGIN}\n\n{results}\n{END}{after}"


def _at_length(ones: Sequence[Mapping[str, Any]], bucket: str) -> str:
    values = [one["lengths"][bucket]["bleu_lowercased"] for one in ones]
    return "" if None in values else f"{_mean(values):.1f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--write", type=Path, help="a file with marks, to be filled")
    parser.add_argument("--unit", default="words", help="what the corpus's lengths are counted in: words or characters")
    given = parser.parse_args()
    try:
        results = collect(given.out)
        if not results:
            raise ValueError(f"no result.json in any run of {', '.join(map(str, given.out))}")
        text = report(results)
        print(text)
        (given.out[0] / "report.md").write_text(text, encoding="utf-8")
        draw_line(given.out[0] / FIGURE, results, unit=given.unit)
        if given.write:
            given.write.write_text(filled(given.write.read_text(encoding="utf-8"), results=text), encoding="utf-8")
            draw_line(given.write.parent / FIGURE, results, unit=given.unit)
    except (OSError, ValueError) as error:
        sys.exit(f"report.py: {error}")


if __name__ == "__main__":
    _main()
