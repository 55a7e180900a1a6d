"""Measures the cost of waiting threads: training speed by OpenMP's spin count, on an idle and on a busy machine.

    python -m benchmarks.threads [--seconds 8]

Prints target tokens per second of the `tiny` system for 1 and 2 threads and several spin counts, on an idle machine and
with one other busy process; ratios are relative to one thread.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from itertools import count

WARM_UP = 3  # batches
TRIALS = [(1, 20_000), (2, 300_000), (2, 20_000), (2, 0)]  # threads, GOMP_SPINCOUNT (300,000 is the default)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=8.0)
    arguments.add_argument("--child", type=int)
    options = arguments.parse_args()
    if options.child:
        print(measure(options.child, seconds=options.seconds))
        return
    for beside in (False, True):
        other = multiprocessing.Process(target=spin, daemon=True)
        if beside:
            other.start()
        base = 0.0
        for threads, spins in TRIALS:
            speed = child(threads, spins, seconds=options.seconds)
            base = base or speed
            place = "with a busy process" if beside else "alone"
            print(
                f"{place:22} {threads} threads {spins:7,} spins {speed:8,.0f} tok/s  {speed / base:5.2f}x", flush=True
            )
        if beside:
            other.terminate()


def child(threads: int, spins: int, *, seconds: float) -> float:
    """The training speed in a new process, since the spin count is read when torch is loaded."""
    command = [sys.executable, "-m", "benchmarks.threads", "--child", str(threads), "--seconds", str(seconds)]
    environment = {**os.environ, "GOMP_SPINCOUNT": str(spins)}
    return float(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)


def measure(threads: int, *, seconds: float) -> float:
    """Target tokens per second of training steps."""
    import torch

    from calque.data.batching import BatchConfig, Bucketed
    from calque.data.pair_batch import collate_pairs, pair_widths
    from calque.data.store import store_of_pairs
    from calque.models.model import Model, ModelConfig, Sizes
    from calque.models.systems import system_model
    from calque.objectives.cross_entropy import loss_of
    from calque.text import CharactersConfig, train_tokenizers
    from calque.training.optimisers import OptimiserConfig, build_optimiser
    from calque_phrasebook import phrasebook

    torch.set_num_threads(threads)
    book = phrasebook(source="de", target="en", pairs=2000).train
    sources, targets = [pair.source for pair in book], [pair.target for pair in book]
    tokenizers = train_tokenizers(
        CharactersConfig(joint=True), source=lambda: iter(sources), target=lambda: iter(targets), pairs=len(book)
    )
    store = store_of_pairs(
        [(tokenizers.source.encode(pair.source), tokenizers.target.encode(pair.target)) for pair in book]
    )
    size = len(tokenizers.source.vocabulary)
    config = system_model("tiny")
    assert isinstance(config, ModelConfig)
    model = Model(config, sizes=Sizes(size, size, joint=True))
    optimiser = build_optimiser(OptimiserConfig(), model)
    tokens, started = 0.0, 0.0
    order = Bucketed(pair_widths(store), spans=store.spans, config=BatchConfig(), seed=0)
    plans = (planned for epoch in count() for planned in order.batches(epoch))
    for number, batch in enumerate(collate_pairs(store, planned=planned) for planned in plans):
        if number == WARM_UP:
            tokens, started = 0.0, time.monotonic()
        output = model(batch.source, batch.target_input)
        torch.autograd.backward(loss_of(model, output, batch, smoothing=0.1).objective / batch.weight)
        optimiser.step()
        optimiser.zero_grad()
        tokens += batch.weight
        if started and time.monotonic() - started > seconds:
            break
    return tokens / (time.monotonic() - started)


def spin() -> None:
    """Keeps a core busy for at most two minutes."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    main()
