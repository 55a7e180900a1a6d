"""Measures how time and memory grow with corpus size, sentence length, beam and vocabulary, and fits exponents.

    python -m benchmarks.growth --quick --figure growth.png
    python -m benchmarks.growth --axes length beam --note
    python -m benchmarks.growth --axes pairs --large          # also 10,000,000 pairs: minutes and 3 GB of disk

Run from the root of the repository. Every point is measured in a process of its own. `pairs` prepares generated text
with `calque data prepare`, and its whole cost counts. The other axes train and decode with the Transformer `small` and
random weights, without start-up, with translations as long as their sources. Each point has 2,000 source
positions, the usual size of a batch in search, or one sentence. An exponent b means that the cost grows as n^b. It is
fitted to all points by least squares, and to the last two alone, where constant costs matter least. The exponent of the
multiply-adds of matrix products shows how fast the arithmetic itself grows.
"""

import argparse
import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from benchmarks.errors import BenchmarkError
from benchmarks.machine import this_machine
from benchmarks.memory import generate
from benchmarks.operations import decoding_operations, training_operations
from benchmarks.options import add_report_options, command_parser, progress, run_command
from benchmarks.processes import run_measured
from benchmarks.report import Report, command_line, shown_bytes
from benchmarks.source_trees import REPOSITORY, THREAD_VARIABLES, described_trees, this_tree

if TYPE_CHECKING:  # importing torch here would count in the memory of every child
    from calque.models.model import Model, ModelConfig

AxisName = Literal["pairs", "length", "beam", "vocabulary"]
TaskName = Literal["prepare", "train", "decode"]
TASKS: dict[AxisName, tuple[TaskName, ...]] = {
    "pairs": ("prepare",),
    "length": ("train", "decode"),
    "beam": ("decode",),
    "vocabulary": ("train", "decode"),
}
SIZES: dict[AxisName, tuple[int, ...]] = {
    "pairs": (10_000, 100_000, 1_000_000),
    "length": (8, 16, 32, 64, 128, 256, 512, 1024),
    "beam": (1, 2, 4, 8, 16, 32, 64),
    "vocabulary": (1_000, 4_000, 16_000, 64_000, 128_000),
}
QUICK: dict[AxisName, tuple[int, ...]] = {
    "pairs": (10_000, 30_000, 100_000),
    "length": (8, 32, 128, 512),
    "beam": (1, 4, 16, 64),
    "vocabulary": (1_000, 8_000, 64_000),
}
LARGEST_PAIRS = 10_000_000
UNITS: dict[TaskName, str] = {"prepare": "pair", "train": "sentence", "decode": "sentence"}
TOKENS = 2000  # source positions of a point, end marks included: one batch of search on a CPU
REPETITIONS = 3  # of which the fastest counts


