"""Trains the sentence encoders of this recipe with several seeds in parallel, and scores them and the baselines.

    python -m recipes.retrieval.run CORPUS OUT [--seeds 1 2 3] [--only bag lstm] [--device cuda] [--jobs 6]
        [--minutes 25] [--keep recipes/retrieval/results.json] [--write recipes/retrieval/README.md] [KEY=VALUE ...]

CORPUS is a folder with train, val and test_2016_flickr, as .en.gz and .de.gz. Existing results are not computed again,
and an interrupted training is resumed. KEY=VALUE are settings for all trainings.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from calque.evaluation.retrieval import Ranks
from recipes.retrieval.baselines import lexicon_ranks, ngram_ranks
from recipes.runner.arguments import split_assignments
from recipes.runner.evaluating import evaluation
from recipes.runner.files import read_lines, write_json, write_lines
from recipes.runner.pages import mean_and_range, table
from recipes.runner.scheduler import Job, Stage, claim_folder, train_command
from recipes.runner.seeded import Plan, publish, run_recipe, seeded_parser

HERE = Path(__file__).resolve().parent
TEST = "test_2016_flickr"
DIRECTIONS = {"source_to_target": "en → de", "target_to_source": "de → en"}
METRICS = {"top1": "top-1", "top5": "top-5", "mrr": "MRR"}


class Entry(NamedTuple):
    """A row of the table: a config in this folder, or a baseline without a network."""

    name: str
    description: str
    options: tuple[str, ...] = ()  # of `calque evaluate`


BASELINES = (
    Entry("ngrams", "shared character n-grams, tf-idf; no training"),
    Entry("lexicon", "lexicon of IBM Model 1, both directions"),
)
NETWORKS = (
    Entry("translation", "encoder of a translation model (both directions), mean pooling", ("--pooling", "mean")),
    Entry("bag", "contrastive, bag of words"),
    Entry("lstm", "contrastive, BiLSTM"),
    Entry("transformer", "contrastive, Transformer"),
)


def corpus_files(corpus: Path, part: str) -> tuple[Path, Path]:
    """The English and the German file of a part of the corpus."""
    return corpus / f"{part}.en.gz", corpus / f"{part}.de.gz"


def both_directions(corpus: Path, out: Path, part: str) -> tuple[Path, Path]:
    """Files with the pairs of a part in both directions, for a model whose encoder reads both languages."""
    files = out / f"both-{part}.source", out / f"both-{part}.target"
    if not all(path.is_file() for path in files):
        english, german = map(read_lines, corpus_files(corpus, part))
        write_lines(files[0], [*english, *german])
        write_lines(files[1], [*german, *english])
    return files


def job(entry: Entry, seed: int, *, corpus: Path, out: Path, settings: list[str]) -> Job:
    """The job that trains an entry with one seed and scores it."""
    folder = out / f"{entry.name}-{seed}"
    result = folder / "result.json"
    is_translation = entry.name == "translation"
    train, valid = (
        both_directions(corpus, out, part) if is_translation else corpus_files(corpus, part)
        for part in ("train", "val")
    )
    begin = ["--config", str(HERE / f"{entry.name}.toml"), "--source", str(train[0]), "--target", str(train[1])]
    begin += ["--valid-source", str(valid[0]), "--valid-target", str(valid[1]), f"seed={seed}", *settings]
    source, target = map(str, corpus_files(corpus, TEST))
    return Job(
        folder.name,
        folder,
        (
            Stage("training", lambda: train_command(folder, begin), folder / "trained"),
            evaluation(result, folder, "--source", source, "--target", target, *entry.options),
        ),
        summary=lambda: f"top-1 {json.loads(result.read_bytes())['mean']['top1']:.1f} %",
    )


def score_baselines(corpus: Path, out: Path) -> None:
    """Writes the scores of the baselines, unless they exist."""
    if all((out / f"{entry.name}.json").is_file() for entry in BASELINES):
        return
    sources, targets = map(read_lines, corpus_files(corpus, TEST))
    train_sources, train_targets = map(read_lines, corpus_files(corpus, "train"))
    ranks: dict[str, Ranks] = {
        "ngrams": ngram_ranks(sources, targets, known=[*train_sources, *train_targets]),
        "lexicon": lexicon_ranks(sources, targets, train_sources=train_sources, train_targets=train_targets),
    }
    for name, both in ranks.items():
        scores = dict(zip(DIRECTIONS, both.scores, strict=True))
        write_json(out / f"{name}.json", {direction: part._asdict() for direction, part in scores.items()})


def collect(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The scores of every entry, by seed."""
    found = {entry.name: [out / f"{entry.name}.json"] for entry in BASELINES}
    found |= {entry.name: sorted(out.glob(f"{entry.name}-*/result.json")) for entry in NETWORKS}
    return {name: [json.loads(path.read_bytes()) for path in paths if path.is_file()] for name, paths in found.items()}


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """The table of results."""
    header = ["system", *(f"{way}, {name}" for way in DIRECTIONS.values() for name in METRICS.values()), "seeds"]
    rows = []
    for entry in (*BASELINES, *NETWORKS):
        scores = results.get(entry.name, [])
        if scores:
            values = [
                mean_and_range([score[direction][metric] for score in scores], digits=1)
                for direction in DIRECTIONS
                for metric in METRICS
            ]
            seeds = str(len(scores)) if entry in NETWORKS else "none needed"
        else:
            values, seeds = ["not measured yet", *[""] * 5], ""
        rows.append([entry.description, *values, seeds])
    return table(header, rows)


def plan(arguments: list[str]) -> Plan:
    """The jobs of the networks, once the baselines are scored."""
    arguments, settings = split_assignments(arguments)
    options = _parser().parse_args(arguments)
    corpus, out = options.corpus.absolute(), options.out.absolute()
    claim_folder(out, {"settings": settings})
    score_baselines(corpus, out)
    settings = [f"training.device={options.device}", *settings]
    jobs = [
        job(entry, seed, corpus=corpus, out=out, settings=settings)
        for entry in NETWORKS
        if options.only is None or entry.name in options.only
        for seed in options.seeds
    ]

    def publish_all() -> None:
        results = collect(out)
        publish(options, results, page(results))

    return Plan(jobs, options, publish_all)


def main(arguments: list[str]) -> int:
    return run_recipe(plan, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = seeded_parser(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", choices=[entry.name for entry in NETWORKS], help="default: all")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
