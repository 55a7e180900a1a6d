"""Measures how fast a Transformer decodes on a GPU, greedily and with a beam: output tokens per second by batch size.

    python -m benchmarks.decode --device cuda
    python -m benchmarks.decode --device cuda --system big --batches 1:1 1:5 128:1 512:5 --note

Run from the root of the repository. The model has the size of a named system and random weights, 32,004 words and
sources of 28 pieces; every translation has exactly 32 pieces, so that all contenders do the same work. The time
includes encoding the sources, search and copying the results to the host, but not tokenization. The contenders take
turns: graphs (the default on a GPU: steps on tensors of fixed shape, replayed) and steps (one call after the other).
The first call of graphs, which compiles and captures them, is reported separately.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.errors import BenchmarkError
from benchmarks.figures import ratios, spread
from benchmarks.machine import this_machine
from benchmarks.options import command_parser, positive, run_command
from benchmarks.report import Report, command_line, shown_spread
from calque.engine.ensemble import Ensemble, start_decoding, start_with_graphs
from calque.layers.padded import pad
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import system_model
from calque.objectives.decoding_step import MARKS, pad_source
from calque.search.decode import Rules, decode, limits_of_pieces
from calque.search.fixed_beam import FixedSteps, room_for, usual_size
from calque.search.graphs import Graphs
from calque.search.settings import SearchConfig

VOCABULARY, SOURCE, TARGET = 32_004, 28, 32
BATCHES = ("1:1", "1:5", "128:1", "128:5", "1024:1", "512:5")


class Case(NamedTuple):
    """A batch size and a beam."""

    sentences: int
    beam: int


class Timed(NamedTuple):
    """Output tokens per second of every round, by contender."""

    speeds: dict[str, list[float]]
    first: float  # seconds of the first call of graphs
    peak: int  # bytes of memory of the GPU


def main(words: Sequence[str]) -> int:
    """Runs the benchmark and returns the exit code."""
    options = parse(words)
    return run_command(partial(compare, options, words=words), json=options.json, note=options.note)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = command_parser("decode", description=__doc__)
    parser.add_argument("--device", required=True, choices=("cuda",), help="must be cuda, as graphs need an NVIDIA GPU")
    parser.add_argument("--system", default="base", help="a named system with a Transformer decoder (default: base)")
    parser.add_argument(
        "--batches",
        nargs="+",
        type=_case,
        default=[_case(text) for text in BATCHES],
        metavar="B:K",
        help=f"sentences and beam (default: {' '.join(BATCHES)})",
    )
    parser.add_argument("--precision", default="bfloat16", choices=("float32", "bfloat16"), help="(default: bfloat16)")
    parser.add_argument("--rounds", type=positive, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument("--json", type=Path, help="save every measurement", metavar="FILE")
    parser.add_argument("--note", action="store_true", help="add the table to benchmarks/results/")
    return parser.parse_args(words)


def _case(text: str) -> Case:
    sentences, _, beam = text.partition(":")
    return Case(positive(sentences), positive(beam or "1"))


def compare(options: argparse.Namespace, *, words: Sequence[str]) -> Report:
    """Decodes with both contenders in turn and returns the report."""
    if not torch.cuda.is_available():
        raise BenchmarkError("--device cuda: torch finds no GPU that it can use on this machine")
    device = torch.device("cuda")
    model = build(options.system, device=device, dtype=getattr(torch, options.precision))
    timed = {case: measure(model, case, rounds=options.rounds) for case in options.batches}
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Report(
        "decode-gpu",
        command_line("benchmarks.decode", words),
        this_machine(),
        {
            "device": f"{torch.cuda.get_device_name()}, torch {torch.__version__}",
            "work": f"{options.system} ({parameters / 1e6:.0f} M parameters), {options.precision}, "
            f"{VOCABULARY:,} words, sources of {SOURCE} pieces, {TARGET} pieces each, {options.rounds} rounds",
        },
        ["batch, search", "graphs, tokens / s", "steps, tokens / s", "graphs ÷ steps", "first call", "GPU memory"],
        [_row(case, result) for case, result in timed.items()],
        ["Median over rounds [smallest–largest]; the first call captures the graphs."],
        {f"{case.sentences}:{case.beam}": result._asdict() for case, result in timed.items()},
    )


def _row(case: Case, timed: Timed) -> list[str]:
    name = f"{case.sentences:,}, {'greedy' if case.beam == 1 else f'beam {case.beam}'}"
    graphs, steps = (timed.speeds[contender] for contender in ("graphs", "steps"))
    ratio = spread(ratios(graphs, steps))
    return [
        name,
        *(shown_spread(spread(speeds), digits=0) for speeds in (graphs, steps)),
        shown_spread(ratio, digits=1),
        f"{timed.first:.2f} s",
        f"{timed.peak / 1e9:.2f} GB",
    ]


def build(system: str, *, device: torch.device, dtype: torch.dtype) -> Model:
    """The model of a named system with random weights, ready to decode."""
    torch.manual_seed(1)
    config = system_model(system)
    if not isinstance(config, ModelConfig):
        raise BenchmarkError(f"--system {system}: not a translation model; choose one from `calque systems`")
    model = Model(config, sizes=Sizes(VOCABULARY, VOCABULARY, joint=True)).to(device=device, dtype=dtype).eval()
    pad(model)
    return model


def measure(model: Model, case: Case, *, rounds: int) -> Timed:
    """Times both contenders in turn on the same sources."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(4, VOCABULARY, (case.sentences, SOURCE - 1), generator=generator).tolist()
    contenders = {
        "graphs": partial(decode_once, model, ids, case, Graphs()),
        "steps": partial(decode_once, model, ids, case, None),
    }
    torch.cuda.reset_peak_memory_stats()
    first, _ = _timed(contenders["graphs"])
    _timed(contenders["steps"])
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            seconds, tokens = _timed(contender)
            speeds[name].append(tokens / seconds)
    return Timed(speeds, first, torch.cuda.max_memory_allocated())


def _timed(contender: Callable[[], int]) -> tuple[float, int]:
    """Runs a contender; returns its seconds and its number of output tokens."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    tokens = contender()
    return time.perf_counter() - start, tokens


@torch.inference_mode()
def decode_once(model: Model, ids: Sequence[Sequence[int]], case: Case, graphs: Graphs | None) -> int:
    """Decodes a batch and returns the number of output tokens."""
    device = next(model.parameters()).device
    penalty = 0.0 if case.beam == 1 else 0.6
    search = SearchConfig(beam=case.beam, length_penalty=penalty, minimum=TARGET, maximum=TARGET)
    fillers, fixed = 0, None
    if graphs is None:
        source = pad_source(ids)
        decoding = start_decoding(model, source.to(device), ensemble=Ensemble(), search=search, attention=False)
    else:
        fillers = usual_size(len(ids)) - len(ids)
        source = pad_source([*ids, *[[]] * fillers], size=usual_size)
        fixed = FixedSteps(graphs, len(ids), room_for(int(source.lengths.max()), longest=TARGET + 1))
        decoding = start_with_graphs(model, source, graphs=graphs)
    rows = [*[(TARGET, TARGET)] * len(ids), *[(0, 1)] * fillers]
    hypotheses = decode(
        *decoding,
        source_lengths=source.lengths.to(device),
        limits=limits_of_pieces(rows, device=device),
        search=search,
        marks=MARKS,
        rules=Rules(),
        nbest=1,
        fixed=fixed,
    )
    return sum(len(best[0].tokens) for best in hypotheses)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
