"""Trains the variants in lists on Multi30k, many runs in parallel; selects variants on val, and tests those selected.

    python -m recipes.run CORPUS OUT --lists recipes/objectives/objectives.toml recipes/multi30k/search.toml

The same command resumes. Every run is OUT/VARIANT-SEED with its log next to it. A row's variant is selected on val with
the first seed; the winner is trained with all seeds, translates val with every search setting that the row lists, and
then the test set, once: OUT/tested/ROW-SEED.json and .de. Exit codes: 0 all done, 1 a run failed, 2 a mistake in the
arguments, 75 stopped with runs left.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from calque.errors import UserError
from recipes.runner.arguments import parser_of, split_assignments
from recipes.runner.files import read_lines, write_json
from recipes.runner.plan import TEST, Plan, jobs_of, prepare_stores
from recipes.runner.scheduler import refuse_other_settings, run_jobs
from recipes.runner.variants import read_lists


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.usage = "python -m recipes.run CORPUS OUT --lists LIST ... [OPTION ...] [KEY=VALUE ...]"
    parser.epilog = "KEY=VALUE are settings of Calque for all runs, for a quick try."
    parser.add_argument("corpus", type=Path, help=f"a folder with train, val and {TEST}, as .en.gz and .de.gz")
    parser.add_argument("out", type=Path, help="the folder for all runs")
    parser.add_argument("--lists", type=Path, nargs="+", required=True, help="TOML files of variants and rows")
    parser.add_argument("--rows", nargs="+", help="rows to train and test (default: all rows of the lists)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3; the first one selects variants"
    )
    parser.add_argument("--jobs", type=int, default=6, help="parallel processes (default: 6)")
    parser.add_argument("--seconds", type=float, help="save and stop after this time")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    arguments, assignments = split_assignments(sys.argv[1:])
    options = parser.parse_args(arguments)
    options.assignments = assignments
    if options.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return options


def _main() -> int:
    started = time.monotonic()
    options = _arguments()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    shared: dict[str, Any] = {"assignments": options.assignments, "seeds": options.seeds}
    try:
        refuse_other_settings(out / "settings.json", shared)
        lists = read_lists(options.lists, rows=options.rows)
        corpus = options.corpus.absolute()
        plan = Plan(lists, corpus, out, tuple(options.seeds), options.device, tuple(options.assignments))
        for part in ("train", "val", TEST):
            for path in plan.files(part):
                read_lines(path)
        jobs = jobs_of(plan)
        labels = {job.label for job in jobs}
        prepare_stores(plan, (name for name in lists.variants if plan.run(name, options.seeds[0]).name in labels))
        write_json(out / "settings.json", shared)
    except (OSError, ValueError, UserError) as error:
        print(f"recipes.run: {error}", file=sys.stderr)
        return 2
    seconds = None if options.seconds is None else max(0.0, options.seconds - (time.monotonic() - started))
    return run_jobs(jobs, slots=options.jobs, seconds=seconds)


if __name__ == "__main__":
    sys.exit(_main())
