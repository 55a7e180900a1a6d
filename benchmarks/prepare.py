"""CPU time of `calque data prepare` ÷ that of sentencepiece alone, trained on and applied to the same text.

python -m benchmarks.prepare --source train.de --target train.en [--against REVISION] [--rounds 5]

Start-up and child processes count. Contenders take turns; a ratio is taken within each round.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.corpora import read_lines, write_lines
from benchmarks.figures import ratios, spread
from benchmarks.options import positive, progress
from benchmarks.processes import Usage, run_measured
from benchmarks.report import shown_spread
from benchmarks.source_trees import REPOSITORY, SourceTree, described_trees, open_trees, this_tree

PLAIN = "sentencepiece alone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="source text, one sentence per line; plain or .gz")
    parser.add_argument("--target", type=Path, required=True, help="target text, line by line")
    parser.add_argument("--against", action="append", default=[], metavar="PATH_OR_REV", help="another tree of Calque")
    parser.add_argument("--rounds", type=positive, default=5, help="interleaved rounds (default: 5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="calque-benchmark-") as name:
        folder = Path(name)
        trees = open_trees(options.against, folder=folder)
        texts = [write_lines(folder / path.stem, read_lines(path)) for path in (options.source, options.target)]
        usages: dict[str, list[Usage]] = {name: [] for name in (PLAIN, *(tree.name for tree in trees))}
        for number in range(options.rounds + 1):  # the first one is not counted: it compiles bytecode
            for contender in usages if number % 2 else reversed(list(usages)):
                tree = next((tree for tree in trees if tree.name == contender), None)
                usage = _plain(texts, folder=folder) if tree is None else _prepared(tree, texts, folder=folder)
                progress(f"round {number}: {contender}: {usage.cpu:.2f} CPU-s, {usage.wall:.2f} s")
                if number:
                    usages[contender].append(usage)
    plain = [usage.cpu for usage in usages[PLAIN]]
    print(described_trees(trees))
    for contender, rounds in usages.items():
        cpu = [usage.cpu for usage in rounds]
        print(
            f"{contender:22} {shown_spread(spread(cpu), digits=2)} CPU-s, "
            f"{shown_spread(spread(ratios(cpu, plain)), digits=2)} × {PLAIN}, "
            f"{shown_spread(spread([usage.wall for usage in rounds]), digits=2)} s, "
            f"{max(usage.peak for usage in rounds) / 1e6:.0f} MB"
        )


def _plain(texts: list[Path], *, folder: Path) -> Usage:
    environment = {**this_tree().environment(threads=1), "PYTHONPATH": str(REPOSITORY)}
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.plain_sentencepiece", *texts]
    return run_measured(command, environment=environment, folder=folder)


def _prepared(tree: SourceTree, texts: list[Path], *, folder: Path) -> Usage:
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    source, target = texts
    return tree.calque(
        "data", "prepare", "--source", source, "--target", target, "--out", store, folder=folder, threads=1
    )


if __name__ == "__main__":
    main()
