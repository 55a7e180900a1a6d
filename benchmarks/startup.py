"""Measures the start-up time of commands relative to an empty Python program or to `import torch`.

python -m benchmarks.startup [--rounds 9] [--against REVISION] [--model RUN]

`calque translate` of one sentence is measured in CPU-seconds beyond `import torch`, with a model of a few steps unless
--model names one. Other start-ups are measured in seconds of wall time beyond `python -c pass`. The figures are medians
of interleaved rounds.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.options import positive, progress
from benchmarks.processes import Usage, run_measured
from benchmarks.source_trees import HERE, SourceTree, described_trees, open_trees

EMPTY, TORCH, TRANSLATE = "python -c pass", "import torch", "calque translate"
STARTS = {
    EMPTY: ["-c", "pass"],
    "import calque": ["-c", "import calque"],
    "calque --help": ["-m", "calque", "--help"],
    TORCH: ["-c", "import torch"],
    "import calque.engine": ["-c", "import calque.engine"],
}
WITHOUT_CALQUE = (EMPTY, TORCH)


class Start(NamedTuple):
    """One program to start: its name in the table, the sources it is started with, and its arguments to Python."""

    name: str
    tree: SourceTree
    arguments: list[str]

    @property
    def label(self) -> str:
        return self.name if self.tree.name == HERE else f"{self.name}, {self.tree.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=9)
    parser.add_argument("--against", action="append", default=[], metavar="PATH_OR_REV", help="other version of Calque")
    parser.add_argument("--model", type=Path, help="the run or model to translate with (default: one is trained)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="calque-benchmark-") as name:
        folder = Path(name)
        trees = open_trees(options.against, folder=folder)
        model = options.model.resolve() if options.model else _trained(trees[-1], folder=folder)
        starts = list(_starts(trees, model=model, folder=folder))
        usages: dict[str, list[Usage]] = {start.label: [] for start in starts}
        for number in range(options.rounds + 1):  # the first one is not counted: it compiles bytecode
            for start in starts if number % 2 else reversed(starts):
                command = [sys.executable, *start.arguments]
                usage = run_measured(command, environment=start.tree.environment(threads=1), folder=folder)
                usages[start.label] += [usage] if number else []
            progress(f"round {number} of {options.rounds}")
    print(described_trees(trees))
    empty = statistics.median(usage.wall for usage in usages[EMPTY])
    torch = [usage.cpu for usage in usages[TORCH]]
    for start in starts:
        wall = statistics.median(usage.wall for usage in usages[start.label])
        line = f"{start.label:32} {wall:6.3f} s   {wall - empty:+.3f} s"
        if start.name == TRANSLATE:
            pairs = zip(usages[start.label], torch, strict=True)
            line += f"   {statistics.median(usage.cpu - base for usage, base in pairs):+.3f} CPU-s beyond {TORCH}"
        print(line)


def _starts(trees: list[SourceTree], *, model: Path, folder: Path) -> Iterator[Start]:
    sentence = folder / "sentence.txt"
    sentence.write_text("今天天气很好。\n", encoding="utf-8")
    translate = ["-m", "calque", "translate", str(model), "--input", str(sentence)]
    for tree in trees:
        for name, arguments in {**STARTS, TRANSLATE: translate}.items():
            if tree.name == HERE or name not in WITHOUT_CALQUE:
                yield Start(name, tree, arguments)


def _trained(tree: SourceTree, *, folder: Path) -> Path:
    """A model trained for a few steps, by the last tree: newer versions can read what older ones wrote."""
    progress("training a model")
    book, run = folder / "book", folder / "run"
    tree.calque("data", "phrasebook", "--pairs", "400", "--out", book, folder=folder, threads=1)
    files = ("--source", book / "train.zh", "--target", book / "train.en")
    tree.calque("train", *files, "--run", run, "training.steps=30", folder=folder, threads=1)
    return run


if __name__ == "__main__":
    main()
