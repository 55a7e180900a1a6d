"""Resampled sine waves are the sine waves of the other rate; what is above the new Nyquist frequency is gone."""

from collections.abc import Iterator
from math import gcd

import numpy as np
import pytest

from calque.data import resampling
from calque.data.resampling import ROLLOFF, ZEROS, resample

RATES = [(44100, 16000), (48000, 16000), (8000, 16000), (11025, 8000), (16000, 8000), (90, 100), (110, 100)]


def plain(samples: np.ndarray, *, source: int, target: int) -> np.ndarray:
    """The definition: every output is a sum over all samples, weighted by a windowed sinc."""
    cutoff = ROLLOFF * min(1.0, target / source)
    count = -(-len(samples) * target // source)
    resampled = np.zeros(count)
    for place in range(count):
        times = place * source / target - np.arange(-200, len(samples) + 200)
        window = np.where(np.abs(times) < ZEROS / cutoff, 0.5 + 0.5 * np.cos(np.pi * times * cutoff / ZEROS), 0)
        weights = cutoff * np.sinc(cutoff * times) * window
        resampled[place] = (weights[200:-200] @ samples) / weights.sum()
    return resampled


@pytest.fixture
def uncached() -> Iterator[None]:
    """Filters that are built with other limits are not kept."""
    resampling._filters.cache_clear()
    yield
    resampling._filters.cache_clear()


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("largest", [resampling.LARGEST, 0])  # in blocks, and phase by phase
@pytest.mark.parametrize("size", [331, 5, 1])
@pytest.mark.parametrize(("source", "target"), [*RATES, (160, 147)])
def test_every_output_is_the_sum_of_the_definition(source, target, size, largest, monkeypatch) -> None:
    monkeypatch.setattr(resampling, "LARGEST", largest)
    monkeypatch.setattr(resampling, "CHUNK", 3)
    samples = np.random.default_rng(0).normal(0, 0.2, size).astype(np.float32)
    resampled = resample(samples, source=source, target=target)
    assert (resampling._filters(target // gcd(source, target), source // gcd(source, target)).block is None) == (
        largest == 0
    )
    assert resampled.dtype == np.float32
    np.testing.assert_allclose(resampled, plain(samples, source=source, target=target), atol=1e-5)


@pytest.mark.parametrize(("source", "target"), RATES)
def test_a_sine_wave_stays_that_sine_wave(source, target) -> None:
    frequency = 0.2 * min(source, target)
    samples = np.sin(2 * np.pi * frequency * np.arange(2000) / source).astype(np.float32)
    resampled = resample(samples, source=source, target=target)
    expected = np.sin(2 * np.pi * frequency * np.arange(len(resampled)) / target)
    inside = slice(len(resampled) // 8, -len(resampled) // 8)
    np.testing.assert_allclose(resampled[inside], expected[inside], atol=2e-3)


def test_what_the_new_rate_cannot_hold_is_removed() -> None:
    samples = np.sin(2 * np.pi * 7000 * np.arange(4000) / 16000).astype(np.float32)
    assert np.abs(resample(samples, source=16000, target=8000)[200:-200]).max() < 1e-3


def test_lengths_and_special_cases() -> None:
    assert len(resample(np.zeros(441, np.float32), source=44100, target=16000)) == 160
    assert len(resample(np.zeros(1, np.float32), source=44100, target=16000)) == 1
    assert len(resample(np.zeros(0, np.float32), source=44100, target=16000)) == 0
    np.testing.assert_allclose(resample(np.ones(500, np.float32), source=3, target=7)[200:-200], 1, atol=1e-5)
    same = np.arange(5, dtype=np.float32)
    assert (resample(same, source=8000, target=8000) == same).all()


@pytest.mark.parametrize(("source", "target"), [(11030, 16000), (100, 192000), (44101, 16000)])
def test_matrices_that_would_be_large_or_mostly_zeros_are_not_built(source, target) -> None:
    assert resampling._filters(target // gcd(source, target), source // gcd(source, target)).block is None
