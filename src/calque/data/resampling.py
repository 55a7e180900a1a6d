"""Conversion of a signal to another sampling rate with a polyphase windowed-sinc filter.

y[n] = Σₖ x[k] h(n d/u − k), where u/d is the ratio of the new rate to the old one in lowest terms. The low-pass filter
h(t) = c sinc(c t) w(t) has the cutoff c = 0.95 min(1, u/d), relative to the signal's Nyquist frequency, and a Hann
window w of ±Z/c samples with Z = 24 zero crossings on either side. The position n d/u has only u different fractional
parts (phases), so the filter is computed once per phase, not once per output sample.
"""

from functools import lru_cache
from math import ceil, gcd
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

ZEROS = 24  # Z: zero crossings of the sinc on either side
ROLLOFF = 0.95  # the cutoff as a share of the Nyquist frequency


def resample(samples: NDArray[Any], *, source: int, target: int) -> NDArray[np.float32]:
    """The signal converted from the sampling rate `source` to the sampling rate `target`, as float32.

    >>> resample(np.ones(441, dtype=np.float32), source=44100, target=16000).shape
    (160,)
    """
    if source == target or len(samples) == 0:
        return np.asarray(samples, dtype=np.float32)
    up, down = target // gcd(source, target), source // gcd(source, target)
    filters = _phase_filters(up, down)
    reach = filters.shape[1] // 2
    count = ceil(len(samples) * up / down)
    last = (count - 1) * down // up
    padded = np.pad(np.asarray(samples, dtype=np.float32), (reach, max(0, last + reach + 1 - len(samples))))
    windows = sliding_window_view(padded, filters.shape[1])
    resampled = np.empty(count, dtype=np.float32)
    for residue in range(min(up, count)):  # outputs n = residue, residue + u, … share a phase
        first, phase = divmod(residue * down, up)
        outputs = len(range(residue, count, up))
        resampled[residue::up] = windows[first::down][:outputs] @ filters[phase]
    return resampled


@lru_cache(maxsize=32)
def _phase_filters(up: int, down: int) -> NDArray[np.float32]:
    """For each phase (a position between two input samples, in steps of 1/`up`), the filter's taps: [up, 2r + 1].

    An output sample at the input position n + phase/up is a weighted sum of the input samples n − r to n + r; tap k is
    the weight of sample n + k − r.
    """
    cutoff = ROLLOFF * min(1.0, up / down)
    width = ZEROS / cutoff
    reach = ceil(width) + 1
    times = np.arange(up)[:, None] / up - np.arange(-reach, reach + 1)[None]
    window = np.where(np.abs(times) < width, 0.5 + 0.5 * np.cos(np.pi * times / width), 0.0)
    filters = cutoff * np.sinc(cutoff * times) * window
    normalised: NDArray[np.float32] = (filters / filters.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised  # a constant signal stays constant
