"""Vocal tract length perturbation (Jaitly and Hinton 2013): the frequencies of recordings are warped in training.

Formants lie at higher frequencies in a shorter vocal tract, so that a warped recording sounds like another speaker.

Letters: B recordings, M mel bands, Q frequencies of the spectrum.
"""

import torch
from torch import Tensor

HIGHEST_FORMANT = 4800.0  # Hz; F_hi of the paper
SHARE = 0.85  # of the Nyquist frequency, above which F_hi does not lie


def warp_frequencies(frequencies: Tensor, factors: Tensor, *, rate: int) -> Tensor:
    """The frequencies [...] in Hz, warped by each of the factors α [B] (Jaitly and Hinton 2013, §3); [B,...].

    f' = α f up to the boundary b = F_hi min(α, 1) / α, and from there on a line to the Nyquist frequency S / 2, which
    stays in place: f' = S/2 − (S/2 − α b) / (S/2 − b) · (S/2 − f).
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
