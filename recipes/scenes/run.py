"""Draws scenes, trains captioners with several seeds in parallel, scores them on new combinations, writes the table.

    python -m recipes.scenes.run OUT [--device cuda] [--jobs 9] [--seeds 1 2 3] [--only soft] [--small] [--minutes 25]
        [--keep recipes/scenes/results.json] [--write recipes/scenes/README.md] [KEY=VALUE ...]

Existing results are not computed again, and an interrupted training is resumed. --small trains narrower models on fewer
images, for a CPU. KEY=VALUE are settings for all trainings.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from recipes.runner.arguments import split_assignments
from recipes.runner.files import read_json, write_json
from recipes.runner.pages import mean_and_range, table
from recipes.runner.results import mean
from recipes.runner.scheduler import Job, Stage, claim_folder, train_command
from recipes.runner.seeded import Plan, publish, run_recipe, seeded_parser

HERE = Path(__file__).resolve().parent
TARGET = 95.0  # per cent of captions of new combinations that are right, word for word
PICTURED = 5  # the number of the test image that is drawn


class Entry(NamedTuple):
    """A captioner of the recipe."""

    name: str
    system: str
    told: str


ENTRIES = (
    Entry("soft", "xu2015", "soft attention (`xu2015`)"),
    Entry("hard", "xu2015-hard", "hard attention (`xu2015-hard`)"),
    Entry("transformer", "liu2021", "Transformer (`liu2021`)"),
)


class Scale(NamedTuple):
    """The size of the recipe: the number of training images, and options of `calque train`."""

    pairs: int
    options: tuple[str, ...] = ()


FULL = Scale(20_000)
SMALL = Scale(
    4_000,
    (
        "--scale",
        "0.5",
        "training.steps=3000",
        "training.validate_every=200",
        "training.checkpoint_every=200",
        "training.batch.tokens=2400",
        "training.batch.workers=0",
        "training.optimiser.learning_rate=0.002",
        "training.schedule.warmup=200",
        "training.ema=0.99",
    ),
)


def job(entry: Entry, seed: int, *, out: Path, options: argparse.Namespace) -> Job:
    """The job that trains a captioner with one seed and scores it."""
    folder, scenes = out / f"{entry.name}-{seed}", out / "scenes"
    result = folder / "result.json"
    scale = SMALL if options.small else FULL
    files = [
        *("--images", str(scenes / f"train.{options.language}.jsonl")),
        *("--valid-images", str(scenes / f"valid.{options.language}.jsonl")),
    ]
    begin = ["--config", str(HERE / "base.toml"), "--system", entry.system, *files, f"seed={seed}", *scale.options]
    begin += [f"training.device={options.device}", *options.settings]
    test = scenes / f"test.{options.language}.jsonl"
    score = [sys.executable, "-m", "recipes.scenes.run", "--score", str(folder), str(test), str(result)]
    return Job(
        folder.name,
        folder,
        (
            Stage("training", lambda: train_command(folder, begin), folder / "trained"),
            Stage("scoring", lambda: score, result),
        ),
        summary=lambda: f"exact match {json.loads(result.read_bytes())['exact_match']['value']:.1f} %",
    )


def score(run: Path, test: Path, result: Path) -> int:
    """Writes the scores of `calque evaluate` for a run, and draws the attention to one image."""
    calque = [sys.executable, "-m", "calque"]
    done = subprocess.run(
        [*calque, "evaluate", str(run), "--images", str(test), "--json"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode == 0:
        image = test.parent / "test" / f"{PICTURED:06}.png"
        drawn = [*calque, "caption", str(run), str(image), "--attention", str(run / "attention")]
        subprocess.run(drawn, stdout=subprocess.DEVNULL, check=False)
        write_json(result, json.loads(done.stdout))
    return done.returncode


def collect(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The test scores of every captioner, by seed."""
    return {
        entry.name: [read_json(path) for path in sorted(out.glob(f"{entry.name}-*/result.json"))] for entry in ENTRIES
    }


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """The table of results."""
    rows = []
    for entry in ENTRIES:
        scores = results.get(entry.name)
        if not scores:
            continue
        exact = [score["exact_match"]["value"] for score in scores]
        inside, area, points = (
            [100 * score["attention"][name] for score in scores] for name in ("inside", "area", "points")
        )
        verdict = f"{TARGET:g} {'reached' if mean(exact) >= TARGET else 'missed'}"
        rows.append(
            [
                entry.told,
                mean_and_range(exact, digits=1),
                verdict,
                mean_and_range([score["bleu"]["value"] for score in scores], digits=1),
                f"{mean_and_range(inside, digits=1)}; boxes cover {mean(area):.1f}",
                mean_and_range(points, digits=1),
                str(len(scores)),
            ]
        )
    header = ["captioner", "exact match, %", "target", "BLEU", "attention inside, %", "points inside, %", "seeds"]
    return table(header, rows)


def keep_pictures(out: Path, folder: Path, *, seed: int) -> None:
    """Copies the attention picture of every captioner with one seed."""
    for entry in ENTRIES:
        drawn = out / f"{entry.name}-{seed}" / "attention" / f"{PICTURED:06}.png"
        if drawn.is_file():
            shutil.copyfile(drawn, folder / f"attention-{entry.name}.png")


def plan(arguments: list[str]) -> Plan:
    """The jobs of all captioners, once the scenes are drawn."""
    named, settings = split_assignments(arguments)
    options = _parser().parse_args(named)
    options.settings = settings
    claim_folder(options.out, {"settings": settings, "small": options.small, "language": options.language})
    if not (options.out / "scenes").is_dir():
        draw(options.out / "scenes", pairs=(SMALL if options.small else FULL).pairs)
    entries = [entry for entry in ENTRIES if options.only in (None, entry.name)]
    jobs = [job(entry, seed, out=options.out, options=options) for seed in options.seeds for entry in entries]

    def publish_all() -> None:
        results = collect(options.out)
        if any(results.values()):
            publish(options, results, page(results))
            if options.write:
                keep_pictures(options.out, options.write.parent, seed=options.seeds[0])

    return Plan(jobs, options, publish_all)


def draw(folder: Path, *, pairs: int) -> None:
    """Draws the images; raises an OSError if that fails."""
    unfinished = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, "-m", "calque", "data", "scenes", "--pairs", str(pairs), "--out", str(unfinished)]
    if subprocess.run(command, check=False).returncode:
        raise OSError("the scenes could not be drawn")
    unfinished.rename(folder)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--score"]:
        return score(*map(Path, arguments[1:]))
    return run_recipe(plan, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = seeded_parser(__doc__, jobs=9)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", choices=[entry.name for entry in ENTRIES])
    parser.add_argument("--language", choices=("en", "zh", "de"), default="en")
    parser.add_argument("--small", action="store_true", help="train narrower models on fewer images, for a CPU")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
