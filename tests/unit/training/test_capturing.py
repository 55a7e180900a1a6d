"""What is captured as CUDA graphs, as far as it can be seen without a GPU; tests/gpu has the rest."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.conftest import FAMILIES

from calque.data.pair_batch import PairBatch
from calque.data.subword_regularisation import FixedConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.objectives.objective import ObjectiveConfig
from calque.tasks.translation import Translation
from calque.tensors import Padded
from calque.training.capturing import hidden, map_tensors, tensors_on
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
    "R-Drop": ("luong", {"method": {"kind": "r-drop"}}, {}, False),
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


@pytest.mark.parametrize(
    ("changes", "is_captured"),
    [
        ({}, True),
        ({"precision": "bfloat16"}, True),
        ({"precision": "float16"}, False),  # the scale of its loss changes from step to step
        ({"compile": False}, False),
        ({"arithmetic": 2}, False),  # its LSTMs pack rows on the host
    ],
)
def test_only_compiled_runs_on_a_gpu_are_captured(
    changes: dict[str, Any], is_captured: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainingConfig.model_validate({"compile": True, **changes})
    splits = MemorySplits(tmp_path / "history.jsonl")
    task = translation({})
    updater = Updater(model_of("luong"), task=task, config=config, seed=1, ranks=Ranks(), splits=splits)
    assert updater.captured is None
    updater.device = torch.device("cuda")
    assert updater._is_captured() == is_captured
    monkeypatch.delattr(Translation, "capturable")
    assert not updater._is_captured()
