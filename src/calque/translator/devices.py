"""Where a model computes."""

from typing import Literal

import torch

from calque.errors import ConfigError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]


def choose_device(name: DeviceName) -> torch.device:
    """The device of that name; auto takes the best there is."""
    if (name == "cuda" and not torch.cuda.is_available()) or (name == "mps" and not torch.backends.mps.is_available()):
        raise ConfigError(f"device: this machine or this build of torch has no {name}; use auto or cpu")
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
