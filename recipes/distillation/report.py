"""The tables of the distillation recipe, from a folder of runs and a file of speeds.

    python -m recipes.distillation.report OUT --keep recipes/distillation/results.json
    python -m recipes.distillation.report recipes/distillation/results.json --write recipes/distillation/README.md

The speeds are those of OUT/speeds.json, which `recipes.distillation.speed` writes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recipes.runner.files import read_json
from recipes.runner.pages import list_by_penalty, list_signatures, mean_and_range, publish, report_parser, table
from recipes.runner.results import mean, read_tested, summary, values_of_runs
from recipes.runner.variants import Row, read_lists

LIST = Path(__file__).resolve().parent / "distillation.toml"
SPEEDS = "speeds.json"


def collect(out: Path, rows: Mapping[str, Row]) -> dict[str, Any]:
    """The numbers of all tables, from a folder of runs."""
    results: dict[str, Any] = {"rows": {}}
    for name, row in rows.items():
        if tested := read_tested(out, name):
            sizes = values_of_runs(out, tested[0].variant, "parameters")
            results["rows"][name] = {
                **summary(out, name, row, tested),
                "seeds": len(sizes) if row.ensemble else len(tested),
                "parameters": sum(sizes[: None if row.ensemble else 1]),
            }
    if not results["rows"]:
        return {}
    return {**results, **(read_json(out / SPEEDS) if (out / SPEEDS).is_file() else {})}


def page(results: Mapping[str, Any]) -> str:
    """Scores, the distance between the student and its teachers, and speeds."""
    rows = results["rows"]
    parts = [_scores_table(rows), _distances(rows), list_by_penalty(rows)]
    if "speeds" in results:
        parts += [_speeds_table(results["speeds"]), f"Measured on {'; '.join(results['machines'].values())}."]
    parts.append(list_signatures(next(iter(rows.values()))["signatures"]))
    return "\n\n".join(part for part in parts if part)


def _scores_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    header = ("model", "parameters", "seeds", "length penalty", "val BLEU", "test BLEU, lowercased (range)", "chrF")
    lines = [
        (
            row["told"],
            f"{row['parameters']:,.0f}",
            f"{row['seeds']}",
            row["penalty"],
            mean_and_range(row["valid"]),
            f"**{mean_and_range(row['bleu'])}**",
            f"{mean(row['chrf']):.2f}",
        )
        for row in rows.values()
    ]
    return table(header, lines)


def _distances(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """A sentence that says how far the student's BLEU is above or below that of the other models."""
    others = [rows[name] for name in ("teacher", "ensemble", "student-alone") if name in rows]
    if "student" not in rows or not others:
        return ""
    differences = [(mean(rows["student"]["bleu"]) - mean(row["bleu"]), row["told"]) for row in others]
    distances = [f"{abs(bleu):.2f} BLEU {'above' if bleu >= 0 else 'below'} {label}" for bleu, label in differences]
    return f"The student is {'; '.join(distances)}."


def _speeds_table(speeds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One line per device, beam and batching; the last model's speed is also given relative to the others."""
    names = list(speeds)
    lines = [
        (_condition(models[0]), *map(_speed, models), *_ratios(models)) for models in zip(*speeds.values(), strict=True)
    ]
    ratios = [f"{names[-1]} : {name}" for name in names[:-1]]
    return table(("sentences/s (target pieces/s)", *names, *ratios), lines)


def _condition(speed: Mapping[str, Any]) -> str:
    place = "one CPU thread" if speed["device"] == "cpu" else "GPU"
    search = "greedy" if speed["beam"] == 1 else f"beam {speed['beam']}"
    return f"{place}, {search}, {'all at once' if speed['at_once'] else 'one by one'}"


def _speed(speed: Mapping[str, Any]) -> str:
    return f"{speed['sentences']:,.0f} ({speed['tokens']:,.0f})"


def _ratios(models: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{models[-1]['sentences'] / other['sentences']:.1f}" for other in models[:-1]]


def _main() -> None:
    publish(report_parser(__doc__).parse_args(), collect=lambda out: collect(out, read_lists([LIST]).rows), page=page)


if __name__ == "__main__":
    _main()
