"""The table of alignment error rates.

python -m recipes.alignment.report OUT [--keep results.json] [--write README.md]
"""

from pathlib import Path
from typing import Any

from calque.inspection.attention_maps import MEAN
from recipes.alignment.run import ENTRIES, RESULT
from recipes.runner.files import read_json
from recipes.runner.pages import mean_and_range, publish, report_parser, table


def collect(out: Path) -> dict[str, Any]:
    """The results of all finished runs, by their labels."""
    return {path.parent.name: read_json(path) for path in sorted(out.glob(f"*/{RESULT}"))}


def page(results: dict[str, Any]) -> str:
    """The table, one row per system: error rates with and without guidance, the best layer, and exact matches."""
    rows = []
    for entry in ENTRIES:
        own, guided = (runs_of(results, f"{entry.system}-{kind}-") for kind in ("own", "guided"))
        if own:
            best = _best_layer(own)
            rows.append(
                [
                    entry.system,
                    rates_of(own, MEAN),
                    rates_of(own, best) + f", {_layer_name(best)}" if _layers(own) > 1 else "",
                    rates_of(guided, MEAN) if guided else "cannot be guided" if not entry.can_be_guided else "",
                    _exact(own),
                    _exact(guided),
                ]
            )
    header = ["system", "AER, %", "best layer alone", "guided: AER, %", "exact match, %", "guided: exact match, %"]
    return table(header, rows)


def runs_of(results: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The results of all seeds of a system, given the beginning of their labels."""
    return [result for label, result in results.items() if label.startswith(prefix)]


def rates_of(runs: list[dict[str, Any]], layer: str) -> str:
    """The error rate of a layer in per cent, as mean and range over seeds."""
    return mean_and_range([100 * run["rates"][layer] for run in runs], digits=1)


def _exact(runs: list[dict[str, Any]]) -> str:
    return mean_and_range([100 * run["exact"] for run in runs], digits=1)


def _layers(runs: list[dict[str, Any]]) -> int:
    return len(runs[0]["rates"]) - 1


def _best_layer(runs: list[dict[str, Any]]) -> str:
    """The layer with the lowest mean error rate over seeds."""
    layers: list[str] = [name for name in runs[0]["rates"] if name != MEAN]
    return min(layers, key=lambda name: float(sum(run["rates"][name] for run in runs)))


def _layer_name(layer: str) -> str:
    return f"layer {1 + int(next(part for part in layer.split('.') if part.isdigit()))}"


def main() -> None:
    """Prints the table, saves the results, and writes the table into a page."""
    publish(report_parser(__doc__).parse_args(), collect=collect, page=page)


if __name__ == "__main__":
    main()
