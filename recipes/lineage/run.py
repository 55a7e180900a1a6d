"""Trains and scores the whole line, many runs side by side; called again it goes on where it was.

    python recipes/lineage/run.py CORPUS OUT --seeds 1 2 3 --jobs 16

Every run is OUT/NAME-SEED with its log beside it, and is finished when it has a result.json. With --rates every entry
is trained with each of them, as OUT/NAME-RATE-SEED, and not tested: rates.py tells what validated best. After --seconds
all runs save and stop. Exit codes: 0 all done, 1 one failed, 2 a mistake in what was asked, 75 stopped with some left.
"""

import argparse
import re
import sys
import time
from pathlib import Path
from typing import get_args

from corpus import CorpusKind, make_corpus
from entries import ENTRIES, Entry
from lengths import JOINED
from plan import Order, Plan, experiment_of, fleet, job_of, runs_of
from results import SETTINGS

from calque.data.prepare import prepare
from calque.errors import UserError
from calque.experiment import assembly_of

ASSIGNMENT = re.compile(r"[a-z_]+(\.[a-z_]+)+=.*", re.DOTALL)


def _arguments(known: dict[str, Entry]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.usage = "%(prog)s CORPUS OUT [OPTION ...] [KEY=VALUE ...]"
    parser.epilog = "KEY=VALUE are settings of Calque for all runs, such as training.steps=5000."
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("out", type=Path, help="the folder for all runs")
    parser.add_argument("--corpus-kind", choices=get_args(CorpusKind), default="multi30k")
    parser.add_argument(
        "--names", nargs="+", choices=known, default=list(known), metavar="NAME", help="all unless said"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="1 2 3 unless said")
    parser.add_argument("--rates", nargs="+", type=float, metavar="RATE", help="peaks of the learning rate to compare")
    parser.add_argument("--order", choices=get_args(Order), default="seed", help="cost: the slowest entries first")
    parser.add_argument("--jobs", type=int, default=16, help="processes side by side; 16 unless said")
    parser.add_argument("--seconds", type=float, help="save and stop after so long")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument("--keep-checkpoints", action="store_true", help="of finished runs too: half a gigabyte each")
    parser.add_argument("--factor", type=float, default=1.0, help="on top of every entry's scale, for a quick try")
    given = parser.parse_args([one for one in sys.argv[1:] if not ASSIGNMENT.fullmatch(one)])
    given.assignments = list(filter(ASSIGNMENT.fullmatch, sys.argv[1:]))
    if given.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return given


def _main() -> int:
    started = time.monotonic()
    known = {entry.name: entry for entry in ENTRIES}
    given = _arguments(known)
    entries = [known[name] for name in given.names]
    if given.rates:
        entries = [entry.at(rate) for entry in entries for rate in given.rates]
    out = given.out.absolute()
    shared = {
        "corpus_kind": given.corpus_kind,
        "trained_on_joined": list(JOINED),
        "factor": given.factor,
        "assignments": given.assignments,
    }
    try:
        fleet.refuse_other_settings(out / SETTINGS, shared)
        corpus = make_corpus(given.corpus.absolute(), kind=given.corpus_kind, made=out / "corpus")
        plan = Plan(
            *(corpus, out, given.factor, given.device, given.assignments, given.keep_checkpoints),
            looks_for_rates=bool(given.rates),
        )
        experiments = [experiment_of(entry, plan) for entry in entries]
        # once, before many processes want it at the same time
        first = experiments[0]
        prepare(first.data, preparation=assembly_of(first).preparation, folder=plan.store)
        fleet.write_json(out / SETTINGS, shared)
    except (OSError, ValueError, UserError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    runs = runs_of(entries, seeds=given.seeds, out=out, order=given.order)
    seconds = None if given.seconds is None else max(0.0, given.seconds - (time.monotonic() - started))
    return fleet.sail([job_of(run, plan) for run in runs], side_by_side=given.jobs, seconds=seconds)


if __name__ == "__main__":
    sys.exit(_main())
