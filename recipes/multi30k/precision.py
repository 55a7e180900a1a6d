"""Trains systems of this recipe in several precisions and seeds, and scores them in float32 and int8, with and without
a lexical shortlist.

    python -m recipes.multi30k.precision CORPUS OUT [--systems best] [--precisions bfloat16] [--seeds 1 2 3]
        [--device cuda] [--jobs 6] [--minutes 25] [--keep FILE] [--write FILE] [KEY=VALUE ...]

CORPUS is a folder with train, val and test_2016_flickr, as .en.gz and .de.gz. Models are trained on the device and
scored on the CPU, on val and on the test set, with the search settings of their configs. Existing results are not
computed again, and an interrupted training is resumed. KEY=VALUE are settings for all trainings.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from recipes.runner.arguments import split_assignments
from recipes.runner.evaluating import evaluation
from recipes.runner.pages import mean_and_range, table
from recipes.runner.scheduler import Job, Stage, claim_folder, train_command
from recipes.runner.seeded import Plan, publish, run_recipe, seeded_parser

HERE = Path(__file__).resolve().parent
SYSTEMS = ("best", "wide", "transformer", "lstm")
PRECISIONS = ("float32", "tf32", "bfloat16")
SETS = ("val", "test_2016_flickr")
PLAIN = "float32"
WAYS = {
    PLAIN: ("--precision", "float32"),
    "int8": ("--precision", "int8"),
    "shortlist": ("--precision", "float32", "shortlist=true"),
    "both": ("--precision", "int8", "shortlist=true"),
}
METRIC = "bleu_lowercased"


class Trained(NamedTuple):
    """A run: a config of this folder, the precision of its training, and its seed."""

    system: str
    precision: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.system}-{self.precision}-{self.seed}"


def job(run: Trained, *, corpus: Path, out: Path, settings: Sequence[str]) -> Job:
    """The job that trains a model and scores it in every way."""
    folder = out / run.name
    begin = ["--config", str(HERE / f"{run.system}.toml")]
    for part, option in (("train", ""), ("val", "valid-")):
        begin += [
            f"--{option}source",
            str(corpus / f"{part}.en.gz"),
            f"--{option}target",
            str(corpus / f"{part}.de.gz"),
        ]
    begin += [f"seed={run.seed}", f"training.precision={run.precision}", *settings]
    shortlist = [sys.executable, "-m", "calque", "shortlist", str(folder)]
    return Job(
        run.name,
        folder,
        (
            Stage("training", lambda: train_command(folder, begin), folder / "trained"),
            Stage("shortlist", lambda: shortlist, folder / "has-shortlist"),
            *_evaluations(folder, corpus),
        ),
        summary=lambda: f"BLEU {_value(result_file(folder, SETS[1], PLAIN)):.2f}",
    )


def _evaluations(folder: Path, corpus: Path) -> Iterator[Stage]:
    for part in SETS:
        files = ("--source", str(corpus / f"{part}.en.gz"), "--reference", str(corpus / f"{part}.de.gz"))
        for way, options in WAYS.items():
            arguments = (*files, "--device", "cpu", *options)
            yield evaluation(result_file(folder, part, way), folder, *arguments, name=f"{way} on {part}")


def result_file(folder: Path, part: str, way: str) -> Path:
    """The scores of a run on a set of sentences, decoded in one of WAYS."""
    return folder / f"{part}.{way}.json"


def collect(out: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Lowercased BLEU by run, set and way, of the runs that are scored completely."""
    results = {}
    for folder in sorted(path.parent for path in out.glob("*/trained")):
        files = {part: {way: result_file(folder, part, way) for way in WAYS} for part in SETS}
        if all(path.is_file() for ways in files.values() for path in ways.values()):
            results[folder.name] = {
                part: {way: _value(path) for way, path in ways.items()} for part, ways in files.items()
            }
    return results


def page(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Two tables: BLEU by precision of the training, and what int8 and shortlists change in every run."""
    trainings: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {}
    for name, sets in results.items():
        system, precision, _ = name.rsplit("-", 2)
        trainings.setdefault((system, precision), []).append(sets)
    first = [
        [system, precision, *(mean_and_range([sets[part][PLAIN] for sets in runs]) for part in SETS), str(len(runs))]
        for (system, precision), runs in trainings.items()
    ]
    others = [way for way in WAYS if way != PLAIN]
    heads = ["run", *(head for part in SETS for head in (part, *others))]
    second = [[name, *_changes(sets)] for name, sets in results.items()]
    averages = [
        cell
        for part in SETS
        for cell in (
            "",
            *(f"{mean(sets[part][way] - sets[part][PLAIN] for sets in results.values()):+.2f}" for way in others),
        )
    ]
    second.append([f"mean of {len(results)}", *averages])
    return "\n\n".join([table(["system", "trained in", *SETS, "seeds"], first), table(heads, second)])


def _changes(sets: dict[str, dict[str, float]]) -> list[str]:
    return [
        f"{value:.2f}" if way == PLAIN else f"{value - sets[part][PLAIN]:+.2f}"
        for part in SETS
        for way, value in sets[part].items()
    ]


def _value(path: Path) -> float:
    scores: dict[str, Any] = json.loads(path.read_bytes())
    return float(scores[METRIC]["value"])


def plan(arguments: list[str]) -> Plan:
    """The jobs that train and score all systems."""
    given, settings = split_assignments(arguments)
    options = _parser().parse_args(given)
    corpus, out = options.corpus.absolute(), options.out.absolute()
    claim_folder(out, {"settings": settings})
    settings = [f"training.device={options.device}", *settings]
    jobs = [
        job(Trained(system, precision, seed), corpus=corpus, out=out, settings=settings)
        for system in options.systems
        for precision in options.precisions
        for seed in options.seeds
    ]

    def publish_scored() -> None:
        if results := collect(out):
            publish(options, results, page(results), name="precision")

    return Plan(jobs, options, publish_scored)


def main(arguments: list[str]) -> int:
    return run_recipe(plan, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = seeded_parser(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=["best", "transformer", "lstm"])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["bfloat16"], help="of the trainings")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
