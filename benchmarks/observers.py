"""Measures the overhead of observable steps in a recurrent decoder when no observer is set.

    python -m benchmarks.observers --model runs/lstm --input test.de

One process translates the same lines with two versions in turn, A B, B A, …: with `Recurrence.step`, which computes the
cell in a separate function and then checks for an observer, and with a step that computes an LSTM cell inline, without
observers. Every translation has the same number of pieces, so that the work does not depend on the weights. Times are
CPU-seconds of one thread; a ratio is taken within each round.
"""

import argparse
import gzip
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

import calque
from calque.layers.recurrent import Recurrence, State

BEAM, PIECES = 5, 24


def plain_step(
    self: Recurrence, projected: Tensor, state: State, *, keep: Tensor | None = None, weight: Tensor | None = None
) -> tuple[Tensor, State]:
    """`Recurrence.step` for an LSTM, in a single function and without support for observers."""
    before = state[0]
    recurring = before if keep is None else before * keep
    match self.cell:
        case "lstm":
            gates = self._norm("inputs", projected) + self._norm("hidden", self._recurrent(recurring, weight))
            enter, forget, candidate, leave = gates.chunk(4, dim=-1)
            memory = forget.sigmoid() * state[1] + enter.sigmoid() * candidate.tanh()
            hidden = leave.sigmoid() * self._norm("cell", memory).tanh()
            return hidden, (hidden, memory)
        case _:
            raise SystemExit(f"the model's cell is {self.cell}, not lstm; use a model with an LSTM decoder")


@contextmanager
def stepping(step: Callable[..., tuple[Tensor, State]]) -> Iterator[None]:
    """A context manager within which `step` replaces `Recurrence.step`."""
    own = Recurrence.step
    Recurrence.step = step  # type: ignore[method-assign]
    try:
        yield
    finally:
        Recurrence.step = own  # type: ignore[method-assign]


def read_lines(path: Path, *, count: int) -> list[str]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return text.decode().splitlines()[:count]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", type=Path, required=True, help="a run whose decoder is an LSTM")
    arguments.add_argument("--input", type=Path, required=True, help="sentences to translate, one per line")
    arguments.add_argument("--lines", type=int, default=16)
    arguments.add_argument("--rounds", type=int, default=60)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    translator, lines = calque.load(options.model), read_lines(options.input, count=options.lines)
    assert isinstance(translator, calque.Translator)
    search = translator.search.model_copy(
        update={"beam": BEAM, "minimum": PIECES, "maximum": PIECES, "maximum_extra": PIECES}
    )
    calls = 0

    def counted(self: Recurrence, *values: object, **named: object) -> tuple[Tensor, State]:
        nonlocal calls
        calls += 1
        return observed(self, *values, **named)  # type: ignore[arg-type]

    observed = Recurrence.step
    with stepping(counted):
        expected = [translation.text for translation in translator.stream(lines, search=search)]
    if not calls:
        raise SystemExit(
            "this model's decoder does not call Recurrence.step; use a model with an LSTM decoder and attention"
        )

    def seconds(step: Callable[..., tuple[Tensor, State]]) -> float:
        with stepping(step):
            started = time.process_time()
            texts = [translation.text for translation in translator.stream(lines, search=search)]
            taken = time.process_time() - started
        assert texts == expected
        return taken

    times: dict[str, list[float]] = {"observable": [], "plain": []}
    steps = {"observable": observed, "plain": plain_step}
    for number in range(options.rounds):
        for name in ("observable", "plain") if number % 2 else ("plain", "observable"):
            times[name].append(seconds(steps[name]))
    ratios = sorted(a / b for a, b in zip(times["observable"], times["plain"], strict=True))
    quarter = len(ratios) // 4
    print(f"{calls} steps, {statistics.median(times['observable']):.3f} CPU-s per round, {options.rounds} rounds")
    print(
        f"observable ÷ plain: median {statistics.median(ratios):.4f}, middle half {ratios[quarter]:.4f} to "
        f"{ratios[-1 - quarter]:.4f}, all {ratios[0]:.4f} to {ratios[-1]:.4f}"
    )
    steps_alone()


def steps_alone(*, rounds: int = 100, calls: int = 100, width: int = 256) -> None:
    """Prints the ratio for the steps alone, with the rows of one beam, where the overhead of a call is largest."""
    torch.manual_seed(1)
    layer = Recurrence("lstm", input_width=width, width=width)
    state = layer.zero_state(BEAM, like=torch.zeros(1))
    projected = torch.randn(BEAM, 4 * width)
    ratios = []
    with torch.inference_mode():
        for number in range(rounds):
            times = {}
            for step in (Recurrence.step, plain_step) if number % 2 else (plain_step, Recurrence.step):
                started = time.process_time()
                for _ in range(calls):
                    step(layer, projected, state)
                times[step] = time.process_time() - started
            ratios.append(times[Recurrence.step] / times[plain_step])
    ratios.sort()
    print(
        f"steps alone, {rounds} rounds of {calls} calls: median {statistics.median(ratios):.4f}, middle half "
        f"{ratios[rounds // 4]:.4f} to {ratios[-1 - rounds // 4]:.4f}"
    )


if __name__ == "__main__":
    main()
