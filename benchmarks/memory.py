"""Measures the anonymous memory of preparing, reading and training on a corpus, which must not grow with the corpus.

python -m benchmarks.memory                      # 50,000 and 5,000,000 generated lines
python -m benchmarks.memory 50000 500000 --folder DIR
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

SIZES = (50_000, 5_000_000)
BOUND = 50 << 20  # bytes that the largest may take more than the smallest
EVERY = 0.02  # seconds
STEPS = 60  # of training


class Measurement(NamedTuple):
    """The peak memory and the time of each phase, for one corpus."""

    lines: int
    peaks: dict[str, int]  # bytes of RssAnon, by phase
    seconds: dict[str, float]


def main() -> int:
    """Runs the benchmark; the exit code is 0 if memory grows by no more than the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--folder", type=Path, help="folder for corpora and stores (default: a temporary folder)")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _work(arguments.folder, workers=arguments.workers)
        return 0
    with tempfile.TemporaryDirectory(prefix="calque-memory-", dir=arguments.folder) as folder:
        measurements = [
            _measure(size, folder=Path(folder) / str(size), workers=arguments.workers) for size in arguments.sizes
        ]
    for measured in measurements:
        for phase, peak in measured.peaks.items():
            seconds = measured.seconds.get(phase, 0.0)
            rate = f"{measured.lines / seconds:12,.0f} pairs/s" if seconds else ""
            print(f"{measured.lines:>10,} lines  {phase:<24} {peak / 2**20:8.1f} MB {seconds:8.1f} s {rate}")
    first, last = (
        (_highest(measured, training=False), _highest(measured, training=True))
        for measured in (measurements[0], measurements[-1])
    )
    growth = [after - before for before, after in zip(first, last, strict=True)]
    for what, size in zip(("before training", "in training"), growth, strict=True):
        print(f"growth of peak memory {what}: {size / 2**20:+.1f} MB (bound {BOUND / 2**20:.0f} MB)")
    return int(max(growth) > BOUND)


def _highest(measured: Measurement, *, training: bool) -> int:
    return max(peak for phase, peak in measured.peaks.items() if (phase in ("training", "end")) == training)


def generate(folder: Path, *, lines: int) -> None:
    """Writes `source` and `target` with this many lines of invented words; always the same lines."""
    generator = np.random.default_rng(7)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = ["".join(generator.choice(letters[:20], size)) for size in generator.integers(2, 9, 8000)]
    frequencies = 1 / np.arange(2, len(words) + 2)
    shares = np.cumsum(frequencies) / frequencies.sum()
    with (folder / "source").open("w") as source, (folder / "target").open("w") as target:
        for start in range(0, lines, 10_000):
            sizes = generator.integers(3, 22, min(10_000, lines - start))
            drawn = np.searchsorted(shares, generator.random(int(sizes.sum()))).tolist()
            ends = np.cumsum(sizes).tolist()
            for size, end in zip(sizes.tolist(), ends, strict=True):
                row = [words[place] for place in drawn[end - size : end]]
                source.write(" ".join(row) + "\n")
                target.write(" ".join(reversed(row)) + " .\n")


def _measure(lines: int, *, folder: Path, workers: int | None) -> Measurement:
    folder.mkdir(parents=True)
    generate(folder, lines=lines)
    command = [sys.executable, "-m", "benchmarks.memory", "--child", "--folder", str(folder)]
    command += ["--workers", str(workers)] if workers else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        peaks: dict[str, int] = {}
        while child.poll() is None:
            phase = _phase(folder)
            peaks[phase] = max(peaks.get(phase, 0), sum(map(anonymous_bytes, process_tree(child.pid))))
            time.sleep(EVERY)
        seconds = json.loads(child.stdout.read() or "{}")
    if child.returncode:
        raise SystemExit(f"the measured process failed with exit code {child.returncode}")
    return Measurement(lines, peaks, seconds)


def _work(folder: Path, *, workers: int | None) -> None:
    """The measured work: prepares data, reads an epoch with exact and one with static shapes, then trains."""
    from calque.data.batching import BatchConfig, Bucketed
    from calque.data.corpora import DataConfig, FilesConfig
    from calque.data.pair_batch import collate_pairs, pair_widths
    from calque.data.pair_preparation import PairPreparation
    from calque.data.prepare import prepare
    from calque.text import SentencePieceConfig

    seconds: dict[str, float] = {}
    started = time.perf_counter()
    phase = "start"

    def enter(name: str) -> None:
        nonlocal phase, started
        if name != phase:
            seconds[phase] = time.perf_counter() - started
            phase, started = name, time.perf_counter()
            (folder / "phase.new").write_text(name)
            (folder / "phase.new").rename(folder / "phase")

    files = FilesConfig(source=folder / "source", target=folder / "target")
    data = DataConfig(train=(files,), store=folder / "store")
    prepared = prepare(
        data,
        preparation=PairPreparation(SentencePieceConfig(), data.maximum_length, data.aligned),
        folder=folder / "store",
        workers=workers,
        progress=lambda *news: enter(news[0]),
    )
    for config in (BatchConfig(), BatchConfig(shapes="static")):
        enter(f"epoch, {config.shapes} shapes")
        order = Bucketed(pair_widths(prepared.train), spans=prepared.train.spans, config=config, seed=1)
        for planned in order.batches(0):
            collate_pairs(prepared.train, planned=planned)
        enter(f"skipping an epoch, {config.shapes} shapes")
        assert next(order.batches(0, start=10**9), None) is None
    enter("training")
    from calque.experiment import Experiment, train
    from calque.models.systems import SYSTEMS
    from calque.training.settings import TrainingConfig

    often = TrainingConfig(steps=STEPS, log_every=10, validate_every=STEPS // 2, checkpoint_every=STEPS // 3)
    experiment = Experiment(data=data, text=SentencePieceConfig(), model=SYSTEMS["tiny"].model, training=often)
    train(experiment, run=folder / "run", quiet=True)
    enter("end")
    print(json.dumps(seconds))


def _phase(folder: Path) -> str:
    try:
        return (folder / "phase").read_text()
    except FileNotFoundError:
        return "start"


def process_tree(process: int) -> Iterator[int]:
    """A process and its descendants, except forks that have not executed a program: they share the parent's pages."""
    yield process
    own = _command(process)
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            below = [int(child) for child in children.read_text().split()]
        except OSError:
            continue
        for child in below:
            if _command(child) != own:
                yield from process_tree(child)


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def anonymous_bytes(process: int) -> int:
    """Bytes of anonymous memory of a process; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(sizes[0]) * 1024 if sizes else 0


if __name__ == "__main__":
    sys.exit(main())
