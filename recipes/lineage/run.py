"""Trains and scores all entries, many runs in parallel; the same command resumes.

    python -m recipes.lineage.run CORPUS OUT --seeds 1 2 3 --jobs 16

Every run is OUT/NAME-SEED with its log next to it, and is finished when it has a result.json. With --rates every entry
is trained with every rate, as OUT/NAME-RATE-SEED, and not tested: `recipes.lineage.rates` compares them. After
--seconds all runs save and stop. Exit codes: 0 all done, 1 a run failed, 2 a mistake in the arguments, 75 stopped with
runs left.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

from calque.errors import UserError
from recipes.lineage.corpus import CorpusKind, derive_corpus
from recipes.lineage.entries import ENTRIES, Entry
from recipes.lineage.lengths import JOINED
from recipes.lineage.plan import Order, Plan, experiment_of, job_of, prepare_store, runs_of
from recipes.lineage.results import SETTINGS
from recipes.runner.arguments import parser_of, split_assignments
from recipes.runner.files import write_json
from recipes.runner.scheduler import refuse_other_settings, run_jobs


def _arguments(known: dict[str, Entry]) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.usage = "python -m recipes.lineage.run CORPUS OUT [OPTION ...] [KEY=VALUE ...]"
    parser.epilog = "KEY=VALUE are settings of Calque for all runs, such as training.steps=5000."
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("out", type=Path, help="the folder for all runs")
    parser.add_argument("--corpus-kind", choices=get_args(CorpusKind), default="multi30k")
    parser.add_argument(
        "--names", nargs="+", choices=known, default=list(known), metavar="NAME", help="entries (default: all)"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--rates", nargs="+", type=float, metavar="RATE", help="peak learning rates to compare")
    parser.add_argument(
        "--order", choices=get_args(Order), default="seed", help="seed by seed, or by cost: the slowest first"
    )
    parser.add_argument("--jobs", type=int, default=16, help="parallel processes (default: 16)")
    parser.add_argument("--seconds", type=float, help="save and stop after this time")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument(
        "--keep-checkpoints", action="store_true", help="keep the checkpoints of finished runs: half a gigabyte each"
    )
    parser.add_argument(
        "--factor", type=float, default=1.0, help="multiply the scale of every entry by this factor, for a quick try"
    )
    arguments, assignments = split_assignments(sys.argv[1:])
    options = parser.parse_args(arguments)
    options.assignments = assignments
    if options.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return options


def _main() -> int:
    started = time.monotonic()
    known = {entry.name: entry for entry in ENTRIES}
    options = _arguments(known)
    entries = [known[name] for name in options.names]
    if options.rates:
        entries = [entry.at(rate) for entry in entries for rate in options.rates]
    out = options.out.absolute()
    shared = {
        "corpus_kind": options.corpus_kind,
        "trained_on_joined": list(JOINED),
        "factor": options.factor,
        "assignments": options.assignments,
    }
    try:
        refuse_other_settings(out / SETTINGS, shared)
        corpus = derive_corpus(options.corpus.absolute(), kind=options.corpus_kind, to=out / "corpus")
        plan = Plan(
            *(corpus, out, options.factor, options.device, options.assignments, options.keep_checkpoints),
            compares_rates=bool(options.rates),
        )
        experiments = [experiment_of(entry, plan) for entry in entries]
        prepare_store(experiments[0], plan)
        write_json(out / SETTINGS, shared)
    except (OSError, ValueError, UserError) as error:
        print(f"recipes.lineage.run: {error}", file=sys.stderr)
        return 2
    runs = runs_of(entries, seeds=options.seeds, out=out, order=options.order)
    seconds = None if options.seconds is None else max(0.0, options.seconds - (time.monotonic() - started))
    return run_jobs([job_of(run, plan) for run in runs], slots=options.jobs, seconds=seconds)


if __name__ == "__main__":
    sys.exit(_main())
