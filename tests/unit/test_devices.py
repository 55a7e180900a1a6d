"""Devices and precisions by name."""

import pytest
import torch

from calque.engine import choose_device
from calque.errors import ConfigError


def test_auto_takes_the_best_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for cuda, mps in ((True, True), (False, True), (False, False)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        found.append(choose_device("auto").type)
    torch.backends.cuda.enable_cudnn_sdp(True)
    assert found == ["cuda", "mps", "cpu"]


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="has no cuda; use auto or cpu"):
        choose_device("cuda")
    assert choose_device("cpu").type == "cpu"


def test_attention_that_plans_for_every_shape_is_off_on_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    try:
        choose_device("cpu")
        assert torch.backends.cuda.cudnn_sdp_enabled()
        choose_device("auto")
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
