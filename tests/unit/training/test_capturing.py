"""What is captured as CUDA graphs, as far as it can be seen without a GPU; tests/gpu has the rest."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.conftest import FAMILIES

from calque.data.pair_batch import PairBatch
from calque.data.subword_regularisation import FixedConfig
from calque.models.captioner import CaptionerConfig, CaptionerModel
from calque.models.model import Model, ModelConfig, Sizes
from calque.objectives.objective import ObjectiveConfig
from calque.tasks.captioning import Captioning, CaptioningConfig
from calque.tasks.translation import Translation
from calque.tensors import Padded
from calque.training import capturing
from calque.training.capturing import CapturedPasses, hidden, map_tensors, tensors_on
from calque.training.distributed import Ranks
from calque.training.settings import TrainingConfig
from calque.training.update import MemorySplits, Updater

CPU = torch.device("cpu")


def batch() -> PairBatch:
    ids = torch.arange(6).view(2, 3)
    return PairBatch(Padded(ids, torch.tensor([3, 2]), torch.tensor([3, 2])), ids, ids + 1, torch.tensor([3, 1]), 4, 4)


def test_the_tensors_of_a_batch_are_found_in_order() -> None:
    found = tensors_on(batch(), CPU)
    assert [tuple(tensor.shape) for tensor in found] == [(2, 3), (2,), (2,), (2, 3), (2, 3), (2,)]
    assert tensors_on(batch(), torch.device("meta")) == []


def test_a_batch_is_mapped_whole() -> None:
    mapped = map_tensors(batch(), lambda tensor: tensor + 1)
    assert isinstance(mapped, PairBatch) and isinstance(mapped.source, Padded)
    assert torch.equal(mapped.source.values, batch().source.values + 1)
    assert (mapped.weight, mapped.guide) == (4, None)


def test_hidden_values_cannot_be_read() -> None:
    """So a pass that reads lengths on the host is found out when it is captured."""
    lengths = hidden(batch().source.lengths)
    assert lengths.shape == (2,)
    with pytest.raises(RuntimeError):
        lengths.sum().item()
    with pytest.raises((RuntimeError, NotImplementedError)):
        lengths.to(CPU)


def test_masks_read_the_lengths_on_the_device() -> None:
    source = batch().source._replace(lengths=hidden(batch().source.lengths))
    assert torch.equal(source.mask, torch.tensor([[True, True, True], [True, True, False]]))


# --- Which losses can be captured ---

CAPTURED: dict[str, tuple[str, dict[str, Any], dict[str, Any], bool]] = {
    "a recurrent model": ("luong", {}, {}, True),
    "a Transformer": ("transformer", {}, {}, True),
    "scheduled sampling": ("luong", {"method": {"kind": "scheduled-sampling"}}, {}, False),
    "R-Drop": ("luong", {"method": {"kind": "r-drop"}}, {}, True),
    "guided alignment": ("luong", {"guidance": {"weight": 0.1}}, {}, False),
    "word dropout": ("luong", {"word_dropout": {"target": 0.1}}, {}, False),
    "a sampled softmax": ("luong", {}, {"output": {"kind": "sampled", "samples": 3}}, False),
}


def translation(objective: dict[str, Any]) -> Translation:
    tokenizers: Any = SimpleNamespace(source=None, target=None)
    config = ObjectiveConfig.model_validate(objective)
    return Translation(config, smoothing=0.1, tokenizers=tokenizers, subwords=FixedConfig())


def model_of(family: str, **changes: Any) -> Model:
    config = ModelConfig.model_validate({**FAMILIES[family], **changes})
    return Model(config, sizes=Sizes(20, 20, joint=True))


@pytest.mark.parametrize("name", CAPTURED)
def test_losses_that_need_the_host_or_the_step_are_not_captured(name: str) -> None:
    family, objective, changes, is_captured = CAPTURED[name]
    assert translation(objective).capturable(model_of(family, **changes)) == is_captured


def test_hard_attention_is_not_captured() -> None:
    decoder = {**FAMILIES["luong"]["decoder"], "attention": {"choice": "hard"}}
    assert not translation({}).capturable(model_of("luong", decoder=decoder))


def captioner(choice: str) -> CaptionerModel:
    decoder = {"kind": "bahdanau", "cell": "lstm", "bridge": "tanh", "width": 8, "attention": {"choice": choice}}
    return CaptionerModel(CaptionerConfig.model_validate({"decoder": decoder}), vocabulary_size=20)


@pytest.mark.parametrize(("choice", "is_captured"), [("soft", True), ("hard", False)])
def test_captioners_are_captured_unless_their_attention_is_hard(choice: str, is_captured: bool) -> None:
    assert Captioning(CaptioningConfig(), positions=64).capturable(captioner(choice)) == is_captured


@pytest.mark.parametrize("setting", ["compile", "capture"])
@pytest.mark.parametrize(
    ("changes", "is_captured"),
    [
        ({}, True),
        ({"precision": "bfloat16"}, True),
        ({"precision": "float16"}, False),  # the scale of its loss changes from step to step
        ({"compile": False, "capture": False}, False),
        ({"arithmetic": 2}, False),  # its LSTMs pack rows on the host
        ({"subwords": {"kind": "bpe-dropout"}}, False),  # no two batches have the same shape
    ],
)
def test_runs_on_a_gpu_are_captured_if_asked_to(
    setting: str, changes: dict[str, Any], is_captured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainingConfig.model_validate({setting: True, **changes})
    assert config.compiles == (setting == "compile" and config.captures)
    splits = MemorySplits(tmp_path / "history.jsonl")
    task = translation({})
    updater = Updater(model_of("luong"), task=task, config=config, seed=1, ranks=Ranks(), splits=splits)
    assert updater.captured is None
    updater.device = torch.device("cuda")
    assert updater._is_captured() == is_captured
    monkeypatch.delattr(Translation, "capturable")
    assert not updater._is_captured()


def test_capturing_needs_static_shapes() -> None:
    with pytest.raises(ValueError, match=r'capture needs batch.shapes = "static"'):
        TrainingConfig.model_validate({"capture": True, "batch": {"shapes": "exact"}})


# --- Steps of captured passes, with graphs that only remember what they consist of ---


class Graph:
    """A CUDA graph for a CPU: it does again what it recorded."""

    recording: "Graph | None" = None

    def __init__(self) -> None:
        self.replay: Any = None


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    made: list[Graph] = []

    @contextmanager
    def graph(one: Graph, **_: Any) -> Iterator[None]:
        Graph.recording = one
        try:
            yield
        finally:
            Graph.recording = None
        made.append(one)

    record = CapturedPasses._record

    def recorded(self: CapturedPasses, static: Any) -> None:
        def replay() -> None:
            record(self, static)
            self._place_gradients()  # a graph knows nothing of Python's attributes

        assert Graph.recording is not None
        Graph.recording.replay = replay  # nothing is computed while a graph is captured

    stream = SimpleNamespace(wait_stream=lambda _: None)
    generator = SimpleNamespace(
        initial_seed=lambda: 1, get_offset=lambda: 0, manual_seed=lambda _: None, set_offset=lambda _: None
    )
    fakes = {
        "Stream": lambda _: stream,
        "current_stream": lambda _: stream,
        "stream": nullcontext,
        "graph": graph,
        "CUDAGraph": Graph,
        "graph_pool_handle": lambda: None,
        "default_generators": (generator,),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(CapturedPasses, "_record", recorded)
    monkeypatch.setattr(capturing, "waits_refused", nullcontext)
    return made


def updater_of(family: str, folder: Path, *, captured: bool) -> Updater:
    torch.manual_seed(1)
    config = TrainingConfig.model_validate({"compile": True, "optimiser": {"kind": "sgd", "learning_rate": 0.1}})
    splits = MemorySplits(folder / "history.jsonl")
    updater = Updater(
        model_of(family).double().train(), task=translation({}), config=config, seed=1, ranks=Ranks(), splits=splits
    )
    for layer in updater.model.modules():  # a replay on a CPU would draw other numbers
        if hasattr(layer, "dropout"):
            layer.dropout = 0.0
        if hasattr(layer, "config"):
            layer.config = layer.config.model_copy(update={"dropout": 0.0})
    updater.captured = updater._captured_passes() if captured else None
    return updater


def random_batch(rows: int, size: int, *, seed: int) -> PairBatch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 20, (rows, size), generator=generator)
    lengths = torch.randint(1, size + 1, (rows,), generator=generator)
    outputs = ids.masked_fill(torch.arange(size) >= lengths[:, None], 0)
    weight = int(lengths.sum())
    return PairBatch(Padded(ids, lengths, lengths), ids, outputs, lengths, weight, weight)


def perform(updater: Updater) -> list[torch.Tensor]:
    for step, sizes in enumerate(([5], [7], [5, 7], [7, 5], [5, 5]), start=1):
        batches = [random_batch(3, size, seed=10 * step + number) for number, size in enumerate(sizes)]
        updater.update(batches, step=step, rate=0.1)
    return [*updater.model.parameters(), updater.sums.objective, updater.sums.norm]


@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_captured_steps_are_the_steps(family: str, graphs: list[Graph], tmp_path: Path) -> None:
    """Single and accumulated batches of two shapes, of which each is captured once."""
    captured = updater_of(family, tmp_path, captured=True)
    results = perform(captured)
    assert captured.captured is not None and captured.captured.failure is None
    assert len(captured.captured) == len(graphs) == 2
    torch.testing.assert_close(results, perform(updater_of(family, tmp_path, captured=False)), rtol=1e-9, atol=1e-9)


def test_weights_that_have_moved_are_captured_anew(graphs: list[Graph], tmp_path: Path) -> None:
    """A graph would read their old addresses. `nn.LSTM.to` moves weights even if the device stays the same."""
    captured = updater_of("luong", tmp_path, captured=True)
    perform(captured)
    for parameter in captured.trained:
        parameter.data = parameter.data.clone()
    perform(captured)
    assert captured.captured is not None and len(captured.captured) == 2
    assert len(graphs) == 4


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("trouble", ["it cannot be captured", "it draws on the host"])
def test_steps_that_cannot_be_captured_are_the_steps_too(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second shape on, nothing is captured any more."""
    captured = updater_of("luong", tmp_path, captured=True)
    forward = Updater._forward

    def failing(self: Updater, batch: PairBatch, **options: Any) -> Any:
        if self is captured and batch.target_input.shape[1] == 7:
            if trouble == "it draws on the host":
                torch.rand(1)
            elif options["step"] == 0:  # of a pass that is captured
                raise RuntimeError("operation not permitted when stream is capturing\nmore about it")
        return forward(self, batch, **options)

    monkeypatch.setattr(Updater, "_forward", failing)
    results = perform(captured)
    assert captured.captured is not None and len(captured.captured) == 0
    assert captured.captured.failure in (
        "operation not permitted when stream is capturing",
        "the model draws random numbers on the CPU",
    )
    torch.testing.assert_close(results, perform(updater_of("luong", tmp_path, captured=False)), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("graphs")
def test_beyond_the_largest_number_of_graphs_passes_run_uncaptured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "GRAPHS", 1)
    captured = updater_of("luong", tmp_path, captured=True)
    results = perform(captured)
    assert captured.captured is not None and len(captured.captured) == 1
    torch.testing.assert_close(results, perform(updater_of("luong", tmp_path, captured=False)), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("graphs")
def test_parameters_without_a_gradient_get_none(tmp_path: Path) -> None:
    """An optimiser would otherwise change them, for example by weight decay."""
    captured = updater_of("luong", tmp_path, captured=True)
    assert captured.captured is not None
    unused = torch.nn.Parameter(torch.ones(3))
    captured.captured._parameters = [*captured.captured._parameters, unused]
    perform(captured)
    captured.captured.begin()
    assert unused.grad is None
    assert all(parameter.grad is not None for parameter in captured.trained)


@pytest.mark.usefixtures("graphs")
def test_memory_that_runs_out_in_a_capture_splits_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = updater_of("luong", tmp_path, captured=True)
    forward, failures = Updater._forward, []

    def failing(self: Updater, batch: PairBatch, **options: Any) -> Any:
        if self is captured and not failures:
            failures.append(batch.rows)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, batch, **options)

    monkeypatch.setattr(Updater, "_forward", failing)
    results = perform(captured)
    assert failures == [3] and captured.splits.parts(1) == 2
    assert captured.captured is not None and captured.captured.failure is None
    torch.testing.assert_close(results, perform(updater_of("luong", tmp_path / "other", captured=False)))
