"""Compares R-Drop's loss computed from logits and from log-probabilities: time, and memory on a GPU.

    python -m benchmarks.agreement
    python -m benchmarks.agreement --device cuda --positions 8192

The forward and backward passes of both take turns; the figures are medians over all rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from calque.layers.copying import mixture_loss
from calque.objectives.r_drop import agreement, divergence

ALPHA, SMOOTHING = 5.0, 0.1


def from_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """R-Drop's loss from logits, as in training."""
    loss = agreement(logits, targets, counts=torch.ones_like(targets), smoothing=SMOOTHING)
    return loss.cross_entropy / 2 + ALPHA / 2 * loss.divergence


def from_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    """R-Drop's loss from log-probabilities, as in models that copy."""
    log_probs = logits.log_softmax(dim=-1)
    losses = mixture_loss(log_probs, targets.repeat(2), smoothing=SMOOTHING, vocabulary=logits.shape[-1])
    return losses.sum() / 2 + ALPHA / 2 * divergence(*log_probs.chunk(2)).sum()


def measure(form: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> tuple[float, float]:
    """The seconds that a loss takes and, on a GPU, the memory in GB that it needs besides the logits."""
    on_gpu = logits.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
    started = time.perf_counter()
    torch.autograd.grad(form(logits, targets), logits)
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - started, (torch.cuda.max_memory_allocated() - before) / 1e9 if on_gpu else 0.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--positions", type=int, default=256, help="positions per forward pass (default: 256)")
    arguments.add_argument("--words", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=9)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    logits = torch.randn(2 * options.positions, options.words, device=options.device, requires_grad=True)
    targets = torch.randint(options.words, (options.positions,), device=options.device)
    forms = {"from log-probabilities": from_log_probs, "from logits": from_logits}
    rounds = [{name: measure(form, logits, targets) for name, form in forms.items()} for _ in range(options.rounds + 1)]
    medians = {
        name: [statistics.median(values) for values in zip(*(measured[name] for measured in rounds[1:]), strict=True)]
        for name in forms
    }
    slowest = medians["from log-probabilities"][0]
    for name, (seconds, memory) in medians.items():
        more = f", {memory:.2f} GB more" if memory else ""
        print(f"{name:24} {1000 * seconds:8.1f} ms {slowest / seconds:5.2f}x{more}")


if __name__ == "__main__":
    main()
