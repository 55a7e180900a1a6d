"""Which learning rate validated best, of runs that `run.py --rates` trained.

    python recipes/lineage/rates.py OUT [OUT2 ...] --keep recipes/lineage/rates.jsonl
    python recipes/lineage/rates.py recipes/lineage/rates.jsonl --write recipes/lineage/README.md

prints a table a corpus: the best validation BLEU of every entry with every rate. The test set has no part in it.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import pages
from plan import TRAINED
from results import CORPORA, corpus_of

Row = dict[str, Any]


def collect(paths: Sequence[Path]) -> list[Row]:
    """What folders of runs and kept files have of runs that are whole, in their order."""
    return [row for path in paths for row in (_of_folder(path) if path.is_dir() else _of_file(path))]


def report(rows: Sequence[Row]) -> str:
    """A table a corpus: entries by rates, the best of each in bold."""
    parts = []
    for corpus in CORPORA:
        mine = [row for row in rows if row["corpus"] == corpus]
        if mine:
            steps = "/".join(dict.fromkeys(str(row["steps"]) for row in mine))
            seeds = "/".join(dict.fromkeys(str(row["seed"]) for row in mine))
            parts += [f"Validation BLEU on {corpus} after {steps} steps, seed {seeds}:", _table(mine)]
    return "\n\n".join(parts)


def _table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row["name"] for row in rows))
    rates = sorted({row["rate"] for row in rows})
    lines = []
    for name in names:
        found = {rate: [row["bleu"] for row in rows if (row["name"], row["rate"]) == (name, rate)] for rate in rates}
        means = {rate: pages.mean(values) for rate, values in found.items() if values}
        best = max(means.values())
        told = [f"{means[rate]:.1f}" if rate in means else "" for rate in rates]
        lines.append(
            [
                name,
                *(f"**{each}**" if means.get(rate) == best else each for rate, each in zip(rates, told, strict=True)),
            ]
        )
    return pages.table(["entry", *(f"{rate:g}" for rate in rates)], lines)


def _of_folder(out: Path) -> Iterator[Row]:
    corpus = corpus_of(out)
    for mark in sorted(out.glob(f"*/{TRAINED}")):
        config = tomllib.loads((mark.parent / "config.toml").read_text(encoding="utf-8"))
        metrics = map(json.loads, (mark.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        bleu = max(each["bleu"] for each in metrics if each["kind"] == "valid")
        rate, seed = config["training"]["optimiser"]["learning_rate"], config["seed"]
        name = mark.parent.name.removesuffix(f"-{rate:g}-{seed}")
        steps = config["training"]["steps"]
        yield {"corpus": corpus, "name": name, "rate": rate, "seed": seed, "steps": steps, "bleu": round(bleu, 4)}


def _of_file(path: Path) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="a folder of runs, or what was kept of it")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--write", type=Path, metavar="FILE", help="a page with marks")
    given = parser.parse_args()
    try:
        rows = collect(given.paths)
        if not rows:
            raise ValueError(f"no trained runs in {', '.join(map(str, given.paths))}")
        print(report(rows))
        if given.keep:
            given.keep.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        if given.write:
            pages.write_page(given.write, report(rows), name="rates")
    except (OSError, ValueError) as error:
        print(f"rates.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    _main()
