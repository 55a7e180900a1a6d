"""Compiled runs learn what plain ones do, can be resumed exactly, and leave a model that knows nothing of it."""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.conftest import Values, toy_corpus, toy_values

from calque.engine import load
from calque.errors import ConfigError, Interrupted
from calque.experiment import resume, train
from calque.training import learner
from calque.training.compiling import compile_shapes
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from calque.training.update import Updater

pytestmark = pytest.mark.usefixtures("unplotted")

STATIC = ("training.batch.shapes=static", "training.accumulate=1", "training.log_every=1", "training.average=0")
SHORT = ("training.steps=6", "training.validate_every=3", "training.checkpoint_every=3")


def still(corpus: dict[str, Path], *settings: str) -> Values:
    """A Transformer without dropout, whose draws are other ones when compiled."""
    values = toy_values(corpus, "transformer", *STATIC, *SHORT, *settings)
    for side in ("encoder", "decoder"):
        for key in ("dropout", "attention_dropout", "activation_dropout"):
            values["model"][side][key] = 0.0
    return values


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_journal(run / "metrics.jsonl") if "loss" in line]


def digests(run: Path) -> list[str]:
    files = ("metrics.jsonl", "model/weights.safetensors", "checkpoints/step-6/optimiser.safetensors")
    return [hashlib.sha256((run / name).read_bytes()).hexdigest() for name in files]


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Values, Path], None]:
    """Begins a run that is asked to stop after its fourth step."""

    def begin(values: Values, run: Path) -> None:
        after = Trainer._after_step

        def stopping(self: Trainer) -> None:
            after(self)
            if self.progress.step == 4:
                self._interrupt()

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_after_step", stopping)
            with pytest.raises(Interrupted):
                train(values, run=run, quiet=True)

    return begin


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, where it imports its compiler
def test_a_compiled_run_learns_what_a_plain_one_does_and_goes_on_exactly(
    tmp_path: Path, interrupted: Callable[[Values, Path], None]
) -> None:
    """With the kernels that users get. All sentences have one length: a graph takes a C++ compiler many seconds."""
    corpus = toy_corpus(tmp_path, pairs=60, longest=2)
    compiled = still(corpus, "training.compile=true")
    plain = train(still(corpus), run=tmp_path / "plain", quiet=True).folder
    whole = train(compiled, run=tmp_path / "whole", quiet=True).folder
    assert losses(whole) == pytest.approx(losses(plain), abs=1e-5)
    assert len(losses(whole)) == 6 + 2

    written = load_file(whole / "model" / "weights.safetensors")
    assert list(written) == list(load_file(plain / "model" / "weights.safetensors"))
    translator = load(whole, device="cpu")
    assert translator.model._compiled_call_impl is None
    assert translator.translate(["a b"])

    interrupted(compiled, tmp_path / "stopped")
    assert losses(tmp_path / "stopped") == losses(whole)[: 4 + 1]
    resume(tmp_path / "stopped", quiet=True)
    assert digests(tmp_path / "stopped") == digests(whole)


@pytest.mark.full
def test_every_shape_has_one_graph_whatever_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: Callable[[Values, Path], None]
) -> None:
    """The graphs are those of the usual backend, the kernels torch's own: so that many shapes take seconds."""
    monkeypatch.setattr(learner, "compile_shapes", partial(compile_shapes, backend="aot_eager"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    values = toy_values(toy_corpus(tmp_path), "transformer", *STATIC, *SHORT, "training.compile=true")
    whole = train(values, run=tmp_path / "whole", quiet=True).folder
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert 2 <= graphs <= 6  # at most one a step
    assert not torch._dynamo.utils.counters["graph_break"]
    interrupted(values, tmp_path / "stopped")
    resume(tmp_path / "stopped", quiet=True)
    assert digests(tmp_path / "stopped") == digests(whole)


@pytest.mark.parametrize("times", [1, 2])
def test_a_compiler_that_failed_once_begins_again(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C goes to all processes of a terminal, the compiler too. The step counts once; failing twice is told."""
    monkeypatch.setattr(learner, "compile_shapes", lambda _model: None)  # what fails is told below
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "damaged"))
    values = toy_values(
        toy_corpus(tmp_path), "plain", *STATIC, *SHORT, "training.accumulate=2", "training.compile=true"
    )
    whole = train(values, run=tmp_path / "whole", quiet=True).folder
    gradient, calls = Updater._gradient, []

    def failing(self: Updater, *arguments: Any, **options: Any) -> Any:
        calls.append((options["step"], os.environ["TORCHINDUCTOR_CACHE_DIR"]))
        found = gradient(self, *arguments, **options)
        if 2 <= len(calls) < 2 + times:
            raise torch._dynamo.exc.BackendCompilerFailed(compile_shapes, RuntimeError("killed"), None)
        return found

    monkeypatch.setattr(Updater, "_gradient", failing)
    if times == 1:
        assert digests(train(values, run=tmp_path / "run", quiet=True).folder) == digests(whole)
    else:
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            train(values, run=tmp_path / "run", quiet=True)
    assert [step for step, _ in calls[:3]] == [1, 2, 2]
    assert calls[1][1] == str(tmp_path / "damaged") != calls[2][1]


def test_exact_shapes_are_refused(tmp_path: Path) -> None:
    values = toy_values(toy_corpus(tmp_path), "transformer", "training.compile=true", "training.batch.shapes=exact")
    with pytest.raises(ConfigError, match=r'compile needs batch.shapes = "static"'):
        train(values, run=tmp_path / "run", quiet=True)
