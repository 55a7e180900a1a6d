"""Makes the table and the figure of the objectives from a folder of runs, with sacreBLEU's paired tests.

    python recipes/objectives/report.py OUT CORPUS --keep recipes/objectives/results.json
    python recipes/objectives/report.py recipes/objectives/results.json --write recipes/objectives/README.md

The first computes everything and keeps the numbers; the second writes them into a page, with the figure beside it.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from judge import read_lines
from pages import (
    Tested,
    asking,
    mean,
    of_runs,
    publish,
    ranged,
    read_tested,
    summary,
    table,
    told_by_penalty,
    variant_of,
)
from variants import Row, read_lists

from calque.training.journal import read_journal

HERE = Path(__file__).resolve().parent
LISTS = (HERE / "objectives.toml", HERE / "recurrent.toml")
TEST = "test_2016_flickr"
SAMPLES = {"bs": 1000, "ar": 10_000}  # sacreBLEU's own numbers
FIGURE = "objectives.png"
LEVEL = 0.05


def paired(baseline: Sequence[str], system: Sequence[str], references: Sequence[str], *, kind: str) -> dict[str, float]:
    """The p-values of lowercased BLEU and of chrF: how likely such a difference is where there is none."""
    metrics = {"BLEU": BLEU(lowercase=True), "chrF": CHRF()}
    named: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    test = PairedTest(named, metrics, [list(references)], test_type=kind, n_samples=SAMPLES[kind])
    _, scores = test()
    return {"bleu": scores["BLEU"][1].p_value, "chrf": scores["chrF2"][1].p_value}  # type: ignore[union-attr, dict-item]


def compared(row: Sequence[Tested], other: Sequence[Tested], references: Sequence[str]) -> dict[str, Any]:
    """Two rows, seed by seed and with all seeds' translations behind each other."""
    seeds = {each.seed: each for each in other}
    pairs = [(seeds[each.seed], each) for each in row if each.seed in seeds]
    before, after = ([line for pair in pairs for line in pair[side].translations] for side in (0, 1))
    every = list(references) * len(pairs)
    return {
        "differences": [new.bleu - old.bleu for old, new in pairs],
        "by_seed": [paired(old.translations, new.translations, references, kind="bs")["bleu"] for old, new in pairs],
        "together": {kind: paired(before, after, every, kind=kind) for kind in SAMPLES if pairs},
    }


def collect(out: Path, references: Sequence[str], rows: Mapping[str, Row]) -> dict[str, Any]:
    """All numbers of the table."""
    tested = {name: found for name in rows if (found := read_tested(out, name))}
    kept: dict[str, Any] = {}
    for name, found in tested.items():
        run = variant_of(found[0])
        kept[name] = {
            **summary(out, name, rows[name], found),
            "chosen": run,
            "candidates": {each: of_runs(out, each, "scores", "bleu_lowercased") for each in rows[name].of},
            "greedy": greedily(out, run),
            "objective": made_small(out, run),
            "length": length(found, references),
            "seconds": of_runs(out, run, "training_seconds"),
            "against": {
                other: compared(found, tested[other], references) for other in rows[name].against if other in tested
            },
        }
    return kept


def greedily(out: Path, run: str) -> list[float]:
    """What each seed's training said last of val: cased BLEU without a beam, so that no length penalty plays a part."""
    return [float([line for line in each if line["kind"] == "valid"][-1]["bleu"]) for each in journals(out, run)]


def made_small(out: Path, run: str) -> list[tuple[float, float]]:
    """The first and the last that each seed's training said of its objective."""
    found = [[line["objective"] for line in each if "objective" in line] for each in journals(out, run)]
    return [(values[0], values[-1]) for values in found if values]


def journals(out: Path, run: str) -> list[list[dict[str, Any]]]:
    """What each seed's training wrote down."""
    return [read_journal(path) for path in sorted(out.glob(f"{run}-[0-9]*/metrics.jsonl"))]


