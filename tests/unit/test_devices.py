"""Selecting devices by name."""

import platform
import subprocess
import sys

import pytest
import torch

from calque.devices import multiplies_bfloat16
from calque.engine import choose_device
from calque.errors import ConfigError


def test_auto_selects_the_best_available_device(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = []
    for cuda, mps in ((True, True), (False, True), (False, False)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        devices.append(choose_device("auto").type)
    torch.backends.cuda.enable_cudnn_sdp(True)
    assert devices == ["cuda", "mps", "cpu"]


def test_an_unavailable_device_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"cuda is not available .*; use auto or cpu"):
        choose_device("cuda")
    assert choose_device("cpu").type == "cpu"


def test_cudnn_attention_is_disabled_only_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    try:
        choose_device("cpu")
        assert torch.backends.cuda.cudnn_sdp_enabled()
        choose_device("auto")
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize(("bf16", "amx"), [(True, False), (False, True), (False, False)])
def test_bfloat16_needs_instructions_of_its_own(bf16: bool, amx: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert multiplies_bfloat16() is (bf16 or amx)


@pytest.mark.parametrize("before", ["pass", "gc.disable()", "gc.freeze()"])
def test_importing_torch_leaves_the_garbage_collector_as_it_was(before: str) -> None:
    state = "gc.isenabled(), gc.get_freeze_count() > 1000"
    code = f"import gc; {before}; state = {state}; import calque.devices; assert ({state}) == state; print(state)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"({before != 'gc.disable()'}, {before == 'gc.freeze()'})"


def test_objects_of_torch_are_not_searched_for_garbage_while_modules_are_imported() -> None:
    young = "sum(len(gc.get_objects(generation=number)) for number in (0, 1))"
    code = f"import gc; import calque.devices; young = {young}; print(young, len(gc.get_objects()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    young, all_objects = map(int, done.stdout.split())
    assert young < 10_000 < 100_000 < all_objects
