"""Measures training speed in every precision, plain and compiled: runs `calque train` on random words, in turn.

    python -m benchmarks.precision --device cuda
    python -m benchmarks.precision --device cpu --system tiny --tokens 1024 --steps 20

All lines have the same length, so that there is one shape to compile. Target tokens per second are those of the second
half of the steps; ratios are relative to the first mode. The extra time of the first steps is that of compilation.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from calque.training.journal import read_journal

WORDS, LENGTH, LINES = 8000, 31, 20_000  # with the end of a sentence a line has 32 positions
FEW = 4  # lines to validate on
COMPILED = ("training.compile=true", "training.batch.shapes=static")
MODES: dict[str, tuple[str, ...]] = {
    "float32": (),
    "tf32": ("training.precision=tf32",),
    "bfloat16": ("training.precision=bfloat16",),
    "float16": ("training.precision=float16",),
    "float32, compiled": COMPILED,
    "tf32, compiled": ("training.precision=tf32", *COMPILED),
    "bfloat16, compiled": ("training.precision=bfloat16", *COMPILED),
}


def write_lines(path: Path, *, lines: int, seed: int) -> Path:
    """Writes lines of uniformly drawn words."""
    drawn = random.Random(seed)
    path.write_text(
        "".join(" ".join(f"w{drawn.randrange(WORDS)}" for _ in range(LENGTH)) + "\n" for _ in range(lines)),
        encoding="utf-8",
    )
    return path


def measure(run: Path, options: argparse.Namespace, *settings: str) -> tuple[float, float]:
    """Target tokens per second, and how many seconds longer the first steps took than as many later ones."""
    every = options.steps // 10
    files = {
        option: write_lines(run.with_name(option), lines=lines, seed=seed)
        for seed, (option, lines) in enumerate(
            {"source": LINES, "target": LINES, "valid-source": FEW, "valid-target": FEW}.items()
        )
    }
    command = [
        *(sys.executable, "-m", "calque", "train", "--run", str(run), "--system", options.system),
        *(word for option, path in files.items() for word in (f"--{option}", str(path))),
        *("text.kind=words", "text.joint=true", f"data.store={run.with_name('store')}"),
        *(f"training.{key}={options.steps}" for key in ("steps", "validate_every", "checkpoint_every")),
        *(
            f"training.log_every={every}",
            f"training.batch.tokens={options.tokens}",
            f"training.device={options.device}",
        ),
        *settings,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    lines = read_journal(run / "timing.jsonl")
    later = lines[len(lines) // 2 :]
    return (
        statistics.median(line["tokens_per_second"] for line in later),
        lines[0]["seconds"] - statistics.median(line["seconds"] for line in later),
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", choices=("cpu", "cuda", "mps"), required=True)
    arguments.add_argument("--system", default="vaswani2017-base")
    arguments.add_argument("--tokens", type=int, default=16_384, help="positions per batch")
    arguments.add_argument("--steps", type=int, default=100, help="training steps per mode; 20 or more")
    arguments.add_argument(
        "--modes", nargs="+", choices=MODES, default=list(MODES), metavar="MODE", help=", ".join(MODES)
    )
    options = arguments.parse_args()
    if options.steps < 20:
        arguments.error("--steps must be 20 or more")
    base = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number, mode in enumerate(options.modes):
            speed, first = measure(Path(folder) / str(number), options, *MODES[mode])
            base = base or speed
            print(f"{mode:20} {speed:11,.0f} tok/s {speed / base:6.2f}x  first steps +{first:.1f} s", flush=True)


if __name__ == "__main__":
    main()
