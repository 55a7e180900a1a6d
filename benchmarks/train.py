"""Measures how fast contenders train: target tokens per CPU-second, peak memory, padding and the size of the store.

    python -m benchmarks.train --against main
    python -m benchmarks.train --against v0.1 --work lstm --corpus DIR --rounds 5 --note
    python -m benchmarks.train --against OTHER --work language-model --tokens 2048 --tokens-of OTHER=4096
    python -m benchmarks.train --peers .peers --work lstm --corpus DIR --note

Run from the root of the repository. The working tree is called `here`; other contenders have the names that --against
gives them. Every contender trains the same model for a SHORT and for a LONG number of steps, each in a new process; the
difference in tokens is divided by the difference in seconds, so that start-up, data preparation and the
final save do not count. Contenders take turns. No round is discarded: an unmeasured run comes before the first. With
one thread the unit is CPU-seconds, with more it is seconds of wall time. Further KEY=VALUE arguments are settings of
`calque train` for all contenders.

With --peers DIR, OpenNMT-py and Eole train models of the same size on the same pieces (benchmarks/peers/install puts
them in DIR). A batch then has about 4,096 positions per side, half of the default of --tokens.

With --device cuda, a GPU is measured instead; see `python -m benchmarks.train --device cuda --help`.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import train_gpu
from benchmarks.errors import BenchmarkError
from benchmarks.figures import UNITS, Clock, clock_for, difference_rate, interleaved, spread, spread_of_ratios
from benchmarks.floor import Floor, measure_floor, read_model_config
from benchmarks.machine import this_machine
from benchmarks.operations import training_operations
from benchmarks.options import (
    add_common_options,
    add_peers_option,
    add_system_option,
    chosen_corpus,
    command_parser,
    parse_sizes,
    parse_tokens_of,
    positive,
    progress,
    run_command,
)
from benchmarks.peers.environments import described_peers, open_environments
from benchmarks.peers.texts import mean_length
from benchmarks.peers.trainers import ALIKE, PEERS, PeerTrainer
from benchmarks.report import Report, command_line, remarks_on_table, shown_bytes, shown_spread
from benchmarks.source_trees import HERE, described_trees, open_trees
from benchmarks.trainers import MODEL_CONFIG, CalqueTrainer, Trainer, TrainingRun
from benchmarks.works import MODELS, Work


class Round(NamedTuple):
    """A short and a long run of one contender, one after the other."""

    short: TrainingRun
    long: TrainingRun

    def speed(self, clock: Clock) -> float:
        """Target tokens per second, without start-up."""
        return difference_rate(self.short.measured(), self.long.measured(), clock=clock)

    def values(self) -> dict[str, Any]:
        """The results as JSON values."""
        runs = self._asdict()
        return {name: {**run._asdict(), "usage": run.usage._asdict()} for name, run in runs.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "--device" in words:
        return train_gpu.main(words)
    options = parse(words)
    return run_command(partial(compare, options, words=words), json=options.json, note=options.note)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = command_parser("train", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--work", choices=MODELS, default="transformer", help="what to train (default: transformer)")
    add_system_option(parser)
    parser.add_argument(
        "--steps",
        type=positive,
        nargs=2,
        default=(5, 25),
        metavar=("SHORT", "LONG"),
        help="steps per run (default: 5 25)",
    )
    parser.add_argument(
        "--tokens", type=positive, help="training.batch.tokens, over both sides (default: 4096; with --peers 8192)"
    )
    add_peers_option(parser)
    parser.add_argument(
        "--tokens-of",
        action="append",
        default=[],
        metavar="NAME=N",
        help="--tokens for one contender, if it counts the positions of a batch differently",
    )
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings of `calque train`")
    return parser.parse_intermixed_args(words)


def compare(options: argparse.Namespace, *, words: Sequence[str]) -> Report:
    """Trains with every contender in turn and returns the report."""
    steps = parse_sizes(options.steps, option="--steps")
    if options.peers and (options.work not in ALIKE or options.system):
        raise BenchmarkError("--peers needs --work transformer or --work lstm; the peers have no other models")
    environments = open_environments(options.peers, PEERS) if options.peers else []
    tokens_of = parse_tokens_of(options.tokens_of, names=[HERE, *options.against])
    clock = clock_for(options.threads)
    with tempfile.TemporaryDirectory(prefix="calque-train-") as name:
        folder = Path(name)
        trees = open_trees(options.against, folder=folder)
        corpus = chosen_corpus(options, tree=trees[0], folder=folder)
        work = Work(
            options.work,
            corpus,
            options.tokens or (8192 if environments else 4096),
            options.vocabulary,
            options.threads,
            options.system,
            (*(ALIKE[options.work] if environments else ()), *options.settings),
        )
        machine = this_machine()
        trainers: list[Trainer] = [CalqueTrainer(tree, tokens_of.get(tree.name)) for tree in trees]
        tokenizer = folder_of(0, folder=folder) / "store" / "tokenizer" / "joint.model"
        trainers += [PeerTrainer(environment, tokenizer) for environment in environments]
        measured = measure(trainers, work=work, steps=steps, rounds=options.rounds, folder=folder)
        progress("measuring the chip's peak for these products")
        floor = floor_of(work, folder=folder_of(0, folder=folder))
    speeds = {name: [pair.speed(clock) for pair in rounds] for name, rounds in measured.items()}
    usages = [run.usage for rounds in measured.values() for pair in rounds for run in pair]
    return Report(
        f"train-{work.name}",
        command_line("benchmarks.train", words),
        machine,
        {
            "work": f"{work.name}, {corpus.name}, steps {steps[0]} and {steps[1]}, {options.rounds} rounds",
            "threads": str(work.threads),
            "sources": described_trees(trees),
            **({"peers": described_peers(environments)} if environments else {}),
            **({"floor": floor.described("target token", UNITS[clock])} if floor else {}),
        },
        [
            *("contender", f"target tokens / {UNITS[clock]}", f"{HERE} ÷ it"),
            *("target tokens / step", "of the floor", "padding", "peak RSS", "store"),
        ],
        table(measured, speeds=speeds, floor=floor),
        remarks_on_table(base=HERE, usages=usages, threads=work.threads),
        {
            "rounds": {name: [pair.values() for pair in rounds] for name, rounds in measured.items()},
            "speeds": speeds,
            "floor": floor._asdict() if floor else None,
            "ratios": {name: ratio._asdict() for name, ratio in spread_of_ratios(speeds, of=HERE).items()},
        },
    )


def measure(
    trainers: Sequence[Trainer], *, work: Work, steps: tuple[int, int], rounds: int, folder: Path
) -> dict[str, list[Round]]:
    """The rounds of every contender, by its name."""
    clock = clock_for(work.threads)
    folders = {trainer.name: folder_of(number, folder=folder) for number, trainer in enumerate(trainers)}
    for trainer in trainers:
        folders[trainer.name].mkdir()
        progress(f"preparing {trainer.name}")
        trainer.prepare(work, folder=folders[trainer.name])
    measured: dict[str, list[Round]] = {trainer.name: [] for trainer in trainers}
    for number, trainer in interleaved(trainers, rounds=rounds):
        short, long = (trainer.train(work, steps=count, folder=folders[trainer.name]) for count in steps)
        measured[trainer.name].append(Round(short, long))
        progress(
            f"round {number} of {rounds}, {trainer.name}: {getattr(short.usage, clock):.1f} and "
            f"{getattr(long.usage, clock):.1f} {UNITS[clock]}, {Round(short, long).speed(clock):,.0f} target tokens "
            f"/ {UNITS[clock]}"
        )
    return measured


def folder_of(number: int, *, folder: Path) -> Path:
    """The working folder of a contender."""
    return folder / f"contender-{number}"


def floor_of(work: Work, *, folder: Path) -> Floor | None:
    """The floor of the model that was trained in `folder`; None if its operations cannot be counted."""
    config = read_model_config(folder / MODEL_CONFIG)
    tokenizer = folder / "store" / "tokenizer" / "joint.model"
    if config is None or not tokenizer.exists():
        return None
    source, target = (mean_length(path, tokenizer=tokenizer) for path in (work.corpus.source, work.corpus.target))
    try:
        operations = training_operations(config[0], source=source, target=target, vocabulary=config[1])
    except BenchmarkError as error:
        progress(f"no floor: {error}")
        return None
    return measure_floor(operations, amount=target, rows=work.tokens // 2, threads=work.threads)


def table(
    measured: Mapping[str, Sequence[Round]], *, speeds: Mapping[str, Sequence[float]], floor: Floor | None
) -> list[list[str]]:
    """The rows of the table, one per contender."""
    ratios = spread_of_ratios(speeds, of=HERE)
    rows = []
    for name, rounds in measured.items():
        long = rounds[0].long
        rows.append(
            [
                name,
                shown_spread(spread(speeds[name]), digits=0),
                shown_spread(ratios[name], digits=3) if name in ratios else "1",
                f"{long.tokens / long.steps:,.0f}",
                floor.share(spread(speeds[name]).median) if floor else "–",
                "–" if long.padding is None else f"{long.padding:.1%}",
                shown_bytes(statistics.median(pair.long.usage.peak for pair in rounds)),
                shown_bytes(long.store),
            ]
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
