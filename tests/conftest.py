"""What tests share: toy corpora, tiny models of every family, runs of a few steps, and the command line."""

import io
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest

from calque.commands.main import app, report_errors
from calque.config import override
from calque.experiment import Run, train
from calque.native import operations
from calque.native.library import Compiled

Values = dict[str, Any]

_ENCODER = {"kind": "recurrent", "layers": 1, "width": 16, "embedding": 12, "dropout": 0.2}
_CONVOLUTIONS = {"kind": "convolutional", "layers": 2, "width": 16, "embedding": 12, "kernel": 3, "dropout": 0.2}
_SIDE = {"kind": "transformer", "layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "dropout": 0.1}
FAMILIES: dict[str, Values] = {
    "plain": {
        "encoder": {**_ENCODER, "bidirectional": False},
        "decoder": {"kind": "recurrent", "layers": 1, "width": 16, "embedding": 12, "dropout": 0.2},
    },
    "luong": {
        "encoder": _ENCODER,
        "decoder": {"kind": "luong", "layers": 1, "width": 16, "embedding": 12, "input_feeding": True, "dropout": 0.2},
    },
    "bahdanau": {
        "encoder": {**_ENCODER, "cell": "gru-original"},
        "decoder": {
            "kind": "bahdanau",
            "width": 16,
            "embedding": 12,
            "attention": {"alignment": 8},
            "readout": 10,
            "dropout": 0.2,
        },
    },
    "convolutional": {"encoder": _CONVOLUTIONS, "decoder": _CONVOLUTIONS},
    "transformer": {"encoder": {**_SIDE, "attention_dropout": 0.1}, "decoder": {**_SIDE, "activation_dropout": 0.1}},
}

hypothesis.settings.register_profile("calque", deadline=None)  # no test depends on how busy the machine is
hypothesis.settings.load_profile("calque")


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a C compiler: torch computes what kernels in C would compute."""
    monkeypatch.setattr(operations, "compiled", lambda: Compiled(None, "off"))


class Answer(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def seed() -> int:
    """It changes with the commit (CALQUE_TEST_SEED says which), so that bounds cannot be tuned to one."""
    given = os.environ.get("CALQUE_TEST_SEED")
    value = int(given) if given else int(_head(), 16)
    print(f"CALQUE_TEST_SEED={value}")
    return value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures of tests/faults: how many faults of each kind were injected, and how many came to no harm."""
    table: dict[tuple[str, str], list[float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            found = getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ()
            for what, family, tried, held in (value for name, value in found if name == "fault"):
                row = table.setdefault((what, family), [0, 0, 0])
                row[:] = row[0] + tried, row[1] + held, row[2] + report.duration
    if table:
        terminalreporter.section("faults injected")
        terminalreporter.line(f"{'fault':52} {'family':12} {'tried':>6} {'held':>6} {'seconds':>8}")
    for (what, family), (tried, held, seconds) in sorted(table.items()):
        terminalreporter.line(f"{what:52} {family:12} {tried:6} {held:6} {seconds:8.1f}")


@contextmanager
def without_plots() -> Iterator[None]:
    """Drawing takes longer than training here."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("running", "own_task"):
            patch.setattr(f"calque.experiment.{module}.draw_curves", lambda _folder: True)
        patch.setattr("calque.experiment.running.draw_recorded_gradients", lambda _folder: True)
        yield


@pytest.fixture
def unplotted() -> Iterator[None]:
    with without_plots():
        yield


def made_once(values: Callable[..., Values], *, folder: Callable[[], Path]) -> Callable[..., Run]:
    """`runs(...)`: what training with `values(...)` gives, made once for each; do not change it."""

    @cache
    def make(*asked: str) -> Run:
        with without_plots():
            return train(values(*asked), run=folder(), quiet=True)

    return make


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to copy short sequences, more or less; do not change it."""
    folder = tmp_path_factory.mktemp("trained")
    corpus = toy_corpus(folder, pairs=600, change=list)
    values = toy_values(corpus, "luong", *learning(steps=200, rate=0.01), *still_and(width=32))
    with without_plots():
        return train(values, run=folder / "run", quiet=True).folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs `calque ARGUMENTS` in this process, as the installed command does in one of its own."""

    def call(*arguments: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "argv", ["calque", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capfd.readouterr()
        try:
            report_errors(app)
            code: Any = 0
        except SystemExit as end:
            code = end.code
        return Answer(code or 0, *capfd.readouterr())

    return call


def toy_corpus(
    folder: Path,
    *,
    pairs: int = 150,
    change: Callable[[list[str]], list[str]] = lambda words: words[::-1],
    seed: int = 0,
    letters: str = "abcdefgh",
    longest: int = 6,
) -> dict[str, Path]:
    """`folder`/source and target: sequences of letters, and what `change` makes of them."""
    generator = random.Random(seed)
    rows = [[generator.choice(letters) for _ in range(generator.randint(2, longest))] for _ in range(pairs)]
    folder.mkdir(parents=True, exist_ok=True)
    files = {"source": folder / "source", "target": folder / "target"}
    files["source"].write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")
    files["target"].write_text("".join(" ".join(change(row)) + "\n" for row in rows), encoding="utf-8")
    return files


def toy_values(corpus: dict[str, Path], model: str | Values, *overrides: str) -> Values:
    """An experiment of a few steps with accumulation and averaging; the model is a family's, or given by its values."""
    values: Values = {
        "seed": 3,
        "data": {"train": [{"kind": "files", **{side: str(path) for side, path in corpus.items()}}]},
        "text": {"kind": "words"},
        "model": FAMILIES[model] if isinstance(model, str) else model,
        "training": {
            "steps": 14,
            "accumulate": 2,
            "log_every": 3,
            "validate_every": 5,
            "checkpoint_every": 4,
            "average": 2,
            "metric": "bleu",  # whatever the length of these sequences
            "samples": 2,
            "threads": 1,
            "device": "cpu",
            "batch": {"tokens": 150},
            "schedule": {"warmup": 5},
        },
    }
    return override(values, overrides)


def learning(*, steps: int, rate: float, tokens: int = 400) -> list[str]:
    """Overrides for a run that is meant to learn something."""
    once = [f"training.{key}={steps}" for key in ("steps", "validate_every", "checkpoint_every")]
    schedule = ["training.schedule.kind=linear", "training.schedule.warmup=20"]
    rest = ["training.accumulate=1", "training.average=0", "training.label_smoothing=0"]
    return [*once, *schedule, *rest, f"training.optimiser.learning_rate={rate}", f"training.batch.tokens={tokens}"]


def still_and(*, width: int) -> list[str]:
    """Overrides for both sides of a model: that wide, and without dropout."""
    return [f"model.{side}.{key}" for side in ("encoder", "decoder") for key in (f"width={width}", "dropout=0.0")]


def environment() -> dict[str, str]:
    """For subprocesses: one thread, English, UTF-8."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "COLUMNS": "100", "MPLBACKEND": "agg"}


def calque(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> Answer:
    """`python -m calque ARGUMENTS` as a process of its own."""
    command = [sys.executable, "-m", "calque", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, env=environment(), cwd=cwd, timeout=300)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def _head() -> str:
    asked = ["git", "rev-parse", "--short=7", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent)
    return found.stdout.strip() or "1"
