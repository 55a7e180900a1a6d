"""Trains the six folds of the digits recipe, tests each on the speaker it never heard, and prints the table.

    python -m recipes.digits.run CORPUS OUT [--jobs 6] [--device cuda] [--seeds 1 2 3] [--speakers george ...]
        [KEY=VALUE ...]

CORPUS holds recordings.tar.gz. A fold is named after the speaker it is tested on; its models, one per seed, are
selected on the next speaker of the list and trained on the other four. Existing results are not computed again, and an
interrupted training is resumed. KEY=VALUE are settings for all trainings.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from recipes.digits.corpus import SPEAKERS, VERSION, write_corpus
from recipes.runner.arguments import split_assignments
from recipes.runner.evaluating import evaluation
from recipes.runner.pages import mean_and_range, table
from recipes.runner.results import mean
from recipes.runner.scheduler import Job, Stage, claim_folder, train_command
from recipes.runner.seeded import Plan, publish, run_recipe, seeded_parser

HERE = Path(__file__).resolve().parent
BAR = 8.0  # WER in %, mean over the folds


def roles(tested: str) -> tuple[str, list[str]]:
    """The speaker that a fold is validated on, and the speakers that it is trained on."""
    selecting = SPEAKERS[(SPEAKERS.index(tested) + 1) % len(SPEAKERS)]
    return selecting, [speaker for speaker in SPEAKERS if speaker not in (tested, selecting)]


def job(tested: str, seed: int, *, corpus: Path, out: Path, device: str, settings: list[str]) -> Job:
    """The job that trains a fold with one seed and tests it."""
    selecting, trained = roles(tested)
    folder = out / f"{tested}-{seed}"
    result = folder / "result.json"
    begin = ["--config", str(HERE / "digits.toml")]
    for speaker in trained:
        begin += ["--audio", str(corpus / speaker / "train.jsonl")]
    begin += ["--valid-audio", str(corpus / selecting / "test.jsonl"), f"seed={seed}", f"training.device={device}"]
    begin += settings
    test = corpus / tested / "test.jsonl"
    return Job(
        folder.name,
        folder,
        (
            Stage("training", lambda: train_command(folder, begin), folder / "trained"),
            evaluation(result, folder, "--audio", str(test), "--device", device, name="testing"),
        ),
        summary=lambda: f"WER {json.loads(result.read_bytes())['wer']['rate']:.2f} %",
    )


def collect(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The error rates of every fold that has been tested, by its speaker, and the WER that selected each model."""
    paths = {speaker: sorted(out.glob(f"{speaker}-*/result.json")) for speaker in SPEAKERS}
    return {
        speaker: [{**json.loads(path.read_bytes()), "validation_wer": validation_wer(path.parent)} for path in found]
        for speaker, found in paths.items()
        if found
    }


def validation_wer(run: Path) -> float | None:
    """The lowest WER of a run's validations, in %; None if there were none."""
    metrics = run / "metrics.jsonl"
    rows = map(json.loads, metrics.read_text(encoding="utf-8").splitlines()) if metrics.is_file() else ()
    return min((row["wer"] for row in rows if row["kind"] == "valid"), default=None)


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """The table of results: one row per fold, with means and ranges over seeds."""
    rows, means, validations = [], [], []
    for speaker, runs in results.items():
        rates = [run["wer"]["rate"] for run in runs]
        validated = [run["validation_wer"] for run in runs if run["validation_wer"] is not None]
        edits = (sum(run["wer"][kind] for run in runs) for kind in ("substitutions", "insertions", "deletions"))
        words = sum(run["wer"]["length"] for run in runs)
        cells = [mean_and_range(validated), mean_and_range(rates), " / ".join(map(str, edits)), str(words)]
        rows.append([speaker, roles(speaker)[0], *cells, str(len(runs))])
        means.append(mean(rates))
        validations += [mean(validated)] if validated else []
    average = mean(means)
    verdict = f"bar {BAR:g}: {'reached' if average <= BAR else 'missed'}" if len(results) == len(SPEAKERS) else ""
    validation = f"{mean(validations):.2f}" if len(validations) == len(results) else ""
    rows.append([f"mean of {len(results)}", "", validation, f"{average:.2f}", verdict, "", ""])
    heads = ["tested", "selected on", "validation WER, %", "WER, %", "subst. / ins. / del.", "words", "seeds"]
    return table(heads, rows)


def plan(arguments: list[str]) -> Plan:
    """The jobs of the folds, once the strings are written."""
    given, settings = split_assignments(arguments)
    options = _parser().parse_args(given)
    out = options.out.absolute()
    sizes = {"strings": options.strings, "tested_strings": options.tested_strings}
    claim_folder(out, {"settings": settings, "corpus": VERSION, **sizes})
    archive = options.corpus / "recordings.tar.gz"
    write_corpus(archive, out / "corpus", train=options.strings, test=options.tested_strings)
    jobs = [
        job(speaker, seed, corpus=out / "corpus", out=out, device=options.device, settings=settings)
        for seed in options.seeds
        for speaker in options.speakers
    ]

    def publish_folds() -> None:
        if results := collect(out):
            publish(options, results, page(results))

    return Plan(jobs, options, publish_folds)


def main(arguments: list[str]) -> int:
    return run_recipe(plan, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = seeded_parser(__doc__, seeds=[1])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--speakers", nargs="+", choices=SPEAKERS, default=list(SPEAKERS), help="folds to run (default: all)"
    )
    parser.add_argument("--strings", type=int, default=1500, help="training strings per speaker (default: 1500)")
    parser.add_argument("--tested-strings", type=int, default=300, help="test strings per speaker (default: 300)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
