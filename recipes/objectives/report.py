"""The table and the figure of the objectives from a folder of runs, with sacreBLEU's paired tests.

    python -m recipes.objectives.report OUT CORPUS --keep recipes/objectives/results.json
    python -m recipes.objectives.report recipes/objectives/results.json --write recipes/objectives/README.md

The first command computes and saves all numbers; the second writes them into a page, with the figure next to it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from recipes.runner.files import read_lines
from recipes.runner.pages import list_by_penalty, list_signatures, mean_and_range, publish, report_parser, table
from recipes.runner.plan import TEST
from recipes.runner.results import Tested, journals, mean, read_tested, summary, values_of_runs
from recipes.runner.significance import compare_rows, verdict
from recipes.runner.variants import Row, read_lists

HERE = Path(__file__).resolve().parent
LISTS = (HERE / "objectives.toml", HERE / "recurrent.toml")
FIGURE = "objectives.png"


def collect(out: Path, references: Sequence[str], rows: Mapping[str, Row]) -> dict[str, Any]:
    """The numbers of the table, from a folder of runs."""
    all_tested = {name: tested for name in rows if (tested := read_tested(out, name))}
    results: dict[str, Any] = {}
    for name, tested in all_tested.items():
        variant = tested[0].variant
        results[name] = {
            **summary(out, name, rows[name], tested),
            "chosen": variant,
            "candidates": {
                candidate: values_of_runs(out, candidate, "scores", "bleu_lowercased")
                for candidate in rows[name].candidates
            },
            "greedy": greedy_bleu(out, variant),
            "objective": first_and_last_objective(out, variant),
            "length": length_ratio(tested, references),
            "seconds": values_of_runs(out, variant, "training_seconds"),
            "against": {
                baseline: compare_rows(tested, all_tested[baseline], references)
                for baseline in rows[name].baselines
                if baseline in all_tested
            },
        }
    return results


def greedy_bleu(out: Path, variant: str) -> list[float]:
    """Cased BLEU at the last validation of every seed's training, decoded greedily and so without a length penalty."""
    return [float([line for line in lines if line["kind"] == "valid"][-1]["bleu"]) for lines in journals(out, variant)]


def first_and_last_objective(out: Path, variant: str) -> list[tuple[float, float]]:
    """The first and the last value of the objective in every seed's training."""
    values = [[line["objective"] for line in lines if "objective" in line] for lines in journals(out, variant)]
    return [(seed[0], seed[-1]) for seed in values if seed]


def length_ratio(tested: Sequence[Tested], references: Sequence[str]) -> float:
    """The number of words in all translations, divided by that in their references."""
    words = sum(len(line.split()) for test in tested for line in test.translations)
    return words / (len(tested) * sum(len(line.split()) for line in references))


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The page: the table, the selection on val, and how everything was measured."""
    parts = [
        _scores_table(results),
        "`val BLEU` is lowercased, with beam and length penalty as on the test set; greedy search has neither. "
        "`length` is the ratio of words in the test set's translations to words in the references. Training times are "
        "in seconds, with other runs on the same GPU, so they do not show the cost of a step.",
        f"![BLEU of each seed]({FIGURE})",
        _tests_table(results),
        "p-values are sacreBLEU's: paired bootstrap with 1,000 samples seed by seed; bootstrap, and approximate "
        "randomization with 10,000 trials, on the concatenated translations of all seeds.",
        "The choices, by lowercased BLEU on val with the first seed:\n\n" + _candidates(results),
        list_by_penalty(results),
        "The objective that training minimises, in the first and the last line of `metrics.jsonl`, by seed (minimum "
        "risk alone: the expected risk of the samples):\n\n" + _objectives(results),
        list_signatures(next(iter(results.values()))["signatures"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _scores_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    header = (
        *("objective", "chosen on val", "length penalty", "val BLEU", "val, greedy, cased"),
        *("test BLEU, lowercased (range)", "chrF", "length", "training, s"),
    )
    lines = [
        (
            row["told"],
            f"`{row['chosen']}`",
            row["penalty"],
            f"{mean(row['valid']):.2f}" if row["valid"] else "",
            f"{mean(row['greedy']):.2f}" if row["greedy"] else "",
            f"**{mean_and_range(row['bleu'])}**",
            f"{mean(row['chrf']):.2f}",
            f"{row['length']:.3f}",
            f"{mean(row['seconds']):.0f}" if row["seconds"] else "",
        )
        for row in results.values()
    ]
    return table(header, lines)


def _tests_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    header = (
        *("BLEU", "difference", "seed by seed (p)", "p, bootstrap", "p, randomization", "p of chrF, randomization", ""),
    )
    lines = [
        (
            f"{row['told']} against {results[baseline]['told']}",
            f"{mean(tests['differences']):+.2f}",
            ", ".join(f"{bleu:+.2f} ({p:.3f})" for bleu, p in zip(tests["differences"], tests["by_seed"], strict=True)),
            *(f"{tests['together'][kind]['bleu']:.4f}" for kind in ("bs", "ar")),
            f"{tests['together']['ar']['chrf']:.4f}",
            verdict(tests),
        )
        for row in results.values()
        for baseline, tests in row["against"].items()
        if tests["differences"]
    ]
    return table(header, lines)


def _candidates(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The validation scores of every row with several candidates."""
    return "\n".join(
        f"- {row['told']}: " + ", ".join(f"`{name}` {bleu[0]:.2f}" for name, bleu in row["candidates"].items() if bleu)
        for row in results.values()
        if len(row["candidates"]) > 1
    )


def _objectives(results: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(
        f"- {row['told']}: " + ", ".join(f"{first:.3f} → {last:.3f}" for first, last in row["objective"])
        for row in results.values()
        if row["objective"]
    )


def draw(path: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draws the figure: one line per row, with a point per seed and a bar at the mean."""
    figure = Figure(figsize=(8.5, 1.2 + 0.45 * len(results)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, row in enumerate(results.values()):
        axes.plot(row["bleu"], [place] * len(row["bleu"]), "o", color="#0072b2", markersize=6)
        axes.plot([mean(row["bleu"])], [place], "|", color="#d55e00", markersize=22, markeredgewidth=2.5)
        axes.annotate(
            f"{mean(row['bleu']):.2f}", (max(row["bleu"]), place), (10, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(range(len(results)), [row["told"] for row in results.values()])
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.set_xlabel("BLEU, lowercased; points are seeds, bars means")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def _main() -> None:
    parser = report_parser(__doc__)
    parser.add_argument(
        "corpus", type=Path, nargs="?", help="the folder of the references; required if PATH is a folder of runs"
    )
    options = parser.parse_args()
    if options.path.is_dir() and not options.corpus:
        parser.error("to collect from a folder of runs, name the corpus too: OUT CORPUS")

    def collect_folder(out: Path) -> Any:
        return collect(out, read_lines(options.corpus / f"{TEST}.de.gz"), read_lists(LISTS).rows)

    results = publish(options, collect=collect_folder, page=page)
    if options.write:
        draw(options.write.parent / FIGURE, results)


if __name__ == "__main__":
    _main()
