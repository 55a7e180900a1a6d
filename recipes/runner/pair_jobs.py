"""Trains, decodes and scores recipes on pairs of texts, several runs in parallel, and prints their tables.

    python -m recipes.runner.pair_jobs RECIPE [RECIPE ...] CORPORA OUT [--device cuda] [--seeds 1 2 3] [--jobs 6]
        [--seconds 540] [--rows ROW ...] [--write README.md] [KEY=VALUE ...]

RECIPE is a module that defines a recipe, such as recipes.summaries.recipe. CORPORA is the folder of all corpora.
Everything is written to OUT/NAME. Existing results are kept and interrupted runs are resumed: run the same command
again. KEY=VALUE are settings for all trainings. Exit codes: 0 all done, 1 a run failed, 2 a mistake, 75 stopped.
"""

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from calque.config import check, override, to_values
from calque.devices import DeviceName
from calque.engine import Translator, load_translator
from calque.engine.noisy_channel import Channel
from calque.engine.types import Request
from calque.errors import CalqueError, UserError
from calque.search.settings import SearchConfig
from recipes.runner.arguments import parser_of, split_assignments
from recipes.runner.files import read_lines, write_json, write_lines
from recipes.runner.pages import write_page
from recipes.runner.pair_recipe import BASELINE, PARTS, Options, Recipe, Row, System, collect, page, samples
from recipes.runner.scheduler import Job, Stage, longest_chain_first, refuse_other_settings, run_jobs, train_command
from recipes.runner.scoring import run_facts
from recipes.runner.seeded import Plan

PREPARED = "prepared.json"  # in a data folder, once it is complete; holds the counts of the preparation


def find_recipe(module: str) -> Recipe:
    """The recipe that a module defines."""
    recipe: Recipe = importlib.import_module(module).RECIPE
    return recipe


def prepare(recipe: Recipe, corpora: Path, out: Path) -> None:
    """Writes the data of a recipe unless it exists, and scores its baselines."""
    data = out / "data"
    if not (data / PREPARED).is_file():
        write_json(data / PREPARED, recipe.prepare(corpora, data))
    for baseline in recipe.baselines:
        result = out / "results" / f"{baseline.name}-{BASELINE}.json"
        if not result.is_file():
            folder = data / baseline.group
            outputs = list(baseline.outputs(folder))
            write_lines(result.with_suffix(".txt"), outputs)
            write_json(result, {"row": baseline.name, "scores": recipe.score(folder, outputs)})


def jobs_of(recipe: Recipe, out: Path, options: Options) -> list[Job]:
    """The jobs of a recipe: a training job per system and seed, and a scoring job per row and seed."""
    rows = [row for row in recipe.rows if options.rows is None or row.name in options.rows]
    wanted = {name for row in rows for name in (row.system, row.channel) if name is not None}
    if recipe.jobs is not None:
        training = recipe.jobs(recipe, out, options, wanted)
    else:
        systems = [system for system in recipe.systems if system.name in wanted]
        training = [_training_job(recipe, system, seed, out, options) for seed in options.seeds for system in systems]
    scoring = [_scoring_job(recipe, row, seed, out, options) for seed in options.seeds for row in rows]
    return [*training, *scoring]


def _training_job(recipe: Recipe, system: System, seed: int, out: Path, options: Options) -> Job:
    run, data = out / "runs" / f"{system.name}-{seed}", out / "data" / system.group
    source, target = ("target", "source") if system.reverse else ("source", "target")
    arguments = ["--config", str(system.config)]
    for part in PARTS[:2]:
        option = "" if part == "train" else "valid-"
        arguments += [f"--{option}source", str(data / f"{part}.{source}")]
        arguments += [f"--{option}target", str(data / f"{part}.{target}")]
    arguments += [f"seed={seed}", f"training.device={options.device}", "training.threads=1"]
    arguments += [*system.settings, *options.settings]
    return Job(
        f"{recipe.name}-{run.name}",
        run,
        (Stage("training", lambda: train_command(run, arguments), run / "trained"),),
        cost=system.cost,
        summary=lambda: "trained",
    )


def _scoring_job(recipe: Recipe, row: Row, seed: int, out: Path, options: Options) -> Job:
    result = out / "results" / f"{row.name}-{seed}.json"
    command = [sys.executable, "-m", "recipes.runner.pair_jobs", "--score", recipe.module, row.name, str(seed)]
    command += [str(out), options.device]
    runs = [name for name in (row.system, row.channel) if name is not None]
    return Job(
        f"{recipe.name}-{row.name}-{seed}-scores",
        result.with_suffix(""),
        (Stage("scoring", lambda: command, result),),
        needs=tuple(f"{recipe.name}-{name}-{seed}" for name in runs),
        cost=0.2,
    )


