"""Reports validation BLEU by learning rate, for runs trained with `recipes.lineage.run --rates`.

    python -m recipes.lineage.rates OUT [OUT2 ...] --keep recipes/lineage/rates.jsonl
    python -m recipes.lineage.rates recipes/lineage/rates.jsonl --write recipes/lineage/README.md

prints one table per corpus: the best validation BLEU of every entry with every rate. The test set is not used.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from calque.config import read_toml
from calque.training.journal import read_journal
from recipes.lineage.plan import TRAINED
from recipes.lineage.results import CORPORA, corpus_of
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_jsonl, write_lines
from recipes.runner.pages import table, write_page
from recipes.runner.results import mean

Row = dict[str, Any]


def collect(paths: Sequence[Path]) -> list[Row]:
    """The rows of all completely trained runs in folders and saved files, in the order of the paths."""
    return [row for path in paths for row in (_of_folder(path) if path.is_dir() else read_jsonl(path))]


def report(rows: Sequence[Row]) -> str:
    """One table per corpus: a row per entry, a column per rate, the best value of each entry in bold."""
    parts = []
    for corpus in CORPORA:
        own = [row for row in rows if row["corpus"] == corpus]
        if own:
            steps = "/".join(dict.fromkeys(str(row["steps"]) for row in own))
            seeds = "/".join(dict.fromkeys(str(row["seed"]) for row in own))
            parts += [f"Validation BLEU on {corpus} after {steps} steps, seed {seeds}:", _table(own)]
    return "\n\n".join(parts)


def _table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row["name"] for row in rows))
    rates = sorted({row["rate"] for row in rows})
    lines = []
    for name in names:
        bleu = {rate: [row["bleu"] for row in rows if (row["name"], row["rate"]) == (name, rate)] for rate in rates}
        means = {rate: mean(values) for rate, values in bleu.items() if values}
        best = max(means.values())
        cells = {rate: f"**{value:.1f}**" if value == best else f"{value:.1f}" for rate, value in means.items()}
        lines.append([name, *(cells.get(rate, "") for rate in rates)])
    return table(["entry", *(f"{rate:g}" for rate in rates)], lines)


def _of_folder(out: Path) -> Iterator[Row]:
    corpus = corpus_of(out)
    for run in sorted(mark.parent for mark in out.glob(f"*/{TRAINED}")):
        config, metrics = read_toml(run / "config.toml"), read_journal(run / "metrics.jsonl")
        bleu = max(line["bleu"] for line in metrics if line["kind"] == "valid")
        rate, seed = config["training"]["optimiser"]["learning_rate"], config["seed"]
        name = run.name.removesuffix(f"-{rate:g}-{seed}")
        steps = config["training"]["steps"]
        yield {"corpus": corpus, "name": name, "rate": rate, "seed": seed, "steps": steps, "bleu": round(bleu, 4)}


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "paths", type=Path, nargs="+", metavar="PATH", help="a folder of runs, or a file saved by --keep"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the results to this file")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="write the results between the marks of this Markdown page"
    )
    options = parser.parse_args()
    try:
        rows = collect(options.paths)
        if not rows:
            raise ValueError(f"no trained runs in {', '.join(map(str, options.paths))}")
        print(report(rows))
        if options.keep:
            write_lines(options.keep, map(json.dumps, rows))
        if options.write:
            write_page(options.write, report(rows), name="rates")
    except (OSError, ValueError) as error:
        print(f"recipes.lineage.rates: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    _main()
