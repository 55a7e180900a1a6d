"""The inputs of speech encoders: recordings → log-mel features → convolutions that subsample them in time.

Letters: B recordings, W samples, F frames, M bands, C channels, S positions, E width.
"""

from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Width
from calque.layers.dropout import dropout
from calque.layers.log_mel import LogMel, Normalise, smooth_spectra
from calque.layers.perturbation import PerturbationConfig, add_noise, equalise, random_warps
from calque.layers.spec_augment import SpecAugmentConfig, spec_augment
from calque.models.interfaces import Inputs
from calque.tensors import Padded

NormaliseOver = Literal["utterance", "global", "peak", "none"]


class SubsamplingConfig(Config):
    """Convolutions over time and frequency before the encoder; each halves the number of frames."""

    layers: int = Field(default=2, ge=0, le=4)
    """Number of 3 × 3 convolutions with stride 2, each of which halves the number of frames (10 ms each)."""
    channels: Width = 32
    """Channels of the convolutions."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on the vectors that the encoder reads."""

    @property
    def factor(self) -> int:
        """The number of frames per encoder position."""
        return 1 << self.layers


class SpeechInputs(Inputs):
    """Computes the vectors that a speech encoder reads. Law: padding after the end of a recording affects nothing.

    x = layer norm(W conv(… conv(normalised log-mel features)) + b), with smoothed spectra if `cepstrum` is not 0; in
    training, recordings are perturbed and their features masked by SpecAugment.
    Without the layer norm, the small initial outputs of the convolutions keep CTC predicting blanks for longer.
    """

    def __init__(
        self,
        rate: int,
        *,
        bands: int,
        normalise: NormaliseOver,
        dynamic_range: float,
        cepstrum: int,
        augmentation: SpecAugmentConfig,
        perturbation: PerturbationConfig,
        subsampling: SubsamplingConfig,
        width: int,
    ) -> None:
        super().__init__()
        self.log_mel = LogMel(rate, bands=bands)
        self.normalise = Normalise(bands, over=normalise, dynamic_range=dynamic_range)
        self.cepstrum = cepstrum
        self.augmentation = augmentation
        self.perturbation = perturbation
        channels = [1, *[subsampling.channels] * subsampling.layers]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1) for before, after in pairwise(channels)
        )
        height = -(-bands // subsampling.factor)
        self.linear = nn.Linear(channels[-1] * height, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = subsampling.dropout
        self.width = width

    def features(self, audio: Padded) -> Padded:
        """The normalised features [B,F,M] of recordings [B,W], 0 after the end; perturbed in training."""
        device = audio.values.device
        non_empty = Padded(audio.values, audio.lengths.clamp(min=1), audio.device_lengths.clamp(min=1))
        dtype = torch.float64 if self.norm.weight.dtype == torch.float64 else torch.float32
        warps = None
        if self.training and self.perturbation.vocal_tract:
            warps = random_warps(len(audio.values), strength=self.perturbation.vocal_tract, device=device)
        if self.training and self.perturbation.noise:
            non_empty = add_noise(non_empty, self.perturbation.noise, dtype=dtype)
        frames: Padded = self.log_mel(non_empty, dtype=dtype, warps=warps)
        frames = frames._replace(placed_lengths=self.log_mel.frames(non_empty.device_lengths))
        if self.training and self.perturbation.equaliser:
            frames = frames._replace(values=equalise(frames.values, strength=self.perturbation.equaliser))
        return frames._replace(values=self.normalise(frames._replace(values=self.smoothed(frames.values))))

    def smoothed(self, features: Tensor) -> Tensor:
        """The log-mel features [B,F,M] with smoothed spectra, unless `cepstrum` is 0."""
        return smooth_spectra(features, coefficients=self.cepstrum) if self.cepstrum else features

    def forward(self, source: Padded) -> Padded:
        """Vectors [B,S,E], given recordings [B,W]."""
        frames = self.features(source)
        values = frames.values
        if self.training:
            values = spec_augment(frames, self.augmentation, fill=self.normalise.mean_of(frames))
        values = values.to(self.norm.weight.dtype)[:, None]  # [B,C,F,M]; a linear layer in 8 bits has another type
        lengths, device_lengths = frames.lengths, frames.device_lengths
        for convolution in self.convolutions:
            values = F.relu(convolution(values))
            lengths, device_lengths = (-(-part // 2) for part in (lengths, device_lengths))
            values = values * _inside(device_lengths, values)  # as if the recording were followed by silence
        vectors: Tensor = self.norm(self.linear(values.transpose(1, 2).flatten(2)))
        return Padded(dropout(vectors, self.dropout, self.training), lengths, device_lengths)

    def positions(self, samples: Tensor) -> Tensor:
        """The number of positions [B] of recordings with these numbers of samples; computed on the CPU."""
        lengths = self.log_mel.frames(samples.clamp(min=1))
        for _ in self.convolutions:
            lengths = -(-lengths // 2)
        return lengths


def _inside(lengths: Tensor, values: Tensor) -> Tensor:
    places = torch.arange(values.shape[2], device=values.device)[None]
    return (places < lengths[:, None])[:, None, :, None].to(values.dtype)
