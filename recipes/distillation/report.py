"""Makes the table of the distillation recipe from a folder of runs and a file of speeds.

    python recipes/distillation/report.py OUT --keep recipes/distillation/results.json
    python recipes/distillation/report.py recipes/distillation/results.json --write recipes/distillation/README.md

The speeds are those of OUT/speeds.json, which speed.py writes.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from pages import asking, mean, of_runs, publish, ranged, read_tested, summary, table, told_by_penalty, variant_of
from variants import Row, read_lists

LIST = Path(__file__).resolve().parent / "distillation.toml"
SPEEDS = "speeds.json"


def collect(out: Path, rows: Mapping[str, Row]) -> dict[str, Any]:
    """All numbers of the tables."""
    kept: dict[str, Any] = {"rows": {}}
    for name, row in rows.items():
        if found := read_tested(out, name):
            run = variant_of(found[0])
            kept["rows"][name] = {
                **summary(out, name, row, found),
                "seeds": len(of_runs(out, run, "parameters")) if row.together else len(found),
                "parameters": sum(of_runs(out, run, "parameters")[: None if row.together else 1]),
            }
    speeds = out / SPEEDS
    return {**kept, **(json.loads(speeds.read_bytes()) if speeds.is_file() else {})} if kept["rows"] else {}


def page(kept: Mapping[str, Any]) -> str:
    """Scores, how far the student is from its teachers, and speeds."""
    rows = kept["rows"]
    scored = [
        (
            row["told"],
            f"{row['parameters']:,.0f}",
            f"{row['seeds']}",
            row["penalty"],
            ranged(row["valid"]),
            f"**{ranged(row['bleu'])}**",
            f"{mean(row['chrf']):.2f}",
        )
        for row in rows.values()
    ]
    parts = [
        table(
            ("model", "parameters", "seeds", "length penalty", "val BLEU", "test BLEU, lowercased (range)", "chrF"),
            scored,
        )
    ]
    if "student" in rows:
        apart = [
            f"{_apart(mean(rows['student']['bleu']) - mean(rows[name]['bleu']))} {rows[name]['told']}"
            for name in ("teacher", "ensemble", "student-alone")
            if name in rows
        ]
        parts += [f"The student is {'; '.join(apart)}."] if apart else []
    parts.append(told_by_penalty(rows))
    if "speeds" in kept:
        names = list(kept["speeds"])
        ways = [kept["speeds"][name] for name in names]
        speeds = [(_told(each[0]), *(_speed(one) for one in each), *_times(each)) for each in zip(*ways, strict=True)]
        ratios = [f"{names[-1]} : {name}" for name in names[:-1]]
        parts.append(table(("sentences/s (target pieces/s)", *names, *ratios), speeds))
        parts.append(f"Measured on {'; '.join(kept['machines'].values())}.")
    parts.append("\n".join(f"- {name}: `{one}`" for name, one in next(iter(rows.values()))["signatures"].items()))
    return "\n\n".join(part for part in parts if part)


def _told(one: Mapping[str, Any]) -> str:
    place = "one CPU thread" if one["device"] == "cpu" else "GPU"
    search = "greedy" if one["beam"] == 1 else f"beam {one['beam']}"
    return f"{place}, {search}, {'all at once' if one['at_once'] else 'one by one'}"


def _speed(one: Mapping[str, Any]) -> str:
    return f"{one['sentences']:,.0f} ({one['tokens']:,.0f})"


def _times(each: Sequence[Mapping[str, Any]]) -> list[str]:
    """The last model against all others."""
    return [f"{each[-1]['sentences'] / other['sentences']:.1f}" for other in each[:-1]]


def _apart(difference: float) -> str:
    return f"{abs(difference):.2f} BLEU {'above' if difference >= 0 else 'below'}"


def _main() -> None:
    publish(asking(__doc__).parse_args(), collect=lambda out: collect(out, read_lists([LIST]).rows), page=page)


if __name__ == "__main__":
    _main()
