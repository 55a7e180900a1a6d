"""Compiled runs learn what plain ones do, can be resumed exactly, and save an ordinary model."""

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
from torch import nn

from calque.engine import load
from calque.errors import ConfigError, Interrupted
from calque.experiment import resume, train
from calque.layers.multihead import MultiHead, RelativeMultiHead
from calque.training import learner
from calque.training.compiling import (
    NOT_CAPTURABLE,
    UNCAPTURED,
    UNCOMPILED,
    compile_model,
    keep_compiled,
    tune_attention,
)
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from calque.training.settings import TrainingConfig
from calque.training.update import Updater

pytestmark = pytest.mark.usefixtures("unplotted")

STATIC = ("training.batch.shapes=static", "training.accumulate=1", "training.log_every=1", "training.average=0")
SHORT = ("training.steps=6", "training.validate_every=3", "training.checkpoint_every=3")


def without_dropout(corpus: dict[str, Path], *settings: str) -> Values:
    """A Transformer without dropout, whose random numbers differ when compiled."""
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
    """Starts a run that is interrupted after its fourth step."""

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
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when it imports its compiler
def test_a_compiled_run_learns_what_a_plain_one_does_and_resumes_exactly(
    tmp_path: Path, interrupted: Callable[[Values, Path], None]
) -> None:
    """With the default backend. All sentences have one length, since compiling a graph takes many seconds."""
    corpus = toy_corpus(tmp_path, pairs=60, longest=2)
    compiled = without_dropout(corpus, "training.compile=true")
    plain = train(without_dropout(corpus), run=tmp_path / "plain", quiet=True).folder
    uninterrupted = train(compiled, run=tmp_path / "whole", quiet=True).folder
    assert losses(uninterrupted) == pytest.approx(losses(plain), abs=1e-5)
    assert len(losses(uninterrupted)) == 6 + 2

    written = load_file(uninterrupted / "model" / "weights.safetensors")
    assert list(written) == list(load_file(plain / "model" / "weights.safetensors"))
    translator = load(uninterrupted, device="cpu")
    assert translator.model._compiled_call_impl is None
    assert translator.translate(["a b"])

    interrupted(compiled, tmp_path / "stopped")
    assert losses(tmp_path / "stopped") == losses(uninterrupted)[: 4 + 1]
    resume(tmp_path / "stopped", quiet=True)
    assert digests(tmp_path / "stopped") == digests(uninterrupted)


