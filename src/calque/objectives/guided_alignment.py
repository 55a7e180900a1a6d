"""Guided alignment: attention learns where to look from given alignments. Letters: B sentences, S source, T target."""

import torch
from pydantic import Field
from torch import Tensor

from calque.config import Config


class GuidanceConfig(Config):
    """The cross-entropy of attention against given alignments (Chen et al. 2016) of training corpora."""

    weight: float = Field(default=0.0, ge=0)
    """How much it counts beside the loss of words; 0 leaves it out."""
    half_life: int = Field(default=0, ge=0)
    """Steps after which it counts half as much, and so on; 0: it always counts the same."""


def guidance_weight(config: GuidanceConfig, *, step: int) -> float:
    """How much guidance counts at a step."""
    return config.weight * 0.5 ** (step / config.half_life) if config.half_life else config.weight


def guidance_loss(attention: Tensor, guide: Tensor) -> Tensor:
    """−Σₜ Σₛ A[t,s] log a[t,s] of attention a [B,T,S] and aligned shares A [B,T,S], whose rows add up to 1 or are 0.

    A word without alignment costs nothing. Where local attention does not reach, a is 0 and counts as the least number.
    """
    tiny = torch.finfo(attention.dtype).tiny
    return -(guide.to(attention.dtype) * attention.clamp(min=tiny).log()).sum()
