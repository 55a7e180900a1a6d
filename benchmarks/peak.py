"""Measures the chip's peak for a model's matrix products: operations per second in float32, bfloat16 and int8.

    python -m benchmarks.peak --rows 2048
    python -m benchmarks.peak --rows 640 --products 256x1024 1024x256 256x8000

Multiplies inputs of --rows rows with weight matrices of these shapes (inner × columns), as a linear layer does, and
prints one JSON object: operations per second for each type, over all shapes. On a chip
without instructions for them, bfloat16 and int8 are slower than float32. int8 is torch's dynamic quantisation
(`quantized.linear_dynamic` of a float input). The fastest of several repetitions counts.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence

SMALL = ("256x256", "256x512", "256x1024", "1024x256", "256x8000")  # the Transformer `small` with 8,000 words
SECONDS = 0.25  # for each product and type, at least
REPETITIONS = 5  # at least


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2048, help="rows of the inputs (default: 2048)")
    parser.add_argument(
        "--products",
        nargs="+",
        default=SMALL,
        metavar="INNERxCOLUMNS",
        help="shapes of the weights (default: those of the system small)",
    )
    parser.add_argument(
        "--shares", nargs="+", type=float, help="how often each product is computed (default: equally often)"
    )
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: 1)")
    options = parser.parse_args()
    shapes = [parse_shape(text) for text in options.products]
    shares = options.shares or [1.0] * len(shapes)
    print(json.dumps(measure_peaks(shapes, shares, rows=options.rows, threads=options.threads)))


def parse_shape(text: str) -> tuple[int, int]:
    """Parses a shape such as 256x1024."""
    inner, _, columns = text.partition("x")
    return int(inner), int(columns)


def measure_peaks(
    shapes: Sequence[tuple[int, int]], shares: Sequence[float], *, rows: int, threads: int
) -> dict[str, float]:
    """Operations per second by data type, over all shapes, each weighted by how often it is computed."""
    import torch

    torch.set_num_threads(threads)
    peaks = {}
    for name in ("float32", "bfloat16", "int8"):
        work = seconds = 0.0
        for (inner, columns), share in zip(shapes, shares, strict=True):
            work += share * 2 * rows * inner * columns
            product = _product(name, rows=rows, inner=inner, columns=columns)
            seconds += share * _fastest(product, clock=time.process_time if threads == 1 else time.perf_counter)
        peaks[name] = work / seconds
    return peaks


def _product(name: str, *, rows: int, inner: int, columns: int) -> Callable[[], object]:
    """A function that computes one product with a weight matrix."""
    import torch
    from torch.nn import functional as F

    inputs, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    if name == "int8":
        scale = float(weight.abs().max()) / 127
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch will drop its quantised tensors, but has no other int8 product yet
            quantised = torch.quantize_per_tensor(weight, scale, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(quantised, None)
        return lambda: torch.ops.quantized.linear_dynamic(inputs, packed)
    kind = getattr(torch, name)
    inputs, weight = inputs.to(kind), weight.to(kind)
    return lambda: F.linear(inputs, weight)


def _fastest(product: Callable[[], object], *, clock: Callable[[], float]) -> float:
    """The seconds that the fastest repetition takes."""
    product()
    best, started, count = float("inf"), clock(), 0
    while count < REPETITIONS or clock() - started < SECONDS:
        before = clock()
        product()
        best = min(best, clock() - before)
        count += 1
    return best


if __name__ == "__main__":
    main()
