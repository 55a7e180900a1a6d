"""Measures how fast a GPU trains Transformers and LSTMs, in target tokens per second, and what each optimisation gains.

    python -m benchmarks.train --device cuda
    python -m benchmarks.train --device cuda --only lstm --seconds 120 --profile --json out.json

Each case trains a model of 32,004 words in bfloat16 on random lines of 24 to 31 pieces (28.5 positions with the end
mark) in batches of 32 positions per side, with the updater that `calque train` uses: forward and backward pass,
clipping, Adam, sums. Batches wait in pinned memory. Speeds count target tokens without padding, over at least two
seconds after the first steps; `first` is the time of those first steps, with compilation and capture. Cases that no
longer fit into --seconds are left out, and a case that fails is reported and does not end the others.
"""

import json
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from benchmarks.options import command_parser
from calque.data.pair_batch import PairBatch
from calque.data.subword_regularisation import FixedConfig
from calque.devices import choose_device
from calque.layers.multihead import MultiHead
from calque.models.model import Model, ModelConfig, Sizes
from calque.objectives.objective import ObjectiveConfig
from calque.tasks.translation import Translation
from calque.tensors import Padded
from calque.text import BOS, EOS, PAD
from calque.training.compiling import compile_model
from calque.training.distributed import Ranks
from calque.training.settings import TrainingConfig
from calque.training.update import MemorySplits, Updater

VOCABULARY, WIDTH, SHORTEST = 32_004, 32, 25  # positions, end mark included


KERNELS = 16  # printed of a profile; --json has all


class Case(NamedTuple):
    """A model, a batch budget and a way to train it."""

    model: str
    tokens: int  # positions of a batch, both sides
    way: str

    @property
    def name(self) -> str:
        return f"{self.model} {self.tokens // 1000}k {self.way}"


def transformer(*, width: int, heads: int, layers: int = 6, dropout: float = 0.1) -> ModelConfig:
    side = {"kind": "transformer", "layers": layers, "width": width, "heads": heads, "feed_forward": 4 * width}
    return ModelConfig.model_validate(
        {"tie": "all", "encoder": {**side, "dropout": dropout}, "decoder": {**side, "dropout": dropout}}
    )


def lstm(*, feeding: bool) -> ModelConfig:
    side = {"layers": 2, "width": 512, "embedding": 512, "dropout": 0.1}
    encoder = {"kind": "recurrent", "bidirectional": True, **side}
    decoder = {"kind": "luong", "input_feeding": feeding, "attention": {"score": "general"}, **side}
    return ModelConfig.model_validate({"tie": "all", "encoder": encoder, "decoder": decoder})


