"""Measures the CPU time and memory of word alignment on generated pairs, by phase and per pair.

    python -m benchmarks.align
    python -m benchmarks.align --pairs 50000 100000 --words 20 --extrapolate 1000000

Words follow Zipf's law. A target has the translations of its source's words, moved by up to one position; a fifth of
them are replaced by random words. Only one direction is aligned. Set OMP_NUM_THREADS=1: waiting threads use CPU time.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from calque.data.store import Array, Column
from calque.statistics.cooccurrence import cooccurrences
from calque.statistics.hmm import train_hmm
from calque.statistics.ibm1 import train_ibm1

PHASES = ("co-occurrences", "IBM 1", "HMM", "Viterbi")
ITERATIONS = 5
NOISE = 0.2


def corpus(pairs: int, *, words: int, vocabulary: int, seed: int = 0) -> tuple[Column, Column]:
    """Generates pairs with about `words` words on each side."""
    random = np.random.default_rng(seed)
    frequencies = np.cumsum(1 / np.arange(1, vocabulary + 1))

    def draw(count: int) -> Array:
        drawn: Array = np.searchsorted(frequencies, random.random(count) * frequencies[-1])
        return drawn

    source_lengths = np.maximum(1, random.poisson(words, pairs))
    target_lengths = np.maximum(1, source_lengths + random.integers(-2, 3, pairs))
    source = draw(int(source_lengths.sum()))
    rows = np.repeat(np.arange(pairs), target_lengths)
    source_starts, target_starts = (np.cumsum(lengths) - lengths for lengths in (source_lengths, target_lengths))
    positions = np.arange(len(rows)) - target_starts[rows] + random.integers(-1, 2, len(rows))
    translations = random.permutation(vocabulary)
    target = translations[source[source_starts[rows] + np.clip(positions, 0, source_lengths[rows] - 1)]]
    target = np.where(random.random(len(target)) < NOISE, draw(len(target)), target)
    return (
        Column(source.astype(np.uint32), source_starts.astype(np.uint64), source_lengths.astype(np.uint32)),
        Column(target.astype(np.uint32), target_starts.astype(np.uint64), target_lengths.astype(np.uint32)),
    )


def measure(source: Column, target: Column) -> dict[str, float]:
    """Aligns a corpus; returns the CPU-seconds of each phase."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(phase: str) -> Iterator[None]:
        before = time.process_time()
        yield
        seconds[phase] = time.process_time() - before

    with timed("co-occurrences"):
        cells = cooccurrences(source, target)
    with timed("IBM 1"):
        start = train_ibm1(cells, iterations=ITERATIONS)
    with timed("HMM"):
        model = train_hmm(cells, start, iterations=ITERATIONS)
    with timed("Viterbi"):
        for block in cells.blocks:
            values = block.gather(model.lexical)
            for chunk in block.chunks:
                model.align(chunk.cells(values))
    print(f"{len(source.lengths):,} pairs, {len(cells.targets):,} pairs of words that occur together")
    return seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, nargs="+", default=[50_000, 100_000])
    arguments.add_argument("--words", type=int, default=20)
    arguments.add_argument("--vocabulary", type=int, default=50_000)
    arguments.add_argument("--extrapolate", type=int, default=1_000_000)
    options = arguments.parse_args()
    totals = {}
    for pairs in options.pairs:
        seconds = measure(*corpus(pairs, words=options.words, vocabulary=options.vocabulary))
        totals[pairs] = sum(seconds.values())
        for phase in PHASES:
            rounds = ITERATIONS if phase in ("IBM 1", "HMM") else 1
            print(f"  {phase:16} {seconds[phase]:8.2f} CPU-s {1e6 * seconds[phase] / pairs / rounds:8.1f} µs", end="")
            print(" per pair and iteration" if rounds > 1 else " per pair")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        each = 1e6 * totals[pairs] / pairs
        print(f"  {'all':16} {totals[pairs]:8.2f} CPU-s {each:8.1f} µs per pair; peak {peak:.2f} GB")
    fewest, most = min(totals), max(totals)
    if fewest < most:
        slope = (totals[most] - totals[fewest]) / (most - fewest)
        expected = totals[most] + slope * (options.extrapolate - most)
        print(f"{options.extrapolate:,} pairs, extrapolated from these two sizes: {expected:.0f} CPU-s")


if __name__ == "__main__":
    main()
