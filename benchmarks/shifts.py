"""Measures how often shifted lines are detected in real corpora, and how often there are false alarms.

    python -m benchmarks.shifts multi30k=train.en.gz,train.de.gz words=words.tsv.gz [--rounds 30]

Each corpus is NAME=SOURCE,TARGET or NAME=TSV, plain or gzip.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import FilesConfig, read_blocks
from calque.data.misalignment import Shift, by_line, find_shifts
from calque.data.rows import parse
from calque.data.tables import TsvConfig

Array = NDArray[Any]

LIMIT = 1 << 16  # bytes of a line
SIZES = (300, 1_000, 10_000)
STRETCHES = {1_000: (100, 200, 300, 500), 10_000: (100, 200, 300, 500, 3_000)}


def main() -> None:
    """Prints the tables of false alarms and of detected shifts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generator = np.random.default_rng(arguments.seed)
    corpora = {name: _lengths(files) for name, _, files in (corpus.partition("=") for corpus in arguments.corpora)}
    tried: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    for lengths in corpora.values():
        for kind, unshifted in _unshifted(lengths, rounds=arguments.rounds, generator=generator):
            tried[kind] += 1
            alarms[kind] += bool(find_shifts(unshifted))
    print("| not shifted | tried | alarms |\n|---|---:|---:|")
    for kind, count in tried.items():
        print(f"| {kind} | {count:,} | {alarms[kind]:,} |")
    print("\n| corpus | lines | shifted | found | wrong | first line off by | last line off by |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, lengths in corpora.items():
        for size, stretches in STRETCHES.items():
            for stretch in stretches if size <= len(lengths) else ():
                _print_detected(name, lengths, size, stretch, rounds=arguments.rounds, generator=generator)


def shifted(lengths: Array, *, by: int, start: int, stop: int, generator: np.random.Generator) -> Array:
    """The lengths with the targets of lines `start` to `stop` shifted by `by` lines; random ones fill the gap."""
    target, count = lengths[:, 1], abs(by)
    extra = generator.choice(target, count)
    middle = [extra, target[start : stop - count]] if by > 0 else [target[start + count : stop], extra]
    return np.stack([lengths[:, 0], np.concatenate([target[:start], *middle, target[stop:]])], axis=1)


def _print_detected(
    name: str, lengths: Array, size: int, stretch: int, *, rounds: int, generator: np.random.Generator
) -> None:
    right: list[tuple[int, int]] = []
    wrong = 0
    for turn in range(3 * rounds):
        by = int(generator.choice([-1, 1])) * (turn % 3 + 1)
        first = int(generator.integers(len(lengths) - size + 1))
        start = int(generator.integers(size - stretch + 1))
        part = lengths[first : first + size]
        shifts = find_shifts(shifted(part, by=by, start=start, stop=start + stretch, generator=generator))
        fitting = [shift for shift in shifts if _fits(shift, by=by, start=start, stop=start + stretch)]
        wrong += len(shifts) - len(fitting)
        right += [(abs(shift.first - 1 - start), abs(shift.last - start - stretch)) for shift in fitting[:1]]
    ends = (
        "{:.0f}, 90 %: {:.0f}".format(*np.percentile([errors[end] for errors in right], [50, 90])) for end in (0, 1)
    )
    off = " | ".join(ends) if right else " | "
    print(f"| {name} | {size:,} | {stretch:,} | {len(right) / (3 * rounds):.0%} | {wrong} | {off} |", flush=True)


def _fits(shift: Shift, *, by: int, start: int, stop: int) -> bool:
    return shift.by == by and min(shift.last, stop) - max(shift.first - 1, start) > (stop - start) / 2


def _unshifted(lengths: Array, *, rounds: int, generator: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yields the kind and the lengths of corpora without shifted lines: aligned, or with no alignment at all."""
    yield "whole corpora", lengths
    for side in (0, 1):
        yield "whole corpora, sorted by a side's length", lengths[np.argsort(lengths[:, side], kind="stable")]
    yield "each side sorted by itself", np.sort(lengths, axis=0)
    for size in (size for size in SIZES if size < len(lengths)):
        for turn in range(rounds):
            start = int(generator.integers(len(lengths) - size + 1))
            excerpt = lengths[start : start + size]
            subset = lengths[np.sort(generator.choice(len(lengths), size, replace=False))]
            mixed = generator.permutation(subset)
            third = slice(size // 3, 2 * size // 3)
            unrelated, filtered = subset.copy(), excerpt.copy()
            unrelated[third, 1] = generator.permutation(unrelated[third, 1])
            filtered[generator.random(size) < 0.3] = 0
            rolling = np.stack([subset[:-1, 0], subset[1:, 0]], axis=1)
            half = subset[: size // 2]
            yield f"excerpts of {size:,} lines", excerpt
            yield f"random subsets of {size:,} lines", subset
            yield f"shuffled, {size:,} lines", mixed
            yield f"sorted by a side's length, {size:,} lines", subset[np.argsort(subset[:, turn % 2], kind="stable")]
            yield "one side shuffled", np.stack([subset[:, 0], generator.permutation(subset[:, 1])], axis=1)
            yield "a third of one side shuffled", unrelated
            yield "30 % of the pairs empty", filtered
            yield "every pair four times", np.repeat(subset[: size // 4], 4, axis=0)
            yield "sources with three targets", np.stack([np.repeat(mixed[::3, 0], 3)[:size], mixed[:, 1]], axis=1)
            yield "both directions in turn", np.stack([half, half[:, ::-1]], axis=1).reshape(-1, 2)
            yield "each line answers the one before", rolling
            yield (
                "each line answers the one before, in half of the corpus",
                np.concatenate([excerpt[: size // 2], rolling[: size // 2]]),
            )
            yield (
                "each line answers the two before",
                np.stack([subset[:-2, 0] + subset[1:-1, 0], subset[2:, 0]], axis=1),
            )


def _lengths(files: str) -> Array:
    names = [Path(name) for name in files.split(",")]
    corpus = FilesConfig(source=names[0], target=names[1]) if len(names) == 2 else TsvConfig(path=names[0])
    blocks = []
    for block in read_blocks(corpus, limit=LIMIT):
        parsed = parse(block, corpus=corpus, invalid="skip", limit=LIMIT)
        source, target = (np.array([len(row.texts[side]) for row in parsed.rows]) for side in (0, 1))
        lines = np.array([row.line for row in parsed.rows])
        blocks.append(by_line(source, target=target, lines=lines, first=block.first, count=parsed.tally.lines))
    return np.concatenate(blocks)


if __name__ == "__main__":
    main()
