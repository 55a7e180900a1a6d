"""SpecAugment (Park et al. 2019): blocks of frequencies and of time are masked in training.

Letters: B recordings, F frames, M bands.
"""

import torch
from pydantic import Field
from torch import Tensor

from calque.config import Config
from calque.tensors import Padded


class SpecAugmentConfig(Config):
    """Masks over features in training; a mask covers a random number of neighbouring bands or frames."""

    frequency_masks: int = Field(default=2, ge=0, le=16)
    """Number of masks over bands per recording; 0 turns them off."""
    frequency_width: int = Field(default=15, ge=1)
    """The largest number of bands that a mask covers."""
    time_masks: int = Field(default=2, ge=0, le=64)
    """Number of masks over frames per recording; 0 turns them off."""
    time_width: int = Field(default=20, ge=1)
    """The largest number of frames (10 ms each) that a mask covers."""
    time_share: float = Field(default=0.2, gt=0, le=1)
    """A mask covers at most this share of a recording."""


def spec_augment(features: Padded, config: SpecAugmentConfig, *, fill: Tensor | None = None) -> Tensor:
    """The features [B,F,M], replaced by their mean wherever a random mask covers them.

    `fill` [B,1,M] is that mean, by default 0, the mean of normalised features (Park et al. 2019, §2). The masks are
    drawn from torch's generator.
    """
    values = features.values
    inside = features.mask[..., None]
    filling = torch.zeros_like(values[:, :1]) if fill is None else fill
    lengths = features.device_lengths
    bands = torch.full_like(lengths, values.shape[2])
    most = (lengths * config.time_share).long().clamp(max=config.time_width)
    for _ in range(config.frequency_masks):
        mask = _random_block(bands, bands.clamp(max=config.frequency_width), size=values.shape[2])
        values = torch.where(mask[:, None, :] & inside, filling, values)
    for _ in range(config.time_masks):
        mask = _random_block(lengths, most, size=values.shape[1])
        values = torch.where(mask[:, :, None] & inside, filling, values)
    return values


def _random_block(lengths: Tensor, most: Tensor, *, size: int) -> Tensor:
    """A mask [B,size], true in a random block of each row: 0 to `most` [B] positions within the first `lengths` [B]."""
    draws = torch.rand(2, len(lengths), device=lengths.device)
    width = (draws[0] * (most + 1)).long()
    start = (draws[1] * (lengths - width + 1)).long()
    places = torch.arange(size, device=lengths.device)[None]
    return (places >= start[:, None]) & (places < (start + width)[:, None])
