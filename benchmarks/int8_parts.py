"""Times the parts of 8-bit decoding against the alternatives that they replace, in one process and one thread.

    python -m benchmarks.int8_parts
    python -m benchmarks.int8_parts --model runs/transformer --input test.de

Without a model, it prints the time in float32 ÷ the time in 8 bits for products of several widths and numbers of rows;
and for a gated convolution of one position, the times of torch's convolution and of 8 bits relative to a product over
windows. With a model, it prints the CPU time of beam search in 8 bits with attention in float64 (as it is) ÷ that with
attention in float32; and for both, how many sentences have a different log-probability alone than in a batch. Ratios
are taken within rounds, and the medians are printed.
"""

import argparse
import gzip
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import calque
from calque.layers.convolution import GatedConvolution, keep_normalised
from calque.layers.int8 import quantise
from calque.layers.int8_linear import Int8Linear
from calque.layers.observers import AttentionLayer

WIDTHS = ((128, 128), (256, 256), (256, 1024), (768, 512), (512, 2048))
ROWS = (5, 20, 60, 250, 600)
ROUNDS, SECONDS = 7, 0.02  # of a measurement, at least


def main(words: Sequence[str] | None = None) -> None:
    """Measures the parts and prints the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.int8_parts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="a run or model folder")
    parser.add_argument("--input", type=Path, metavar="FILE", help="sources to translate with it, plain or .gz")
    parser.add_argument("--lines", type=int, default=200, help="lines of the input that are used (default: 200)")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    with torch.inference_mode():
        if options.model is None:
            print_products()
            print_convolution()
        else:
            print_attention(options.model, read_lines(options.input, count=options.lines))


def print_products() -> None:
    """Prints a table of products: time in float32 ÷ time in int8."""
    print(f"| inputs × outputs | {' | '.join(map(str, ROWS))} |\n|---|{'---|' * len(ROWS)}")
    for inputs, outputs in WIDTHS:
        linear = nn.Linear(inputs, outputs)
        rounded = Int8Linear.of(linear.weight, linear.bias)
        cells = [_ratio_of_layers(linear, rounded, torch.randn(rows, inputs)) for rows in ROWS]
        print(f"| {inputs} × {outputs:,} | {' | '.join(cells)} |", flush=True)


def print_convolution(*, width: int = 256, rows: int = 600) -> None:
    """Prints how long torch's convolution and int8 take, relative to a product over windows, for one position."""
    plain, windowed, rounded = (GatedConvolution(width, kernel=3) for _ in range(3))
    keep_normalised(windowed)
    quantise(rounded)
    weight, window = (
        windowed.weight().view(2 * width, 3, width).transpose(1, 2).contiguous(),
        torch.randn(rows, 3, width),
    )

    def convolution(values: torch.Tensor) -> torch.Tensor:
        return F.glu(F.conv1d(values.transpose(1, 2), weight, plain.bias), dim=1)

    print(f"convolution of {rows} rows of one position, width {width}, kernel 3, against a product over windows:")
    print(f"torch's convolution takes {_ratio_of_layers(convolution, windowed, window)} times as long,", end=" ")
    print(f"normalising weights in every step {_ratio_of_layers(plain, windowed, window)},", end=" ")
    print(f"int8 {_ratio_of_layers(rounded, windowed, window)}")


def print_attention(model: Path, lines: Sequence[str]) -> None:
    """Prints what attention in float64 costs, and how many results depend on the batch with it and without it."""
    translator = calque.load(model, device="cpu", precision="int8")
    assert isinstance(translator, calque.Translator)
    layers = [layer for layer in translator.model.modules() if isinstance(layer, AttentionLayer) and layer.in_float64]

    def log_probs(batches: Sequence[Sequence[str]]) -> list[float]:
        return [item.candidates[0].log_prob for batch in batches for item in translator.stream(list(batch))]

    def switch(in_float64: bool) -> None:
        for layer in layers:
            layer.in_float64 = in_float64

    def timed(in_float64: bool) -> float:
        switch(in_float64)
        started = time.process_time()
        log_probs([lines])
        return time.process_time() - started

    timed(True), timed(False)
    ratios = [
        timed(True) / timed(False) if number % 2 else 1 / (timed(False) / timed(True)) for number in range(ROUNDS)
    ]
    print(f"attention in float64 ÷ in float32, CPU time: {_shown(ratios)}")
    for in_float64 in (True, False):
        switch(in_float64)
        pairs = zip(log_probs([lines]), log_probs([[line] for line in lines]), strict=True)
        different = sum(together != alone for together, alone in pairs)
        print(
            f"attention in float{64 if in_float64 else 32}: {different} of {len(lines)} sentences depend on the batch"
        )


def read_lines(path: Path, *, count: int) -> list[str]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return text.decode().splitlines()[:count]


def _ratio_of_layers(
    first: Callable[[torch.Tensor], object], second: Callable[[torch.Tensor], object], inputs: torch.Tensor
) -> str:
    """Time of the first ÷ time of the second, the median of rounds in which they take turns."""
    return _shown([_seconds(first, inputs) / _seconds(second, inputs) for _ in range(ROUNDS)])


def _seconds(layer: Callable[[torch.Tensor], object], inputs: torch.Tensor) -> float:
    layer(inputs)
    calls, started = 0, time.process_time()
    while time.process_time() - started < SECONDS:
        layer(inputs)
        calls += 1
    return (time.process_time() - started) / calls


def _shown(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f}"


if __name__ == "__main__":
    main()