MODELS: dict[str, Callable[[], ModelConfig]] = {
    "small": lambda: transformer(width=256, heads=4, layers=3),
    "base": lambda: transformer(width=512, heads=8),
    "big": lambda: transformer(width=1024, heads=16),
    "lstm-fed": lambda: lstm(feeding=True),
    "lstm": lambda: lstm(feeding=False),
}
# before: as in version 0.1; version-3: as arithmetic of version 3 is; eager: uncompiled; captured: uncompiled, but
# captured as CUDA graphs; uncaptured: compiled, but not captured; products and fused-attention: attention by plain
# products and by torch's fused kernels, instead of a kernel for short sentences
WAYS: dict[str, dict[str, Any]] = {
    "before": {"arithmetic": 2, "compile": False},
    "before-compiled": {"arithmetic": 2, "compile": True},
    "eager": {"arithmetic": 4, "compile": False},
    "captured": {"arithmetic": 4, "capture": True},
    "now": {"arithmetic": 4, "compile": True},
    "version-3": {"arithmetic": 3, "compile": True},
    "uncaptured": {"arithmetic": 4, "compile": True},
    "products": {"arithmetic": 4, "compile": True},
    "fused-attention": {"arithmetic": 4, "compile": True},
}
CASES = [
    Case("lstm-fed", 25_000, "before"),
    Case("lstm-fed", 25_000, "now"),
    Case("lstm-fed", 100_000, "before"),
    Case("lstm-fed", 100_000, "now"),
    Case("lstm", 25_000, "before"),
    Case("lstm", 25_000, "now"),
    Case("lstm", 100_000, "now"),
    Case("base", 25_000, "now"),
    Case("base", 65_536, "now"),
    Case("base", 25_000, "before-compiled"),
    Case("base", 25_000, "uncaptured"),
    Case("base", 65_536, "products"),
    Case("base", 65_536, "fused-attention"),
    Case("base", 100_000, "now"),
    Case("big", 65_536, "now"),
    Case("big", 65_536, "version-3"),
    Case("lstm-fed", 25_000, "eager"),
    Case("lstm-fed", 8_192, "eager"),
    Case("lstm-fed", 8_192, "captured"),
    Case("small", 8_192, "eager"),
    Case("small", 8_192, "captured"),
    Case("small", 8_192, "now"),
    Case("base", 131_072, "now"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit code."""
    parser = command_parser("train", description=__doc__)
    parser.add_argument("--device", required=True, choices=("cuda",), help="must be cuda: an NVIDIA GPU is needed")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="TEXT", help="measure only cases whose name begins with one of these"
    )
    parser.add_argument("--seconds", type=float, default=900, help="time for all cases (default: 900)")
    parser.add_argument("--first", action="store_true", help="time only the first steps, with compilation and capture")
    parser.add_argument("--profile", action="store_true", help="also print the kernels of a step that take longest")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("benchmarks: --device cuda: torch finds no GPU that it can use on this machine", file=sys.stderr)
        return 2
    began, figures = time.monotonic(), []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    print(
        "| case | target tokens/s | ms/step | host ms/step | first s | waits | memory GB |\n"
        "|---|---|---|---|---|---|---|"
    )
    for case in CASES:
        if options.only and not any(case.name.startswith(text) for text in options.only):
            continue
        if time.monotonic() - began > options.seconds:
            print(f"| {case.name} | left out: no time left | | | | | |", flush=True)
            continue
        try:
            if options.first:
                print(f"| {case.name} | | | | {time_first_steps(case):.1f} | | |", flush=True)
                continue
            figure = measure(case, profile=options.profile)
        except Exception as error:
            print(f"| {case.name} | failed: {type(error).__name__}: {str(error)[:300]} | | | | | |", flush=True)
            traceback.print_exc()
            continue
        figures.append(figure)
        print(
            f"| {case.name} | {figure['tokens_per_second']:,.0f} | {figure['step']:.1f} | {figure['host']:.1f} "
            f"| {figure['first']:.1f} | {figure['waits']} | {figure['memory']:.1f} |",
            flush=True,
        )
        if figure["failure"]:
            print(f"  not captured: {figure['failure']}", flush=True)
        if options.profile:
            print("\n".join(line[:120] for line in figure["profile"].splitlines()[:KERNELS]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


def time_first_steps(case: Case) -> float:
    """The seconds until three steps are done, with compilation and capture."""
    with tempfile.TemporaryDirectory() as folder:
        steps = endless(
            build(case, device=choose_device("cuda"), folder=Path(folder)), list(random_batches(case.tokens, count=1))
        )
        return run_first(steps)


def run_first(steps: Iterator[int]) -> float:
    began = time.monotonic()
    for _ in range(3):
        next(steps)
    torch.cuda.synchronize()
    return time.monotonic() - began


def measure(case: Case, *, profile: bool) -> dict[str, Any]:
    """The speed of one case."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    device = choose_device("cuda")
    batches = list(random_batches(case.tokens, count=6))
    with tempfile.TemporaryDirectory() as folder:
        updater = build(case, device=device, folder=Path(folder))
        steps = endless(updater, batches)
        first = run_first(steps)
        waits = count_waits(steps)
        torch.cuda.synchronize()
        tokens, count, host, began = 0, 0, 0.0, time.monotonic()
        while count < 10 or time.monotonic() - began < 2:
            at = time.monotonic()
            tokens += next(steps)
            host += time.monotonic() - at
            count += 1
            if count % 10 == 0:
                torch.cuda.synchronize()  # as when a line of metrics is due
        torch.cuda.synchronize()
        seconds = time.monotonic() - began
        captured = updater.captured
        return {
            "case": case.name,
            "tokens_per_second": tokens / seconds,
            "step": 1000 * seconds / count,
            "host": 1000 * host / count,
            "first": first,
            "waits": waits,
            "memory": torch.cuda.max_memory_allocated() / 1e9,
            "graphs": 0 if captured is None else len(captured),
            "failure": None if captured is None else captured.failure,
            "profile": kernels(steps) if profile else "",
        }


def build(case: Case, *, device: torch.device, folder: Path) -> Updater:
    """Builds the updater of a case, with its model."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    model = Model(MODELS[case.model](), sizes=Sizes(VOCABULARY, VOCABULARY, joint=True)).to(device).train()
    batch = {"tokens": case.tokens, "shapes": "static"}
    config = TrainingConfig.model_validate({"precision": "bfloat16", "batch": batch, **WAYS[case.way]})
    tokenizers = cast(Any, SimpleNamespace(source=None, target=None))
    task = Translation(ObjectiveConfig(), smoothing=0.1, tokenizers=tokenizers, subwords=FixedConfig())
    splits = MemorySplits(folder / "history.jsonl")
    updater = Updater(model, task=task, config=config, seed=1, ranks=Ranks(), splits=splits)
    if case.way == "uncaptured":
        updater.captured = None
    if config.compile:
        compile_model(model, version=config.arithmetic, captured=updater.captured is not None)
    for layer in model.modules():
        if isinstance(layer, MultiHead) and case.way in ("products", "fused-attention"):
            layer.has_kernel, layer.is_compiled = False, case.way == "products"
            layer.joins_gradients = False
    return updater


def endless(updater: Updater, batches: Sequence[PairBatch]) -> Iterator[int]:
    """Performs one update after another; yields the number of target tokens of each."""
    step = 0
    while True:
        batch = batches[step % len(batches)]
        step += 1
        updater.update([batch], step=step, rate=1e-4)
        yield batch.weight


def random_batches(tokens: int, *, count: int) -> Iterator[PairBatch]:
    """Batches of one static shape, in pinned memory."""
    rows = tokens // (2 * WIDTH) // 8 * 8
    generator = torch.Generator().manual_seed(1)

    def side() -> tuple[Tensor, Tensor]:
        lengths = torch.randint(SHORTEST, WIDTH + 1, (rows,), generator=generator)
        ids = torch.randint(4, VOCABULARY, (rows, WIDTH), generator=generator)
        places = torch.arange(WIDTH)
        ids[places >= lengths[:, None]] = PAD
        ids[torch.arange(rows), lengths - 1] = EOS
        return ids, lengths

    for _ in range(count):
        (source, source_lengths), (target, target_lengths) = side(), side()
        inputs = torch.cat([torch.full((rows, 1), BOS), target[:, :-1]], dim=1)
        weight = int(target_lengths.sum())
        yield PairBatch(Padded(source, source_lengths), inputs, target, target_lengths, weight, weight).pin()


def count_waits(steps: Iterator[int]) -> int:
    """How often the host waits for the device in a step."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in caught)


def kernels(steps: Iterator[int]) -> str:
    """A table of the kernels that take longest in three steps."""
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(3):
            next(steps)
        torch.cuda.synchronize()
    events = [event for event in profiler.key_averages() if event.self_device_time_total > 0]
    events = [event for event in events if "cuda" in str(event.device_type).lower()]
    events.sort(key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in events) / 3000
    lines = [f"  kernels: {total:.1f} ms/step, {sum(event.count for event in events) // 3} launches/step"]
    lines += [
        f"  {event.self_device_time_total / 3000:8.3f} ms {event.count / 3:7.1f} x {event.key[:160]}"
        for event in events
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
