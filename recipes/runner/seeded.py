"""Recipes that train several systems with several seeds, one at a time or side by side.

    python -m recipes.runner.seeded [--jobs 16] [--minutes 25] -- RECIPE ARGUMENT ... [-- RECIPE ARGUMENT ...]

RECIPE is a module with a function `plan`, such as recipes.digits.run or recipes.runner.pair_jobs, and the arguments are
its own; options like `--jobs` and `--minutes` among them have no effect. All processes share one scheduler, so that
small models of several recipes fill a GPU. Existing results are not computed again, and interrupted trainings are
resumed: run the same command again.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from calque.errors import UserError
from recipes.runner.arguments import parser_of
from recipes.runner.files import write_json
from recipes.runner.pages import write_page
from recipes.runner.scheduler import Job, run_jobs

DEVICES = ("auto", "cpu", "cuda", "mps")


class Plan(NamedTuple):
    """The jobs of a recipe with its options, and the function that prints and saves the results so far."""

    jobs: list[Job]
    options: argparse.Namespace
    publish: Callable[[], None]


Planner = Callable[[list[str]], Plan]
"""Parses the arguments of a recipe and prepares its data; raises a ValueError or an OSError with a message."""


def seeded_parser(
    description: str | None, *, seeds: Sequence[int] = (1, 2, 3), jobs: int = 6
) -> argparse.ArgumentParser:
    """A parser with the options that all recipes of this kind share."""
    parser = parser_of(description)
    usual = " ".join(map(str, seeds))
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=list(seeds), help=f"train every system with these (default: {usual})"
    )
    parser.add_argument("--device", choices=DEVICES, default="auto", help="of the trainings")
    parser.add_argument("--jobs", type=int, default=jobs, help=f"parallel processes (default: {jobs})")
    parser.add_argument("--minutes", type=float, help="save and stop after this time; the same command continues")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the results to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this Markdown page")
    return parser


def publish(options: argparse.Namespace, results: Any, text: str, *, name: str = "results") -> None:
    """Prints the table of results, and saves results and table to the files that the options name."""
    print(text)
    if options.keep:
        write_json(options.keep, results)
    if options.write:
        write_page(options.write, text, name=name)


def run_recipe(planner: Planner, arguments: Sequence[str]) -> int:
    """Runs the jobs of one recipe and publishes its results. Exit codes: those of `run_jobs`, and 2 for a mistake."""
    try:
        plan = planner(list(arguments))
        refuse_repeated(plan.jobs)
    except (ValueError, OSError, UserError) as error:
        print(f"{planner.__module__.removesuffix('.run')}: {error}", file=sys.stderr)
        return 2
    minutes = plan.options.minutes
    code = run_jobs(plan.jobs, slots=plan.options.jobs, seconds=None if minutes is None else 60 * minutes)
    plan.publish()
    return code


def refuse_repeated(jobs: Sequence[Job]) -> None:
    """Raises a ValueError if two jobs are the same, because a seed or a system was given twice."""
    labels = [job.label for job in jobs]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{label} would be run twice; name every seed and every system once")


def find_planner(module: str) -> Planner:
    """The function `plan` of a module; raises a ValueError if there is no such module or function."""
    try:
        planner: Planner = importlib.import_module(module).plan
    except (ModuleNotFoundError, AttributeError):
        raise ValueError("not a recipe that can be run here; expected e.g. recipes.digits.run") from None
    return planner


def run_together(recipes: Sequence[Sequence[str]], *, slots: int, seconds: float | None) -> int:
    """Runs the jobs of several recipes, each given as its module and its arguments, under one scheduler."""
    plans: list[Plan] = []
    jobs: list[Job] = []
    for number, (module, *arguments) in enumerate(recipes, start=1):
        try:
            plan = find_planner(module)(arguments)
            refuse_repeated(plan.jobs)
        except (ValueError, OSError, UserError) as error:
            print(f"{module}: {error}", file=sys.stderr)
            return 2
        plans.append(plan)
        prefix = f"{number}-"  # two recipes may have jobs of the same name
        jobs += [
            replace(job, label=prefix + job.label, needs=tuple(prefix + need for need in job.needs))
            for job in plan.jobs
        ]
    code = run_jobs(jobs, slots=slots, seconds=seconds)
    for plan in plans:
        plan.publish()
    return code


def main(arguments: Sequence[str]) -> int:
    parts: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "--":
            parts.append([])
        else:
            parts[-1].append(argument)
    parser = parser_of(__doc__)
    parser.add_argument("--jobs", type=int, default=16, help="parallel processes (default: 16)")
    parser.add_argument("--minutes", type=float, help="save and stop after this time; the same command continues")
    own, *recipes = parts
    options = parser.parse_args(own)
    if not recipes or not all(recipes):
        parser.error("name at least one recipe after --, such as: -- recipes.digits.run CORPUS OUT")
    return run_together(recipes, slots=options.jobs, seconds=None if options.minutes is None else 60 * options.minutes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
