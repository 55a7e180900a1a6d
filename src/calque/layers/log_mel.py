"""Log-mel features of audio: the log of the power in triangular mel bands, for frames of 25 ms every 10 ms.

Letters: B recordings, W samples, F frames, M mel bands, Q frequencies of the spectrum, K cepstral coefficients.
"""

import math
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.perturbation import warped_filters
from calque.tensors import Padded, length_mask

FLOOR = 1e-10  # of the power in a band, before the logarithm
LOWEST = 20.0  # Hz, where the first band begins


def window_size(rate: int) -> int:
    """The number of samples in a frame of 25 ms."""
    return max(2, round(0.025 * rate))


def hop_size(rate: int) -> int:
    """The number of samples from the start of one frame to the start of the next, 10 ms later."""
    return max(1, round(0.010 * rate))


def transform_size(rate: int) -> int:
    """The size of the Fourier transform: the smallest power of two that covers 40 ms, so that no band is empty."""
    return 1 << (round(0.040 * rate) - 1).bit_length()


def spectrum_frequencies(rate: int) -> NDArray[np.float64]:
    """The frequencies [Q] of the spectrum, in Hz."""
    size = transform_size(rate)
    return np.arange(size // 2 + 1) * rate / size


def band_edges(rate: int, bands: int) -> NDArray[np.float64]:
    """The frequencies [M+2] at which bands begin, peak and end, in Hz."""
    edges: NDArray[np.float64] = 700 * (10 ** (np.linspace(_mel(LOWEST), _mel(rate / 2), bands + 2) / 2595) - 1)
    return edges


@lru_cache(maxsize=8)
def mel_filters(rate: int, bands: int) -> NDArray[np.float64]:
    """The triangular filters [M,Q] over the power spectrum, evenly spaced in mel = 2595 log₁₀(1 + f / 700).

    Band m rises from edge m to edge m + 1 and falls to edge m + 2 (O'Shaughnessy 1987; as in HTK).
    """
    frequencies, edges = spectrum_frequencies(rate), band_edges(rate, bands)
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    filters: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    return filters


def _mel(frequency: float) -> float:
    return 2595 * math.log10(1 + frequency / 700)


class Constants(NamedTuple):
    """The window of the short-time Fourier transform, the frequencies of its bins, and the mel filters over them."""

    window: Tensor
    filters: Tensor  # [M,Q]
    edges: Tensor  # [M+2], of the bands
    frequencies: Tensor  # [Q]


class LogMel(nn.Module):
    """The log-mel features of recordings at one sampling rate.

    Frame f covers the samples from f·hop on, under a Hann window; beyond the end of a recording there is silence. Law:
    neither padding nor other recordings affect the features.
    """

    def __init__(self, rate: int, *, bands: int) -> None:
        super().__init__()
        self.rate, self.bands = rate, bands
        self.window, self.hop, self.size = window_size(rate), hop_size(rate), transform_size(rate)
        self._constants: dict[tuple[torch.device, torch.dtype], Constants] = {}

    def frames(self, lengths: Tensor) -> Tensor:
        """The number of frames [B] of recordings with these numbers of samples; at least one."""
        return torch.div(lengths + self.hop - 1, self.hop, rounding_mode="floor").clamp(min=1)

    def forward(self, audio: Padded, *, dtype: torch.dtype = torch.float32, warps: Tensor | None = None) -> Padded:
        """The features [B,F,M] of recordings [B,W] in 16-bit integers; `warps` [B] scale the frequencies of bands."""
        device = audio.values.device
        window, filters, edges, frequencies = self._constants_on(device, dtype)
        if warps is not None:
            filters = warped_filters(edges, warps.to(dtype), frequencies=frequencies, rate=self.rate)
        samples = audio.values.to(dtype) / 32768
        samples = samples.masked_fill(~length_mask(audio.device_lengths, size=samples.shape[1]), 0)
        lengths = self.frames(audio.lengths)
        count = self._count(audio)
        before = (self.size - self.window) // 2  # torch.stft centres a shorter window in its transform
        needed = (count - 1) * self.hop + self.size
        padded = F.pad(samples, (before, max(0, needed - before - samples.shape[1])))[:, :needed]
        with torch.autocast(device.type, enabled=False):
            spectrum = torch.stft(
                padded, self.size, self.hop, self.window, window, center=False, return_complex=True
            )  # [B,Q,F]
            power = torch.view_as_real(spectrum).square().sum(dim=-1)
            features = torch.matmul(filters, power).clamp(min=FLOOR).log().transpose(1, 2)
        return Padded(features, lengths)

    def _count(self, audio: Padded) -> int:
        """The number of frames: in training, those of the padded width, and otherwise those of the longest recording.

        A captured training pass does not know the lengths on the host, and others must draw the same random numbers.
        """
        if self.training or audio.lengths.is_meta:
            return max(1, -(-audio.values.shape[1] // self.hop))
        return int(self.frames(audio.lengths).max())

    def _constants_on(self, device: torch.device, dtype: torch.dtype) -> Constants:
        """The Fourier window and the mel filters on a device: not buffers, which `model.to(bfloat16)` would round."""
        if (device, dtype) not in self._constants:
            window = torch.hann_window(self.window, periodic=False, dtype=torch.float64)
            filters = torch.from_numpy(mel_filters(self.rate, self.bands))
            edges = torch.from_numpy(band_edges(self.rate, self.bands))
            frequencies = torch.from_numpy(spectrum_frequencies(self.rate))
            self._constants[device, dtype] = Constants(
                *(constant.to(device, dtype) for constant in (window, filters, edges, frequencies))
            )
        return self._constants[device, dtype]


class Normalise(nn.Module):
    """Normalises the features of recordings: each band to mean 0 and variance 1, all bands by the peak, or not at all.

    Means and variances are those of each recording (utterance) or of the training data (global). The peak is the power
    P_max of a recording's loudest band and frame; normalised by the peak, features are
    max(0, log₁₀ P − log₁₀ P_max + r / 10) for a dynamic range of r dB. They depend neither on the level of a recording
    nor on noise that is more than r dB below the peak. Unlike normalisation of each recording's bands to mean 0, they
    preserve the mean spectrum, which is what identifies the vowel in a recording of a single vowel.
    """

    def __init__(self, bands: int, *, over: str, dynamic_range: float = 40.0) -> None:
        super().__init__()
        self.over = over  # utterance, global, peak or none
        self.dynamic_range = dynamic_range  # dB
        if over == "global":
            self.mean = nn.Parameter(torch.zeros(bands), requires_grad=False)  # saved with the weights
            self.deviation = nn.Parameter(torch.ones(bands), requires_grad=False)

    def forward(self, features: Padded) -> Tensor:
        """The normalised features [B,F,M], 0 beyond the end of each recording."""
        values, mask = features.values, features.mask[..., None]
        match self.over:
            case "utterance":
                counts = features.device_lengths.to(values.dtype)[:, None, None]
                mean = values.masked_fill(~mask, 0).sum(dim=1, keepdim=True) / counts
                centred = (values - mean).masked_fill(~mask, 0)
                variance = centred.square().sum(dim=1, keepdim=True) / counts
                return centred / (variance + 1e-5).sqrt()
            case "global":
                centred = (values - self.mean.to(values.dtype)) / self.deviation.to(values.dtype)
                return centred.masked_fill(~mask, 0)
            case "peak":
                peak = values.masked_fill(~mask, -math.inf).amax(dim=(1, 2), keepdim=True)
                bels = (values - peak) / math.log(10) + self.dynamic_range / 10
                return bels.clamp(min=0).masked_fill(~mask, 0)
            case _:
                return values.masked_fill(~mask, 0)

    def mean_of(self, features: Padded) -> Tensor | None:
        """The mean [B,1,M] of each recording's normalised features; None if these are normalised to mean 0."""
        if self.over in ("utterance", "global"):
            return None
        counts = features.device_lengths.to(features.values.dtype)[:, None, None]
        return features.values.masked_fill(~features.mask[..., None], 0).sum(dim=1, keepdim=True) / counts

    @torch.no_grad()
    def learn(self, mean: Tensor, deviation: Tensor) -> None:
        """Sets the mean and standard deviation of the training data, if features are normalised by them."""
        if self.over == "global":
            self.mean.copy_(mean)
            self.deviation.copy_(deviation.clamp(min=1e-3))


def smooth_spectra(features: Tensor, *, coefficients: int) -> Tensor:
    """The features [B,F,M] rebuilt from the first K coefficients of each frame's discrete cosine transform.

    These are the coefficients that MFCCs consist of (Davis and Mermelstein 1980). They follow formants, but not the
    harmonics of a voice, which narrow bands resolve. The result is C Cᵀ x for a frame x [M], where the
    columns of C [M,K] are orthonormal: cₖ(m) ∝ cos(π k (m + ½) / M).
    """
    matrix = _smoothing(features.shape[-1], coefficients, features.device, features.dtype)
    with torch.autocast(features.device.type, enabled=False):
        smooth: Tensor = features @ matrix
    return smooth


@cache  # nothing is discarded, as captured CUDA graphs read the matrix
@torch.inference_mode(False)  # so that training can use what was computed for a prediction
def _smoothing(bands: int, coefficients: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """C Cᵀ [M,M] of `smooth_spectra`."""
    middles = (torch.arange(bands, dtype=torch.float64) + 0.5) / bands
    cosines = torch.cos(math.pi * middles[:, None] * torch.arange(coefficients, dtype=torch.float64))
    cosines = cosines / torch.linalg.vector_norm(cosines, dim=0)
    product: Tensor = cosines @ cosines.T
    return product.to(device, dtype)
