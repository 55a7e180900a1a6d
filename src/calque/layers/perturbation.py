"""Other voices and other rooms: in training, the sound of each recording is changed before its features are computed.

Letters: B recordings, W samples.
"""

from typing import Annotated

import torch
from pydantic import Field, field_validator
from torch import Tensor

from calque.config import Config
from calque.tensors import Padded

Ratio = Annotated[float, Field(ge=-20, le=100)]


class PerturbationConfig(Config):
    """How recordings are changed in training. Speeds are set in `task.speeds`."""

    vocal_tract: float = Field(default=0.0, ge=0, le=0.5)
    """Vocal tract length perturbation (Jaitly and Hinton 2013): the frequencies of a recording are scaled by a factor
    drawn between 1 − v and 1 + v; 0 turns it off."""
    noise: tuple[Ratio, Ratio] | None = None
    """Noise is added at a signal-to-noise ratio drawn between these bounds, in dB, such as [5, 50]; off by default."""

    @field_validator("noise")
    @classmethod
    def _ordered(cls, noise: tuple[float, float] | None) -> tuple[float, float] | None:
        if noise is not None and noise[0] > noise[1]:
            raise ValueError(f"noise is {list(noise)}: the first bound must not be above the second")
        return noise


def random_warps(rows: int, *, strength: float, device: torch.device) -> Tensor:
    """Factors α [B], uniform between 1 − strength and 1 + strength, from torch's generator."""
    return 1 + strength * (2 * torch.rand(rows, device=device) - 1)


def add_noise(audio: Padded, bounds: tuple[float, float], *, dtype: torch.dtype = torch.float32) -> Padded:
    """The recordings [B,W] with noise; samples are not rounded to integers again.

    The noise is wₜ + c wₜ₋₁ for white Gaussian noise w. Its colour c is uniform between −1 (treble) and 1 (bass), its
    signal-to-noise ratio in dB uniform between the bounds. All are drawn from torch's generator.
    """
    values = audio.values.to(dtype)
    rows, size = values.shape
    low, high = bounds
    draws = torch.rand(2, rows, 1, device=values.device, dtype=dtype)
    colour, ratio = 2 * draws[0] - 1, low + (high - low) * draws[1]
    white = torch.randn(rows, size + 1, device=values.device, dtype=dtype)
    noise = (white[:, 1:] + colour * white[:, :-1]) / (1 + colour.square()).sqrt()  # of variance 1
    counts = audio.device_lengths.clamp(min=1).to(dtype)[:, None]
    power = values.masked_fill(~audio.mask, 0).square().sum(dim=1, keepdim=True) / counts
    return audio._replace(values=values + noise * (power * 10 ** (-ratio / 10)).sqrt())