class Setting(NamedTuple):
    """The task and the sizes of one point: what is trained or decoded."""

    task: TaskName
    length: int = 32
    beam: int = 5
    vocabulary: int = 8000

    @property
    def sentences(self) -> int:
        """The number of sentences, such that a point has about TOKENS source positions."""
        return max(1, TOKENS // (self.length + 1))


class Point(NamedTuple):
    """One measured point: its CPU time and peak memory."""

    axis: AxisName
    task: TaskName
    size: int
    seconds: float  # of CPU time, per sentence or pair
    peak: int  # bytes
    operations: float | None = None  # multiply-adds of matrix products, per sentence; unknown for data preparation


class Growth(NamedTuple):
    """The exponents of one axis and task, fitted to all points and to the last two."""

    seconds: float
    last_seconds: float
    peak: float
    last_peak: float
    operations: float | None  # None if unknown
    last_operations: float | None

    def described(self) -> str:
        parts = [f"time n^{self.seconds:.2f} (n^{self.last_seconds:.2f} at the end)"]
        if self.operations is not None:
            parts.append(f"arithmetic n^{self.operations:.2f} (n^{self.last_operations:.2f} at the end)")
        parts.append(f"memory n^{self.peak:.2f} (n^{self.last_peak:.2f} at the end)")
        return ", ".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parse(words)
    if options.child:
        print(json.dumps(measure_here(Setting(**json.loads(options.child)))))
        return 0
    return run_command(partial(compare, options, words=words), json=options.json, note=options.note)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = command_parser("growth", description=__doc__)
    names = get_args(AxisName)
    parser.add_argument("--axes", nargs="+", choices=names, default=names, help="axes to measure (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller points; takes minutes")
    parser.add_argument("--large", action="store_true", help=f"also measure {LARGEST_PAIRS:,} pairs")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw time and memory (needs matplotlib)")
    parser.add_argument("--folder", type=Path, help="folder for generated text (default: a temporary folder)")
    add_report_options(parser)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def compare(options: argparse.Namespace, *, words: Sequence[str]) -> Report:
    """Measures every point and returns the report."""
    if options.figure is not None and not options.figure.absolute().parent.is_dir():
        raise BenchmarkError(f"--figure {options.figure}: no such folder")
    tree, machine = this_tree(), this_machine()
    points: list[Point] = []
    with tempfile.TemporaryDirectory(prefix="calque-growth-", dir=options.folder) as folder:
        for axis in options.axes:
            sizes = (QUICK if options.quick else SIZES)[axis]
            if axis == "pairs" and options.large:
                sizes = (*sizes, LARGEST_PAIRS)
            for task in TASKS[axis]:
                for size in sizes:
                    point = measure_point(axis, task, size, folder=Path(folder))
                    progress(f"{axis} {size:,}, {task}: {point.seconds:.3g} CPU-s, {shown_bytes(point.peak)}")
                    points.append(point)
    if options.figure is not None:
        draw(points, path=options.figure)
        progress(f"drew {options.figure}")
    growths = {key: growth_of(series) for key, series in grouped(points).items()}
    return Report(
        "growth",
        command_line("benchmarks.growth", words),
        machine,
        {
            "work": "pairs: generated text; other axes: the Transformer `small`, random weights, one thread; 32 "
            "pieces, beam 5 and 8,000 words except along the measured axis",
            "sources": described_trees([tree]),
        },
        ["axis, task", "size", "CPU-s per sentence or pair", "GFLOP", "peak RSS"],
        [
            [
                f"{point.axis}, {point.task}",
                f"{point.size:,}",
                f"{point.seconds:.3g}",
                "–" if point.operations is None else f"{2e-9 * point.operations:.3g}",
                shown_bytes(point.peak),
            ]
            for point in points
        ],
        [f"{axis}, {task}: {growth.described()}." for (axis, task), growth in growths.items()],
        {
            "points": [point._asdict() for point in points],
            "exponents": {f"{axis}, {task}": growth._asdict() for (axis, task), growth in growths.items()},
        },
    )


def measure_point(axis: AxisName, task: TaskName, size: int, *, folder: Path) -> Point:
    """Measures one point in a process of its own."""
    if task == "prepare":
        return measure_preparation(size, folder=folder)
    changed: dict[str, Any] = {axis: size}
    setting = Setting(task, **changed)
    command = [sys.executable, "-m", "benchmarks.growth", "--child", json.dumps(setting._asdict())]
    sources = os.pathsep.join(map(str, (REPOSITORY / "src", REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": sources, **dict.fromkeys(THREAD_VARIABLES, "1")}
    log = folder / "child.log"
    usage = run_measured(command, environment=environment, folder=folder, log=log)
    values = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    return Point(axis, task, size, values["seconds"], usage.peak, values["operations"])


def measure_preparation(pairs: int, *, folder: Path) -> Point:
    """Measures `calque data prepare` on generated text: its whole CPU time per pair, and its peak memory."""
    place = folder / str(pairs)
    place.mkdir()
    generate(place, lines=pairs)
    usage = this_tree().calque(
        *("data", "prepare", "--source", place / "source", "--target", place / "target", "--out", place / "store"),
        folder=place,
        threads=1,
    )
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    return Point("pairs", "prepare", pairs, usage.cpu / pairs, usage.peak)


def measure_here(setting: Setting) -> dict[str, Any]:
    """CPU seconds per sentence in this process, not counting model building and a first run, and peak memory."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    work = {"train": training_work, "decode": decoding_work}[setting.task](setting)
    work()
    times = []
    for _ in range(REPETITIONS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": min(times) / setting.sentences, "peak": peak, "operations": operations_of(setting)}


def operations_of(setting: Setting) -> float:
    """The multiply-adds of matrix products per sentence."""
    config, length, vocabulary = small_config().model_dump(), setting.length, setting.vocabulary
    if setting.task == "train":
        return training_operations(config, source=length, target=length, vocabulary=vocabulary).multiply_adds
    work = decoding_operations(config, source=length + 1, target=length, vocabulary=vocabulary, beam=setting.beam)
    return work.multiply_adds


def training_work(setting: Setting) -> Callable[[], object]:
    """A function that runs a forward and a backward pass over one batch."""
    import torch

    from calque.tensors import Padded

    model = random_model(setting.vocabulary)
    shape = (setting.sentences, setting.length)
    source = Padded(torch.randint(4, setting.vocabulary, shape), torch.full(shape[:1], setting.length))
    inputs, targets = (torch.randint(4, setting.vocabulary, shape) for _ in range(2))

    def work() -> None:
        output = model(source, inputs)
        losses = model.losses(output, source.values, targets, smoothing=0.1, ignored=0)
        torch.autograd.backward(losses.sum())
        model.zero_grad(set_to_none=True)

    return work


def decoding_work(setting: Setting) -> Callable[[], object]:
    """A function that runs beam search for the sentences of a point; translations are as long as their sources."""
    import random

    from calque.engine.translator import Translator
    from calque.layers.packed import pack
    from calque.search.settings import SearchConfig
    from calque.text import PIECES, Tokenizers, TokensTokenizer, Vocabulary

    words = [f"w{number}" for number in range(setting.vocabulary - len(PIECES))]
    tokenizer = TokensTokenizer(Vocabulary([*PIECES, *words]))
    length = setting.length
    search = SearchConfig(beam=setting.beam, minimum=length, maximum=length, source_limit=length)
    model = random_model(setting.vocabulary).eval()
    pack(model)  # as `calque.load` does
    translator = Translator(model, Tokenizers(tokenizer, tokenizer), config=small_config(), search=search)
    generator = random.Random(1)
    lines = [" ".join(generator.choices(words, k=length)) for _ in range(setting.sentences)]
    return lambda: translator.translate(lines)


def random_model(vocabulary: int) -> "Model":
    """The Transformer `small` with random weights."""
    from calque.models.model import Model, Sizes

    return Model(small_config(), sizes=Sizes(vocabulary, vocabulary, joint=True))


def small_config() -> "ModelConfig":
    """The config of the Transformer `small`."""
    from calque.models.model import ModelConfig
    from calque.models.systems import system_model

    config = system_model("small")
    assert isinstance(config, ModelConfig)
    return config


def grouped(points: Sequence[Point]) -> dict[tuple[AxisName, TaskName], list[Point]]:
    """The points of every axis and task, in the order of their sizes."""
    groups: dict[tuple[AxisName, TaskName], list[Point]] = {}
    for point in sorted(points, key=lambda point: point.size):
        groups.setdefault((point.axis, point.task), []).append(point)
    return groups


def growth_of(points: Sequence[Point]) -> Growth:
    """The exponents fitted to a series of points."""
    sizes = [point.size for point in points]
    seconds, peaks = [point.seconds for point in points], [float(point.peak) for point in points]
    operations = [point.operations for point in points if point.operations is not None]
    series = (seconds, peaks, operations) if operations else (seconds, peaks)
    found: list[float | None] = [exponent(sizes[start:], values[start:]) for values in series for start in (0, -2)]
    return Growth(*found, *[None] * (6 - len(found)))  # type: ignore[arg-type]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """b of the line log(value) = a + b log(size) with the least squared error; nan for fewer than two sizes."""
    if len(sizes) < 2:
        return math.nan
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


def draw(points: Sequence[Point], *, path: Path) -> None:
    """Draws time, beside the arithmetic (above), and memory (below) against size, with a column per axis."""
    try:
        import matplotlib
    except ImportError:
        raise BenchmarkError(f"--figure {path}: matplotlib is not installed; pip install 'calque[plots]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    groups = grouped(points)
    axes = list(dict.fromkeys(axis for axis, _ in groups))
    figure, panels = pyplot.subplots(2, len(axes), figsize=(4 * len(axes), 7), squeeze=False, layout="constrained")
    for column, axis in enumerate(axes):
        for (found, task), series in groups.items():
            if found != axis:
                continue
            growth, sizes = growth_of(series), [point.size for point in series]
            times, peaks = [point.seconds for point in series], [point.peak / 1e6 for point in series]
            (line,) = panels[0][column].loglog(sizes, times, "o-", label=f"{task}, n^{growth.seconds:.2f}")
            panels[1][column].semilogx(sizes, peaks, "o-", label=f"{task}, n^{growth.peak:.2f}")
            if growth.operations is not None:  # as fast as at the first point
                scaled = [times[0] * (point.operations or 0) / (series[0].operations or 1) for point in series]
                label = f"arithmetic, n^{growth.operations:.2f}"
                panels[0][column].loglog(sizes, scaled, "--", color=line.get_color(), alpha=0.5, label=label)
        panels[0][column].set_ylabel(f"CPU-s per {UNITS[TASKS[axis][0]]}")
        panels[1][column].set_ylabel("peak RSS, MB")
        panels[1][column].set_ylim(bottom=0)
        for row in (0, 1):
            panels[row][column].set_xlabel(axis)
            panels[row][column].legend()
            panels[row][column].grid(visible=True, which="both", alpha=0.2)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
