"""Augmentation of speech: in training, recordings are changed to sound like other voices, rooms or microphones.

Formants lie at higher frequencies in a shorter vocal tract, so that a warped recording sounds like another speaker.

Letters: B recordings, W samples, F frames, M mel bands, Q frequencies of the spectrum, K coefficients.
"""

import math
from typing import Annotated

import torch
from pydantic import Field, field_validator
from torch import Tensor

from calque.config import Config
from calque.tensors import Padded

HIGHEST_FORMANT = 4800.0  # Hz; F_hi of Jaitly and Hinton 2013
SHARE = 0.85  # of the Nyquist frequency, above which F_hi does not lie
CURVES = 4  # K, the number of cosines that an equaliser's curve is made of

Ratio = Annotated[float, Field(ge=-20, le=100)]


class PerturbationConfig(Config):
    """How recordings are changed in training. Changes of speed are set separately, in `task.speeds`."""

    vocal_tract: float = Field(default=0.0, ge=0, le=0.5)
    """Vocal tract length perturbation (Jaitly and Hinton 2013): the frequencies of a recording are scaled by a factor
    drawn between 1 − v and 1 + v; 0 turns it off."""
    noise: tuple[Ratio, Ratio] | None = None
    """Noise is added at a signal-to-noise ratio drawn between these bounds, in dB, such as [5, 50]; off by default."""
    equaliser: float = Field(default=0.0, ge=0, le=40)
    """Another microphone: the bands of each recording are amplified by a random smooth curve with this deviation in dB;
    0 turns it off. A constant gain of bands has no effect if model.normalise = "utterance"."""

    @field_validator("noise")
    @classmethod
    def _ordered(cls, noise: tuple[float, float] | None) -> tuple[float, float] | None:
        if noise is not None and noise[0] > noise[1]:
            raise ValueError(f"noise is {list(noise)}: the first bound must not be above the second")
        return noise


def random_warps(rows: int, *, strength: float, device: torch.device) -> Tensor:
    """Factors α [B], uniform between 1 − strength and 1 + strength, from torch's generator."""
    return 1 + strength * (2 * torch.rand(rows, device=device) - 1)


def warp_frequencies(frequencies: Tensor, factors: Tensor, *, rate: int) -> Tensor:
    """The frequencies [...], in Hz, warped by each of the factors α [B]: [B,...] (Jaitly and Hinton 2013, §3).

    With the sampling rate S and the highest formant frequency F_hi (4800 Hz, at most 85 % of S/2), f' = α f up to the
    boundary b = F_hi min(α, 1) / α. Above b, f' is a line that ends at the Nyquist frequency S/2, which is not changed:
    f' = S/2 − (S/2 − α b) / (S/2 − b) · (S/2 − f).
    """
    nyquist = rate / 2
    factors = factors.reshape(-1, *[1] * frequencies.dim())
    image = min(HIGHEST_FORMANT, SHARE * nyquist) * factors.clamp(max=1)  # α b
    boundary = image / factors
    above = nyquist - (nyquist - image) / (nyquist - boundary) * (nyquist - frequencies)
    return torch.where(frequencies <= boundary, frequencies * factors, above)


def warped_filters(edges: Tensor, factors: Tensor, *, frequencies: Tensor, rate: int) -> Tensor:
    """Triangular filters [B,M,Q] whose edges [M+2] are warped by the factors [B], over a spectrum's frequencies [Q]."""
    warped = warp_frequencies(edges, factors, rate=rate)[..., None]  # [B,M+2,1]
    low, middle, high = warped[:, :-2], warped[:, 1:-1], warped[:, 2:]
    rising = (frequencies - low) / (middle - low)
    falling = (high - frequencies) / (high - middle)
    return torch.minimum(rising, falling).clamp(min=0)


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


def equalise(features: Tensor, *, strength: float) -> Tensor:
    """Log-mel features [B,F,M] whose bands a random smooth curve per recording amplifies or attenuates.

    The curve is Σₖ aₖ cos(π k (m + ½) / M) in band m, for k from 1 to K, where aₖ is Gaussian and its variance falls as
    1 / k. The first cosine tilts the spectrum; the others add finer and weaker ripples. The variance of the curve,
    averaged over bands, is `strength`², in dB². All aₖ are drawn from torch's generator.
    """
    rows, _, bands = features.shape
    orders = torch.arange(1, CURVES + 1, device=features.device, dtype=features.dtype)
    middles = (torch.arange(bands, device=features.device, dtype=features.dtype) + 0.5) / bands
    cosines = torch.cos(math.pi * orders[:, None] * middles)  # [K,M], each with a mean square of 1/2
    deviations = strength * (2 / orders / (1 / orders).sum()).sqrt()
    decibels = (torch.randn(rows, CURVES, device=features.device, dtype=features.dtype) * deviations) @ cosines
    return features + decibels[:, None] * (math.log(10) / 10)