@pytest.mark.full
def test_every_shape_has_one_graph_with_any_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: Callable[[Values, Path], None]
) -> None:
    """With the graphs of the default backend but eager kernels, so that many shapes take seconds."""
    monkeypatch.setattr(learner, "compile_model", partial(compile_model, backend="aot_eager"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    values = toy_values(toy_corpus(tmp_path), "transformer", *STATIC, *SHORT, "training.compile=true")
    uninterrupted = train(values, run=tmp_path / "whole", quiet=True).folder
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert 2 <= graphs <= 6  # at most one per step
    assert not torch._dynamo.utils.counters["graph_break"]
    interrupted(values, tmp_path / "stopped")
    resume(tmp_path / "stopped", quiet=True)
    assert digests(tmp_path / "stopped") == digests(uninterrupted)


@pytest.mark.parametrize("times", [1, 2])
def test_a_compiler_that_failed_once_is_retried(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C also reaches the compiler. The step counts once; a second failure is raised."""
    monkeypatch.setattr(learner, "compile_model", lambda _model, **_options: None)  # failures are injected below
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "damaged"))
    values = toy_values(
        toy_corpus(tmp_path), "plain", *STATIC, *SHORT, "training.accumulate=2", "training.compile=true"
    )
    uninterrupted = train(values, run=tmp_path / "whole", quiet=True).folder
    gradient, calls = Updater._gradient, []

    def failing(self: Updater, *arguments: Any, **options: Any) -> Any:
        calls.append((options["step"], os.environ["TORCHINDUCTOR_CACHE_DIR"]))
        result = gradient(self, *arguments, **options)
        if 2 <= len(calls) < 2 + times:
            raise torch._dynamo.exc.BackendCompilerFailed(compile_model, RuntimeError("killed"), None)
        return result

    monkeypatch.setattr(Updater, "_gradient", failing)
    if times == 1:
        assert digests(train(values, run=tmp_path / "run", quiet=True).folder) == digests(uninterrupted)
    else:
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            train(values, run=tmp_path / "run", quiet=True)
    assert [step for step, _ in calls[:3]] == [1, 2, 2]
    assert calls[1][1] == str(tmp_path / "damaged") != calls[2][1]


def test_exact_shapes_are_refused(tmp_path: Path) -> None:
    values = toy_values(toy_corpus(tmp_path), "transformer", "training.compile=true", "training.batch.shapes=exact")
    with pytest.raises(ConfigError, match=r'compile needs batch.shapes = "static"'):
        train(values, run=tmp_path / "run", quiet=True)


def test_compiled_runs_have_static_shapes_by_themselves() -> None:
    config = TrainingConfig.model_validate({"compile": True, "batch": {"tokens": 100}})
    assert config.batch.shapes == "static" and config.batch.tokens == 100
    assert config.compiles
    assert TrainingConfig.model_validate(config.model_dump()) == config
    assert TrainingConfig.model_validate({}).batch.shapes == "exact"


VARYING = ("training.subwords.kind=bpe-dropout", "text.kind=sentencepiece", "text.algorithm=bpe")
TWO_STEPS = ("training.steps=2", "training.average=0")


@pytest.mark.parametrize(("setting", "notice"), [("compile", UNCOMPILED), ("capture", UNCAPTURED)])
def test_subwords_that_vary_are_neither_compiled_nor_captured(setting: str, notice: str, tmp_path: Path) -> None:
    """The run says so and trains; config.toml can be read again."""
    config = TrainingConfig.model_validate({setting: True, "subwords": {"kind": "bpe-dropout"}})
    assert config.batch.shapes == "exact" and not config.compiles and not config.captures
    assert TrainingConfig.model_validate(config.model_dump()) == config
    settings = (f"training.{setting}=true", *VARYING, "text.vocabulary_size=280", *TWO_STEPS)
    run = train(toy_values(toy_corpus(tmp_path), "plain", *settings), run=tmp_path / "run", quiet=True)
    assert notice in (run.folder / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("settings", "is_copied"), [(("training.capture=true",), True), ((), False)])
def test_captured_runs_validate_a_copy_of_the_model(
    settings: tuple[str, ...], is_copied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners: list[learner.Learner] = []
    step = learner.Learner.step

    def watched(self: learner.Learner, *arguments: Any, **options: Any) -> None:
        learners.append(self)
        step(self, *arguments, **options)

    monkeypatch.setattr(learner.Learner, "step", watched)
    train(toy_values(toy_corpus(tmp_path), "plain", *settings, *TWO_STEPS), run=tmp_path / "run", quiet=True)
    assert (learners[-1].judged is not learners[-1].model) == is_copied


def test_a_run_on_a_cpu_says_that_it_is_not_captured(tmp_path: Path) -> None:
    values = toy_values(toy_corpus(tmp_path), "plain", "training.capture=true", "training.device=cpu", *TWO_STEPS)
    run = train(values, run=tmp_path / "run", quiet=True)
    assert NOT_CAPTURABLE in (run.folder / "log.txt").read_text(encoding="utf-8")
    assert 'shapes = "static"' in (run.folder / "config.toml").read_text(encoding="utf-8")


# --- Where graphs are kept ---


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "to be restored")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")


@pytest.mark.usefixtures("unset")
def test_graphs_are_kept_where_only_the_user_may_write(tmp_path: Path) -> None:
    folder = keep_compiled({"XDG_CACHE_HOME": str(tmp_path)})
    assert folder == tmp_path / "calque" / "compiled"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(folder)
    folder.chmod(0o755)
    folder.parent.chmod(0o775)  # as with a umask of 002
    assert keep_compiled({"XDG_CACHE_HOME": str(tmp_path)}) == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o755
    folder.chmod(0o777)  # others may have written there
    assert keep_compiled({"XDG_CACHE_HOME": str(tmp_path)}) is None


@pytest.mark.usefixtures("unset")
def test_a_cache_folder_that_is_someone_elses_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert keep_compiled({"XDG_CACHE_HOME": str(tmp_path)}) is None
    assert not os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path / "calque"))


@pytest.mark.usefixtures("unset")
def test_a_link_or_a_file_in_its_place_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "calque").mkdir()
    (tmp_path / "calque" / "compiled").symlink_to(tmp_path)
    assert keep_compiled({"XDG_CACHE_HOME": str(tmp_path)}) is None
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != str(tmp_path / "calque" / "compiled")


def test_a_folder_named_by_the_environment_is_used(tmp_path: Path) -> None:
    chosen = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "own"), "XDG_CACHE_HOME": str(tmp_path)}
    assert keep_compiled(chosen) is None
    assert not (tmp_path / "calque").exists()


def test_only_attention_without_relative_positions_joins_gradients() -> None:
    layers = nn.ModuleList(
        [
            MultiHead(8, memory_width=8, heads=2, dropout=0.0),
            RelativeMultiHead(8, heads=2, dropout=0.0, reach=2),
        ]
    )
    for joins in (True, False):
        tune_attention(layers, joins_gradients=joins)
        assert [layer.joins_gradients for layer in layers] == [joins, False]