def length(tested: Sequence[Tested], references: Sequence[str]) -> float:
    """Words of all translations to words of their references."""
    words = sum(len(line.split()) for each in tested for line in each.translations)
    return words / (len(tested) * sum(len(line.split()) for line in references))


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, the choices on val, and how it was measured."""
    head = (
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
            f"**{ranged(row['bleu'])}**",
            f"{mean(row['chrf']):.2f}",
            f"{row['length']:.3f}",
            f"{mean(row['seconds']):.0f}" if row["seconds"] else "",
        )
        for row in kept.values()
    ]
    tests = [
        (
            f"{row['told']} against {kept[other]['told']}",
            f"{mean(found['differences']):+.2f}",
            ", ".join(f"{one:+.2f} ({p:.3f})" for one, p in zip(found["differences"], found["by_seed"], strict=True)),
            *(f"{found['together'][kind]['bleu']:.4f}" for kind in ("bs", "ar")),
            f"{found['together']['ar']['chrf']:.4f}",
            verdict(found),
        )
        for row in kept.values()
        for other, found in row["against"].items()
        if found["differences"]
    ]
    heads = (
        "BLEU",
        "difference",
        "seed by seed (p)",
        "p, bootstrap",
        "p, randomization",
        "p of chrF, randomization",
        "",
    )
    choices = [
        f"- {row['told']}: " + ", ".join(f"`{name}` {one[0]:.2f}" for name, one in row["candidates"].items() if one)
        for row in kept.values()
        if len(row["candidates"]) > 1
    ]
    objectives = [
        f"- {row['told']}: " + ", ".join(f"{first:.3f} → {last:.3f}" for first, last in row["objective"])
        for row in kept.values()
        if row["objective"]
    ]
    signatures = next(iter(kept.values()))["signatures"]
    parts = [
        table(head, lines),
        "`val BLEU` is lowercased, with beam and length penalty as on the test set; greedy is without both. "
        "`length` is words of the test set's translations to words of the references. Training is in seconds beside "
        "other runs on the same GPU: it does not tell what a step costs.",
        f"![BLEU of each seed]({FIGURE})",
        table(heads, tests),
        "p-values are sacreBLEU's: paired bootstrap with 1,000 samples seed by seed; bootstrap, and approximate "
        "randomization with 10,000 trials, on all seeds' translations behind each other.",
        "The choices, by lowercased BLEU on val with the first seed:\n\n" + "\n".join(choices),
        told_by_penalty(kept),
        "What training makes small, from the first line in `metrics.jsonl` to the last, seed by seed (minimum risk "
        "alone: the expected risk of what is drawn):\n\n" + "\n".join(objectives),
        "\n".join(f"- {name}: `{one}`" for name, one in signatures.items()),
    ]
    return "\n\n".join(part for part in parts if part)


def verdict(found: Mapping[str, Any]) -> str:
    """Better or worse where both tests on all seeds, and the sign in every seed, say so."""
    values = [found["together"][kind]["bleu"] for kind in SAMPLES]
    least, most = min(found["differences"]), max(found["differences"])
    if max(values) >= LEVEL or least <= 0 <= most:
        return "no clear difference"
    return "**better**" if least > 0 else "**worse**"


def draw(path: Path, kept: Mapping[str, Mapping[str, Any]]) -> None:
    """A point a seed and a bar at the mean, a line a row."""
    figure = Figure(figsize=(8.5, 1.2 + 0.45 * len(kept)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, row in enumerate(kept.values()):
        axes.plot(row["bleu"], [place] * len(row["bleu"]), "o", color="#0072b2", markersize=6)
        axes.plot([mean(row["bleu"])], [place], "|", color="#d55e00", markersize=22, markeredgewidth=2.5)
        axes.annotate(
            f"{mean(row['bleu']):.2f}", (max(row["bleu"]), place), (10, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(range(len(kept)), [row["told"] for row in kept.values()])
    axes.set_ylim(len(kept) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.set_xlabel("BLEU, lowercased; points are seeds, bars means")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def _main() -> None:
    parser = asking(__doc__)
    parser.add_argument("corpus", type=Path, nargs="?", help="with a folder: where the references are")
    given = parser.parse_args()
    if given.path.is_dir() and not given.corpus:
        parser.error("a folder of runs needs the corpus too")

    def found(out: Path) -> Any:
        return collect(out, read_lines(given.corpus / f"{TEST}.de.gz"), read_lists(LISTS).rows)

    kept = publish(given, collect=found, page=page)
    if given.write:
        draw(given.write.parent / FIGURE, kept)


if __name__ == "__main__":
    _main()
