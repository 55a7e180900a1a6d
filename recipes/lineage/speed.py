"""Measures the training speed of every entry on an idle machine: one after the other, some steps each.

    python -m recipes.lineage.speed CORPUS OUT --to recipes/lineage/results/speed.json

OUT must not exist. Target tokens per second are measured after the first training steps. (The runs of the table share a
GPU with a varying number of others, so their times do not show this speed.)
"""

import sys
from pathlib import Path
from typing import Any

from calque import train
from calque.errors import UserError
from calque.training.journal import read_journal
from recipes.lineage.corpus import Corpus, Side, derive_corpus
from recipes.lineage.entries import ENTRIES, Entry
from recipes.lineage.plan import Plan, experiment_of, prepare_store
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_lines, write_json, write_lines

STEPS, EVERY = 90, 10
WARM_UP = 30  # steps that are not counted
VALIDATION_LINES = 8  # a run has to validate, but the result is not used

SETTINGS = (
    *(f"training.{key}={STEPS}" for key in ("steps", "validate_every", "checkpoint_every")),
    *(f"training.log_every={EVERY}", "training.schedule.warmup=9"),
)


def measured(entry: Entry, plan: Plan) -> float:
    """Target tokens per second of an entry."""
    experiment = experiment_of(entry, plan)
    data = experiment.data.model_copy(update={"store": plan.store})
    run = train(experiment.model_copy(update={"data": data}), run=plan.out / entry.name, quiet=True)
    lines = [line for line in read_journal(run.folder / "timing.jsonl") if line["step"] > WARM_UP]
    return tokens_per_second(lines)


def tokens_per_second(lines: list[dict[str, Any]]) -> float:
    """The mean speed over several lines of timing.jsonl."""
    tokens = sum(line["tokens_per_second"] * line["seconds"] for line in lines)
    return float(tokens / sum(line["seconds"] for line in lines))


def _shortened(side: Side, out: Path) -> Side:
    """The side of a corpus with fewer validation lines."""
    valid = out / f"few.{side.language}"
    write_lines(valid, read_lines(side.valid)[:VALIDATION_LINES])
    return side._replace(valid=valid)


def _main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path, help="Multi30k's folder")
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", help="settings of Calque for all entries, for a quick try"
    )
    parser.add_argument("--names", nargs="+", choices=[entry.name for entry in ENTRIES], metavar="NAME")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument(
        "--factor", type=float, default=1.0, help="multiply the scale of every entry by this factor, for a quick try"
    )
    options = parser.parse_args()
    out = options.out.absolute()
    try:
        out.mkdir(parents=True)
        sides = derive_corpus(options.corpus.absolute(), kind="multi30k", to=out / "corpus")
        corpus = Corpus(*(_shortened(side, out) for side in sides))
        settings = [*SETTINGS, f"training.device={options.device}", *options.settings]
        plan = Plan(corpus, out, options.factor, options.device, settings)
        entries = [entry for entry in ENTRIES if options.names is None or entry.name in options.names]
        prepare_store(experiment_of(entries[0], plan), plan)
        speeds: dict[str, float] = {}
        for entry in entries:
            speeds[entry.name] = round(measured(entry, plan), 1)
            print(f"{entry.name:24} {speeds[entry.name]:>9,.0f} target tokens/s", flush=True)
    except (OSError, ValueError, UserError) as error:
        print(f"recipes.lineage.speed: {error}", file=sys.stderr)
        return 2
    write_json(options.to, speeds)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
