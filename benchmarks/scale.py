"""A model of training on up to 1,024 GPUs: communication, memory and speed, from figures measured on one GPU.

    python -m benchmarks.scale
    python -m benchmarks.scale --network 12.5 --figure scale.png

This is a model, not a measurement. What it takes from measurements: the speed of one GPU, and that an update sends
2 (R−1)/R · 4 P bytes from each of R ranks (`python -m benchmarks.ranks`). What it assumes: 8 GPUs per machine, the
bandwidths and latencies below, communication that does not overlap with computation (as in Calque), and that the
slowest GPU is as fast as the others. Every GPU reads a batch of the size with which its speed was measured, so the
batch grows with the number of GPUs. Letters: R ranks, P parameters.

    update = tokens / speed + communication
    replicated (all-reduce)              2 (R−1)/R · 4 P bytes, 16 P bytes of memory
    sharded (two gathers, one scatter)   3 (R−1)/R · 4 P bytes, 16 P / R bytes of memory and a gathered block

Memory is that of weights, gradients and Adam's two moments in float32; activations come on top and do not depend on R.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import BenchmarkError
from benchmarks.machine import this_machine
from benchmarks.options import command_parser, run_command
from benchmarks.report import Report, command_line

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PER_MACHINE = 8
STATE = 16  # bytes per parameter: weight, gradient and two moments
LATENCY = (5e-6, 15e-6)  # seconds per message, within a machine and between machines
TREE = 0.9  # the bandwidth of trees, relative to rings


class Trained(NamedTuple):
    """A translation model, and the measured speed and batch size of its training on one GPU."""

    name: str
    parameters: float
    speed: float  # target tokens per second
    tokens: int  # target tokens per update
    blocks: int  # that are gathered one by one if the weights are sharded
    largest_block: float  # the share of the parameters in the largest part that is gathered at once


MODELS = (
    # benchmarks/results/train_h200_2026-11-17.md, batches of 100k and 65k positions of both sides, 11 % of them padding
    Trained("base", 61e6, 797_000, 44_500, 13, 16.4 / 61),
    Trained("big", 210e6, 311_000, 28_900, 13, 32.8 / 210),
)


class Network(NamedTuple):
    """Bandwidths in bytes per second: between the GPUs of a machine, and out of a machine."""

    inside: float
    outside: float


class Point(NamedTuple):
    """The predicted time, speed and memory for one number of GPUs."""

    gpus: int
    computing: float  # seconds per update
    replicated: float  # seconds of communication per update
    sharded: float
    speed: float  # target tokens per second of all GPUs, replicated
    replicated_bytes: float  # memory per GPU, without activations
    sharded_bytes: float


def sent_bytes(ranks: int, parameters: float, *, sharded: bool = False) -> float:
    """The bytes that each rank sends in one update."""
    return (3 if sharded else 2) * (ranks - 1) / ranks * 4 * parameters


def seconds(ranks: int, sent: float, network: Network, *, calls: int = 1) -> float:
    """The seconds that communication takes if each rank sends `sent` bytes in `calls` collectives: by ring or by tree.

    A ring enters and leaves every machine once, so that the link of a machine carries what one rank sends, and a call
    waits for 2 (R−1) messages. A double binary tree sends as many bytes, in 2 log₂ R messages, at 0.9 of the bandwidth.
    """
    if ranks == 1:
        return 0.0
    is_inside = ranks <= PER_MACHINE
    bandwidth = network.inside if is_inside else min(network.inside, network.outside)
    latency = calls * LATENCY[0 if is_inside else 1]
    ring = sent / bandwidth + 2 * (ranks - 1) * latency
    tree = sent / (TREE * bandwidth) + 2 * math.ceil(math.log2(ranks)) * latency
    return min(ring, tree)


def point(model: Trained, gpus: int, network: Network) -> Point:
    """The predictions for one translation model and number of GPUs."""
    computing = model.tokens / model.speed
    replicated = seconds(gpus, sent_bytes(gpus, model.parameters), network)
    sent = sent_bytes(gpus, model.parameters, sharded=True)
    sharded = seconds(gpus, sent, network, calls=3 * model.blocks)
    gathered = 4 * model.parameters * model.largest_block if gpus > 1 else 0.0
    return Point(
        gpus,
        computing,
        replicated,
        sharded,
        gpus * model.tokens / (computing + replicated),
        STATE * model.parameters,
        STATE * model.parameters / gpus + gathered,
    )


def main(words: Sequence[str]) -> int:
    """Prints the table and returns the exit code."""
    options = parse(words)
    return run_command(partial(report, options, words=words), json=options.json, note=options.note)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = command_parser("scale", description=__doc__)
    parser.add_argument(
        "--inside", type=float, default=200.0, help="GB/s between the GPUs of a machine (default: 200, NVLink)"
    )
    parser.add_argument(
        "--network", type=float, default=50.0, help="GB/s out of a machine (default: 50, i.e. 400 Gbit/s)"
    )
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw efficiency and memory (needs matplotlib)")
    parser.add_argument("--json", type=Path, help="save every figure", metavar="FILE")
    parser.add_argument("--note", action="store_true", help="add the table to benchmarks/results/")
    return parser.parse_args(words)


def report(options: argparse.Namespace, *, words: Sequence[str]) -> Report:
    """The table of all models and numbers of GPUs."""
    if not all(math.isfinite(speed) and speed > 0 for speed in (options.inside, options.network)):
        raise BenchmarkError("--inside and --network: expected a positive number of GB/s, such as 50")
    network = Network(options.inside * 1e9, options.network * 1e9)
    points = {model: [point(model, gpus, network) for gpus in COUNTS] for model in MODELS}
    if options.figure is not None:
        draw(points, path=options.figure)
    return Report(
        "scale-model",
        command_line("benchmarks.scale", words),
        this_machine(),
        {
            "kind": "a model, not a measurement",
            "assumed": f"{PER_MACHINE} GPUs per machine, {options.inside:g} GB/s within and {options.network:g} GB/s "
            f"out of a machine, latencies of {LATENCY[0] * 1e6:.0f} and {LATENCY[1] * 1e6:.0f} µs",
            "work": ", ".join(f"{model.name}: {model.tokens:,} target tokens per GPU and update" for model in MODELS),
        },
        [
            "model",
            "GPUs",
            "computing, ms",
            "all-reduce, ms",
            "sharded, ms",
            "tokens / s",
            "efficiency",
            "memory, replicated",
            "memory, sharded",
        ],
        [_row(model, each) for model, each_model in points.items() for each in each_model],
        ["Efficiency is the speed relative to that many times one GPU, with replicated weights."],
        {model.name: [each._asdict() for each in each_model] for model, each_model in points.items()},
    )


def _row(model: Trained, each: Point) -> list[str]:
    return [
        model.name,
        f"{each.gpus:,}",
        *(f"{1e3 * value:.1f}" for value in (each.computing, each.replicated, each.sharded)),
        f"{each.speed:,.0f}",
        f"{each.speed / (each.gpus * model.speed):.0%}",
        *(f"{value / 1e9:.2f} GB" for value in (each.replicated_bytes, each.sharded_bytes)),
    ]


def draw(points: dict[Trained, list[Point]], *, path: Path) -> None:
    """Draws the share of time that is spent computing, and the memory of a GPU."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise BenchmarkError(f"--figure {path}: matplotlib is not installed; pip install 'calque[plots]'") from None
    figure, (speeds, memory) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for colour, (model, each_model) in zip(("C0", "C1"), points.items(), strict=True):
        gpus = [each.gpus for each in each_model]
        sharded = f"{model.name}, sharded"
        for style, name, communication, size in (
            (
                "o-",
                model.name,
                [each.replicated for each in each_model],
                [each.replicated_bytes for each in each_model],
            ),
            ("s--", sharded, [each.sharded for each in each_model], [each.sharded_bytes for each in each_model]),
        ):
            computing = each_model[0].computing
            shares = [100 * computing / (computing + value) for value in communication]
            speeds.plot(gpus, shares, style, color=colour, label=name)
            memory.plot(gpus, [value / 1e9 for value in size], style, color=colour, label=name)
    speeds.set(ylim=(0, 102), ylabel="% of the time computing")
    memory.set(yscale="log", ylabel="GB per GPU, without activations")
    for axes in (speeds, memory):
        axes.set(xscale="log", xlabel="GPUs")
        axes.set_xticks(COUNTS[::2], [f"{count:,}" for count in COUNTS[::2]])
        axes.minorticks_off()
    speeds.legend(fontsize=8, loc="lower left")
    figure.suptitle("A model, not a measurement")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