def score(module: str, name: str, seed: str, folder: str, device: str) -> None:
    """Decodes the test sources of a row with one seed, and writes its outputs and scores."""
    recipe, out = find_recipe(module), Path(folder)
    row = recipe.row(name)
    data, result = out / "data" / row.group, out / "results" / f"{row.name}-{seed}.json"
    translator = load_translator(out / "runs" / f"{row.system}-{seed}", device=_device(device))
    reverse = None
    if row.channel is not None:
        reverse = load_translator(out / "runs" / f"{row.channel}-{seed}", device=_device(device))
    tried = validation_scores(recipe, row, data, translator=translator, reverse=reverse)
    settings = [*row.search, *([max(tried, key=lambda setting: tried[setting])] if tried else [])]
    started = time.monotonic()
    decoded = decode(translator, read_lines(data / "test.source"), settings=settings, reverse=reverse)
    seconds = time.monotonic() - started
    outputs = recipe.restore(data, decoded)
    write_lines(result.with_suffix(".txt"), outputs)
    facts = run_facts(out / "runs" / f"{row.system}-{seed}", translator)
    scores = recipe.score(data, outputs)
    found = {"row": row.name, "seed": int(seed), "scores": scores, "search": settings, "tried": tried}
    write_json(result, {**found, "seconds": seconds, **facts})


def validation_scores(
    recipe: Recipe, row: Row, data: Path, *, translator: Translator, reverse: Translator | None = None
) -> dict[str, float]:
    """The score of the validation outputs with each search setting that the row tries."""
    if not row.tried:
        return {}
    assert recipe.validate is not None
    sources = read_lines(data / "valid.source")
    return {
        setting: recipe.validate(data, decode(translator, sources, settings=[*row.search, setting], reverse=reverse))
        for setting in row.tried
    }


def decode(
    translator: Translator, sources: Sequence[str], *, settings: Sequence[str] = (), reverse: Translator | None = None
) -> list[str]:
    """The best output for every source; a reverse model reranks the whole beam (noisy channel).

    A source that cannot be decoded, such as one without a piece that the model knows, has an empty output.
    """
    values = override(to_values(translator.search), ["batch_tokens=16000", *settings])
    search = check(SearchConfig, values, origin="search settings")
    engine = translator.engine(channel=None if reverse is None else Channel(reverse, warn=lambda _message: None))
    nbest = None if reverse is None else search.beam
    requests = (Request(source, search=search, nbest=nbest, line=line) for line, source in enumerate(sources))
    return ["" if isinstance(answer, CalqueError) else answer.text for answer in engine.answers(requests)]


def _device(name: str) -> DeviceName:
    if name not in get_args(DeviceName):
        raise UserError(f"unknown device {name!r}; expected one of {', '.join(get_args(DeviceName))}")
    return name  # type: ignore[return-value]


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("recipes", nargs="+", metavar="RECIPE")
    parser.add_argument("corpora", type=Path, metavar="CORPORA")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument(
        "--jobs", type=int, default=6, help="parallel processes (default: 6); with 0, only baselines are scored"
    )
    parser.add_argument("--seconds", type=float, help="save and stop after this time")
    parser.add_argument("--device", choices=get_args(DeviceName), default="auto")
    parser.add_argument("--rows", nargs="+", help="rows to train and score (default: all)")
    parser.add_argument("--resume", action="store_true", help="has no effect, as existing runs are always resumed")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="write each recipe's table between its marks in this page"
    )
    others, settings = split_assignments(arguments)
    options = parser.parse_intermixed_args(others)
    options.settings = settings
    return options


def plan(arguments: Sequence[str]) -> Plan:
    """The jobs of all recipes that the arguments name, once their data is prepared and their baselines are scored."""
    options = _arguments(arguments)
    shared = Options(
        tuple(options.seeds), options.device, tuple(options.settings), options.rows and tuple(options.rows)
    )
    recipes = [find_recipe(module) for module in options.recipes]
    jobs: list[Job] = []
    for recipe in recipes:
        out = options.out.absolute() / recipe.name
        searches = {row.name: [*row.search, *row.tried] for row in recipe.rows}
        settings: dict[str, Any] = {"settings": list(shared.settings), "searches": searches}
        refuse_other_settings(out / "settings.json", settings)
        prepare(recipe, options.corpora.absolute(), out)
        write_json(out / "settings.json", settings)
        jobs += jobs_of(recipe, out, shared)

    def publish_all() -> None:
        for recipe in recipes:
            publish(recipe, options.out.absolute() / recipe.name, write=options.write)

    return Plan(longest_chain_first(jobs), options, publish_all)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--score"]:
        score(*arguments[1:])
        return 0
    started = time.monotonic()
    try:
        jobs, options, publish_all = plan(arguments)
    except (OSError, ValueError, UserError) as error:
        print(f"recipes.runner.pair_jobs: {error}", file=sys.stderr)
        return 2
    seconds = None if options.seconds is None else max(0.0, options.seconds - (time.monotonic() - started))
    code = run_jobs(jobs, slots=options.jobs, seconds=seconds) if options.jobs else 0
    publish_all()
    return code


def publish(recipe: Recipe, out: Path, *, write: Path | None) -> None:
    """Prints the table and samples of a recipe, and saves both."""
    results = collect(recipe, out)
    text = page(recipe, results)
    trained = [row.name for row in recipe.lines if row.name in results]
    shown = samples(recipe, out, rows=trained)
    print(f"\n{recipe.name}\n\n{text}\n\n{shown}")
    write_json(out / "results.json", results)
    (out / "table.md").write_text(f"{text}\n", encoding="utf-8")
    (out / "samples.md").write_text(f"{shown}\n", encoding="utf-8")
    if write is not None:
        write_page(write, text, name=recipe.name)
        write_page(write, shown, name=f"{recipe.name} samples")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
