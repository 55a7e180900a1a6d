"""Times the parts of a training step on a CPU, forward and backward, in both versions of the arithmetic (decision 25).

    python -m benchmarks.training_parts
    python -m benchmarks.training_parts --rounds 21 --parts loss dropout

Both versions take turns within one process, with one thread; the figures are medians of CPU milliseconds.
`benchmarks.train` measures whole steps.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from calque.layers.arithmetic import Arithmetic, use_arithmetic
from calque.layers.dropout import dropout
from calque.layers.multihead import MultiHead
from calque.layers.output import FullOutput
from calque.layers.recurrent import Recurrence
from calque.memory import keep_memory

VERSIONS: tuple[Arithmetic, ...] = (1, 2)


def loss() -> Callable[[], Tensor]:
    """The vocabulary layer and its loss: 2,048 positions of width 256, 8,000 words."""
    layer, hidden = FullOutput(8000, width=256), torch.randn(2048, 256, requires_grad=True)
    targets = torch.randint(8000, (2048,))
    return lambda: layer.total_loss(hidden, targets, smoothing=0.1)


def dropped() -> Callable[[], Tensor]:
    """Dropout of 0.1 on 2,048 positions of width 256."""
    values = torch.randn(2048, 256, requires_grad=True)
    return lambda: dropout(values, 0.1).sum()


def attention() -> Callable[[], Tensor]:
    """Self-attention with dropout of 0.1 on its weights: 64 sentences of 32 tokens, 4 heads, width 256."""
    layer, inputs = MultiHead(256, memory_width=256, heads=4, dropout=0.1), torch.randn(64, 32, 256, requires_grad=True)
    mask = torch.ones(64, 1, 1, 32, dtype=torch.bool)
    queries, memory = layer.queries(inputs).detach().requires_grad_(), layer.remember(inputs)
    keys_values = type(memory)(*(part.detach().requires_grad_() for part in memory))
    return lambda: layer.attend(queries, keys_values, mask, causal=False).sum()


def lstm() -> Callable[[], Tensor]:
    """One direction of an LSTM encoder: 128 sentences of 13 to 17 tokens, width 256 to 128, read backwards."""
    layer, inputs = Recurrence("lstm", input_width=256, width=128), torch.randn(128, 17, 256, requires_grad=True)
    lengths = torch.arange(128) % 5 + 13
    return lambda: layer.packed(inputs, lengths, backward=True)[0].sum()


PARTS = {"loss": loss, "dropout": dropped, "attention": attention, "lstm": lstm}


def measure(work: Callable[[], Tensor], *, rounds: int) -> dict[Arithmetic, float]:
    """CPU milliseconds of both versions; a first, unmeasured round warms both up."""
    seconds: dict[Arithmetic, list[float]] = {version: [] for version in VERSIONS}
    for number, version in _turns(rounds):
        with use_arithmetic(version):
            started = time.process_time()
            torch.autograd.backward(work())
            elapsed = time.process_time() - started
        if number:
            seconds[version].append(elapsed)
    return {version: 1000 * statistics.median(values) for version, values in seconds.items()}


def _turns(rounds: int) -> Iterator[tuple[int, Arithmetic]]:
    """Yields (round, version) in the order 1 2, 2 1, 1 2, …"""
    for number in range(rounds + 1):
        yield from ((number, version) for version in (VERSIONS if number % 2 else VERSIONS[::-1]))


def main(words: Sequence[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(
        prog="python -m benchmarks.training_parts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = arguments.parse_args(words)
    torch.set_num_threads(1)
    keep_memory()
    for name in options.parts:
        torch.manual_seed(1)
        medians = measure(PARTS[name](), rounds=options.rounds)
        print(f"{name:10} {medians[1]:8.1f} ms {medians[2]:8.1f} ms {medians[1] / medians[2]:6.2f}x", flush=True)


if __name__ == "__main__":
    main()
