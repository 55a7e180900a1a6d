"""How fast each entry trains with the machine to itself: one after the other, some steps each, in one process.

    python recipes/lineage/speed.py CORPUS OUT --to recipes/lineage/results/speed.json

OUT is a folder that does not exist yet. Target tokens a second are those of the training steps alone, the first ones
left out. The runs of the line share a GPU with a changing number of others: their times tell nothing of this.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from corpus import Corpus, Side, make_corpus, read_lines
from entries import ENTRIES, Entry
from plan import Plan, experiment_of, fleet

from calque import experiment
from calque.data.prepare import prepare
from calque.errors import UserError
from calque.training.journal import read_journal

STEPS, EVERY = 90, 10
WARM = 30  # steps that are not counted
FEW = 8  # lines to validate on, since a run has to: it is not looked at

SETTINGS = (
    *(f"training.{key}={STEPS}" for key in ("steps", "validate_every", "checkpoint_every")),
    *(f"training.log_every={EVERY}", "training.schedule.warmup=9"),
)


def measured(entry: Entry, plan: Plan) -> float:
    """Target tokens a second of an entry."""
    made = experiment_of(entry, plan)
    data = made.data.model_copy(update={"store": plan.store})
    run = experiment.train(made.model_copy(update={"data": data}), run=plan.out / entry.name, quiet=True)
    lines = [line for line in read_journal(run.folder / "timing.jsonl") if line["step"] > WARM]
    return tokens_per_second(lines)


def tokens_per_second(lines: list[dict[str, Any]]) -> float:
    """Of several lines of timing together."""
    tokens = sum(line["tokens_per_second"] * line["seconds"] for line in lines)
    return float(tokens / sum(line["seconds"] for line in lines))


def _shortened(side: Side, out: Path) -> Side:
    """A side that validates on little."""
    valid = out / f"few.{side.language}"
    valid.write_text("".join(f"{line}\n" for line in read_lines(side.valid)[:FEW]), encoding="utf-8")
    return side._replace(valid=valid)


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="Multi30k's folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of Calque, for all entries, for a quick try")
    parser.add_argument("--names", nargs="+", choices=[entry.name for entry in ENTRIES], metavar="NAME")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument("--factor", type=float, default=1.0, help="on top of every entry's scale, for a quick try")
    given = parser.parse_args()
    out = given.out.absolute()
    try:
        out.mkdir(parents=True)
        sides = make_corpus(given.corpus.absolute(), kind="multi30k", made=out / "corpus")
        corpus = Corpus(*(_shortened(side, out) for side in sides))
        settings = [*SETTINGS, f"training.device={given.device}", *given.settings]
        plan = Plan(corpus, out, given.factor, given.device, settings)
        entries = [entry for entry in ENTRIES if given.names is None or entry.name in given.names]
        first = experiment_of(entries[0], plan)
        prepare(first.data, preparation=experiment.assembly_of(first).preparation, folder=plan.store)
        found: dict[str, float] = {}
        for entry in entries:
            found[entry.name] = round(measured(entry, plan), 1)
            print(f"{entry.name:24} {found[entry.name]:>9,.0f} target tokens/s", flush=True)
    except (OSError, ValueError, UserError) as error:
        print(f"speed.py: {error}", file=sys.stderr)
        return 2
    fleet.write_json(given.to, found)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
