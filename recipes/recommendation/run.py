"""Trains the recommenders of this recipe with several seeds, scores them on the test items, and writes the table.

    python -m recipes.recommendation.run CORPUS OUT [--seeds 1 2 3] [--only sasrec gru4rec] [--jobs 3] [--device cuda]
        [--minutes 25] [--keep recipes/recommendation/results.json] [--write recipes/recommendation/README.md]
        [KEY=VALUE ...]

CORPUS is the file of Amazon Beauty, one user per line. The histories with times and behaviour types are generated.
Existing results are not computed again, and an interrupted training is resumed. KEY=VALUE are settings for all
trainings except that of `popularity`, which only counts items.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

from recipes.recommendation.generate import write_records
from recipes.runner.arguments import split_assignments
from recipes.runner.evaluating import evaluation
from recipes.runner.pages import mean_and_range, table
from recipes.runner.scheduler import Job, Stage, claim_folder, train_command
from recipes.runner.seeded import Plan, publish, run_recipe, seeded_parser

HERE = Path(__file__).resolve().parent
USERS = 4000  # generated


class Entry(NamedTuple):
    """A recommender of the recipe; its config is NAME.toml."""

    name: str
    corpus: str  # beauty or generated
    description: str
    is_counted: bool = False


ENTRIES = (
    Entry("popularity", "beauty", "the most frequent items", is_counted=True),
    Entry("gru4rec", "beauty", "GRU of 100, pairwise loss (`hidasi2016`)"),
    Entry("sasrec-binary", "beauty", "SASRec with the paper's loss, one negative per target"),
    Entry("sasrec", "beauty", "SASRec, cross-entropy over the catalogue (`kang2018`)"),
    Entry("order", "generated", "self-attention over items and positions alone"),
    Entry("times", "generated", "self-attention with time buckets"),
    Entry("atrank", "generated", "self-attention with time buckets and behaviour types (`zhou2018`)"),
)
METRICS = ("hr@1", "hr@5", "hr@10", "ndcg@10", "mrr")


def corpus_of(entry: Entry, beauty: Path, out: Path) -> Path:
    """The file of a corpus; histories with times and behaviours are generated once."""
    if entry.corpus == "beauty":
        return beauty
    path = out / "generated.jsonl"
    return path if path.is_file() else write_records(path, users=USERS)


def job(entry: Entry, seed: int, *, corpus: Path, out: Path, settings: list[str]) -> Job:
    """The job that trains an entry with one seed and scores it."""
    folder = out / f"{entry.name}-{seed}"
    result = folder / "result.json"
    begin = ["--config", str(HERE / f"{entry.name}.toml"), "--sequences", str(corpus), f"seed={seed}"]
    begin += [] if entry.is_counted else settings
    return Job(
        folder.name,
        folder,
        (
            Stage("training", lambda: train_command(folder, begin), folder / "trained"),
            evaluation(result, folder, "--sequences", str(corpus)),
        ),
        summary=lambda: f"NDCG@10 {json.loads(result.read_bytes())['ndcg@10']['value']:.4f}",
    )


def collect(out: Path) -> dict[str, list[dict[str, float]]]:
    """The test scores of every entry, by seed."""
    return {
        entry.name: [
            {name: json.loads(path.read_bytes())[name]["value"] for name in METRICS}
            for path in sorted(out.glob(f"{entry.name}-[0-9]*/result.json"))
        ]
        for entry in ENTRIES
    }


def page(results: dict[str, list[dict[str, float]]]) -> str:
    """The tables of results, one per corpus."""
    parts = []
    for corpus in dict.fromkeys(entry.corpus for entry in ENTRIES):
        rows = [
            [f"`{entry.name}.toml`", entry.description, *_cells(results.get(entry.name, []))]
            for entry in ENTRIES
            if entry.corpus == corpus
        ]
        parts.append(table([corpus, "model", *(name.upper() for name in METRICS), "seeds"], rows))
    return "\n\n".join(parts)


def _cells(runs: list[dict[str, float]]) -> list[str]:
    if not runs:
        return ["not measured yet", *[""] * (len(METRICS) - 1), "0"]
    return [*(mean_and_range([run[name] for run in runs], digits=4) for name in METRICS), str(len(runs))]


def plan(arguments: list[str]) -> Plan:
    """The jobs of all entries; popularity is counted, so that one seed is enough."""
    arguments, settings = split_assignments(arguments)
    options = _parser().parse_args(arguments)
    claim_folder(options.out, {"settings": settings})
    settings = [*settings, f"training.device={options.device}"]
    jobs = [
        job(entry, seed, corpus=corpus_of(entry, options.corpus, options.out), out=options.out, settings=settings)
        for entry in ENTRIES
        if not options.only or entry.name in options.only
        for seed in (options.seeds[:1] if entry.is_counted else options.seeds)
    ]

    def publish_all() -> None:
        results = collect(options.out)
        if any(results.values()):
            publish(options, results, page(results))

    return Plan(jobs, options, publish_all)


def main(arguments: list[str]) -> int:
    return run_recipe(plan, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = seeded_parser(__doc__, jobs=3)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=[entry.name for entry in ENTRIES])
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
