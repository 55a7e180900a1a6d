"""Measures how fast this machine trains with different numbers of CPU threads, for `calque doctor --tune`.

A run never chooses its number of threads by timing, since its exact results depend on that number (decision 8).
"""

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from calque.data.pair_batch import PairBatch
from calque.memory import keep_memory
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from calque.objectives.cross_entropy import loss_of
from calque.tensors import Padded
from calque.text import BOS

SECONDS = 3.0  # of training per number of threads
ROUNDS = 3  # numbers of threads take turns, so that a busy moment of the machine does not hit only one of them
NEAR = 0.95  # share of the best speed for which fewer threads are preferred


class Sample(NamedTuple):
    """The size of the model and the batch that are trained."""

    vocabulary: int = 8000
    width: int = 256
    layers: int = 3
    rows: int = 64
    length: int = 32


SMALL = Sample()


def usable_cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_counts(cores: int) -> list[int]:
    """The numbers of threads to try: all up to 4, then 6, 8, 12, 16, 24, … and all cores."""
    steps = sorted({1, 2, 3, 4} | {factor << power for factor in (3, 4) for power in range(1, 10)})
    return [*(count for count in steps if count < cores), cores]


def measure_threads(counts: Sequence[int], *, seconds: float = SECONDS, sample: Sample = SMALL) -> dict[int, float]:
    """For each number of threads, the target tokens per second of wall time: the median of interleaved rounds."""
    keep_memory()
    before = torch.get_num_threads()
    speeds: dict[int, list[float]] = {count: [] for count in counts}
    with torch.random.fork_rng(devices=[]):
        steps = _training_steps(sample)
        try:
            for _ in range(ROUNDS):
                for count in counts:
                    torch.set_num_threads(count)
                    next(steps)  # threads are started in an unmeasured step
                    speeds[count].append(_speed(steps, seconds=seconds / ROUNDS))
        finally:
            torch.set_num_threads(before)
    return {count: statistics.median(values) for count, values in speeds.items()}


def best_count(speeds: Mapping[int, float]) -> int:
    """The smallest number of threads whose speed is near the best."""
    best = max(speeds.values())
    return min(count for count, speed in speeds.items() if speed >= NEAR * best)


def _speed(steps: Iterator[int], *, seconds: float) -> float:
    started, tokens = time.monotonic(), 0
    while True:
        tokens += next(steps)
        if (elapsed := time.monotonic() - started) >= seconds:
            return tokens / elapsed


def _training_steps(sample: Sample) -> Iterator[int]:
    """Trains a small Transformer on random tokens; after each step, yields the number of its target tokens."""
    torch.manual_seed(0)
    side: dict[str, Any] = {
        "layers": sample.layers,
        "width": sample.width,
        "feed_forward": 4 * sample.width,
        "heads": 4,
    }
    config = ModelConfig(tie="all", encoder=TransformerEncoderConfig(**side), decoder=TransformerDecoderConfig(**side))
    model = Model(config, sizes=Sizes(sample.vocabulary, sample.vocabulary, joint=True)).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(BOS + 1, sample.vocabulary, (sample.rows, sample.length))
    lengths = torch.full((sample.rows,), sample.length)
    batch = PairBatch(Padded(tokens, lengths), tokens, tokens, lengths, tokens.numel(), tokens.numel())
    while True:
        loss = loss_of(model, model(batch.source, batch.target_input), batch, smoothing=0.1)
        torch.autograd.backward(loss.objective / batch.weight)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        yield batch.weight
