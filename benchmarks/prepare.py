"""Measures the cost of preparing a corpus: CPU time of `calque data prepare` ÷ that of sentencepiece alone.

    python -m benchmarks.prepare                              # 200,000 pairs of the phrasebook
    python -m benchmarks.prepare --corpus DIR --rounds 5 --note
    python -m benchmarks.prepare --against main --corpus DIR

Run from the root of the repository. `calque data prepare` reads and checks the files, learns a joint vocabulary,
encodes both sides and writes a store; benchmarks/sentencepiece_alone.py learns and encodes with the same settings and
writes the ids. Every run is a process of its own, start-up included; contenders take turns. The CPU time of all
processes counts, so the figure does not depend on their number. Ratios are ours ÷ theirs: 1 would mean that reading,
checking and storing cost nothing.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.corpora import Corpus, read_lines
from benchmarks.figures import interleaved, spread, spread_of_ratios
from benchmarks.machine import this_machine
from benchmarks.options import (
    add_common_options,
    chosen_corpus,
    command_parser,
    positive,
    progress,
    run_command,
)
from benchmarks.processes import Usage, run_measured
from benchmarks.report import Report, command_line, remarks_on_table, shown_bytes, shown_spread
from benchmarks.source_trees import HERE, REPOSITORY, THREAD_VARIABLES, SourceTree, described_trees, open_trees

ALONE = "sentencepiece"


class Preparer(Protocol):
    """A contender that prepares a corpus."""

    @property
    def name(self) -> str: ...

    def prepare(self, corpus: Corpus, *, vocabulary: int, folder: Path) -> Usage:
        """Prepares a corpus in a new folder."""


class CalquePreparer(NamedTuple):
    """`calque data prepare` of one source tree."""

    tree: SourceTree
    threads: int

    @property
    def name(self) -> str:
        return self.tree.name

    def prepare(self, corpus: Corpus, *, vocabulary: int, folder: Path) -> Usage:
        return self.tree.calque(
            *("data", "prepare", "--source", corpus.source, "--target", corpus.target, "--out", folder / "store"),
            f"text.vocabulary_size={vocabulary}",
            folder=folder,
            threads=self.threads,
        )


class SentencePieceAlone(NamedTuple):
    """The sentencepiece library by itself."""

    name: str = ALONE

    def prepare(self, corpus: Corpus, *, vocabulary: int, folder: Path) -> Usage:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **dict.fromkeys(THREAD_VARIABLES, "1")}
        return run_measured(
            [
                *(sys.executable, "-m", "benchmarks.sentencepiece_alone", "--source", corpus.source),
                *("--target", corpus.target, "--output", folder / "ids", "--vocabulary", str(vocabulary)),
            ],
            environment=environment,
            folder=folder,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parse(words)
    return run_command(partial(compare, options, words=words), json=options.json, note=options.note)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = command_parser("prepare", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--pairs", type=positive, default=200_000, help="pairs of the phrasebook (default: 200000)")
    return parser.parse_args(words)


def compare(options: argparse.Namespace, *, words: Sequence[str]) -> Report:
    """Prepares the corpus with every contender in turn and returns the report."""
    with tempfile.TemporaryDirectory(prefix="calque-prepare-") as name:
        folder = Path(name)
        trees = open_trees(options.against, folder=folder)
        if options.corpus is None:
            progress(f"writing {options.pairs:,} pairs of the phrasebook")
        corpus = chosen_corpus(options, tree=trees[0], folder=folder, pairs=options.pairs)
        pairs = len(read_lines(corpus.source))
        machine = this_machine()
        preparers: list[Preparer] = [*(CalquePreparer(tree, options.threads) for tree in trees), SentencePieceAlone()]
        measured = measure(preparers, corpus, vocabulary=options.vocabulary, rounds=options.rounds, folder=folder)
    costs = {name: [usage.cpu for usage in usages] for name, usages in measured.items()}
    return Report(
        "prepare",
        command_line("benchmarks.prepare", words),
        machine,
        {
            "work": f"{corpus.name}: {pairs:,} pairs, {options.vocabulary:,} pieces, {options.rounds} rounds",
            "sources": described_trees(trees),
        },
        ["contender", "CPU-s", f"{HERE} ÷ it", "pairs / CPU-s", "s", "peak RSS"],
        table(measured, costs=costs, pairs=pairs),
        [
            f"Ratios of CPU time: below 1, {HERE} is faster. Start-up is included.",
            *remarks_on_table(base=HERE, usages=measured[ALONE], threads=1)[1:],
        ],
        {
            "usages": {name: [usage._asdict() for usage in usages] for name, usages in measured.items()},
            "ratios": {name: ratio._asdict() for name, ratio in spread_of_ratios(costs, of=HERE).items()},
        },
    )


def measure(
    preparers: Sequence[Preparer], corpus: Corpus, *, vocabulary: int, rounds: int, folder: Path
) -> dict[str, list[Usage]]:
    """The cost of every round, by contender; an unmeasured run of each comes first."""
    measured: dict[str, list[Usage]] = {preparer.name: [] for preparer in preparers}
    order = [*((0, preparer) for preparer in preparers), *interleaved(preparers, rounds=rounds)]
    for number, preparer in order:
        place = folder / "round"
        place.mkdir()
        usage = preparer.prepare(corpus, vocabulary=vocabulary, folder=place)
        shutil.rmtree(place)
        progress(f"round {number} of {rounds}, {preparer.name}: {usage.cpu:.1f} CPU-s, {usage.wall:.1f} s")
        if number:
            measured[preparer.name].append(usage)
    return measured


def table(
    measured: Mapping[str, Sequence[Usage]], *, costs: Mapping[str, Sequence[float]], pairs: int
) -> list[list[str]]:
    """The rows of the table, one per contender."""
    ratios = spread_of_ratios(costs, of=HERE)
    return [
        [
            name,
            shown_spread(spread(costs[name]), digits=1),
            shown_spread(ratios[name], digits=2) if name in ratios else "1",
            f"{pairs / spread(costs[name]).median:,.0f}",
            shown_spread(spread([usage.wall for usage in usages]), digits=1),
            shown_bytes(max(usage.peak for usage in usages)),
        ]
        for name, usages in measured.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
