"""Guided alignment: attention is trained on word alignments. Letters: B sentences, S source, T target."""

import torch
from pydantic import Field
from torch import Tensor

from calque.config import Config


class GuidanceConfig(Config):
    """The cross-entropy of attention against the word alignments of training corpora (Chen et al. 2016)."""

    weight: float = Field(default=0.0, ge=0)
    """Weight of this term in the objective; 0 turns guided alignment off."""
    half_life: int = Field(default=0, ge=0)
    """Half-life of the weight in training steps; 0 keeps the weight constant."""


def guidance_weight(config: GuidanceConfig, *, step: int) -> float:
    """The weight of guided alignment at a training step."""
    return config.weight * 0.5 ** (step / config.half_life) if config.half_life else config.weight


def guidance_loss(attention: Tensor, guide: Tensor) -> Tensor:
    """−Σₜ Σₛ A[t,s] log a[t,s] of attention a [B,T,S] and alignments A [B,T,S], whose rows sum to 1 or are 0.

    A target word without alignment adds no loss. Outside the window of local attention, a is 0 and is replaced by the
    smallest normal number.
    """
    tiny = torch.finfo(attention.dtype).tiny
    return -(guide.to(attention.dtype) * attention.clamp(min=tiny).log()).sum()
