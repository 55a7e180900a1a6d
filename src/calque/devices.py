"""Where a model computes, and how finely."""

import platform
from typing import Literal, get_args

import torch

from calque.errors import ConfigError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
PrecisionName = Literal["float32", "bfloat16", "float64"]
DEVICES: tuple[DeviceName, ...] = get_args(DeviceName)
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)


def choose_device(name: DeviceName) -> torch.device:
    """The device of that name; auto takes the best there is."""
    if (name == "cuda" and not torch.cuda.is_available()) or (name == "mps" and not torch.backends.mps.is_available()):
        raise ConfigError(f"device: this machine or this build of torch has no {name}; use auto or cpu")
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(best if name == "auto" else name)
    if device.type == "cuda":  # cuDNN's attention plans anew for every shape, half a second each; others need no plan
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def choose_precision(name: PrecisionName, *, device: torch.device) -> torch.dtype:
    """The type of that name, in which a device can compute; probabilities are normalised in float32 at least."""
    if name == "float64" and device.type == "mps":
        raise ConfigError("precision: mps has no float64; use float32, or device cpu")
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}[name]


def machine(device: str) -> str:
    """The kind of machine: what its arithmetic depends on."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
