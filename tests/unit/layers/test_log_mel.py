"""Log-mel features equal a plain discrete Fourier transform in NumPy; padding changes nothing; masks are masks."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from calque.layers.log_mel import FLOOR, LogMel, Normalise, mel_filters, smooth_spectra
from calque.layers.spec_augment import SpecAugmentConfig, spec_augment
from calque.tensors import Padded


def plain_features(samples: np.ndarray, *, rate: int, bands: int) -> np.ndarray:
    """The features by their definition: every frame windowed, every frequency summed, every band a triangle."""
    window, hop, size = round(0.025 * rate), round(0.010 * rate), 1
    while size < 0.040 * rate:
        size *= 2
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / (window - 1))
    count = max(1, -(-len(samples) // hop))
    padded = np.concatenate([samples / 32768, np.zeros(window)])
    frequencies = np.arange(size // 2 + 1)
    edges_mel = np.linspace(2595 * np.log10(1 + 20 / 700), 2595 * np.log10(1 + rate / 2 / 700), bands + 2)
    edges = 700 * (10 ** (edges_mel / 2595) - 1)
    features = np.zeros((count, bands))
    for frame in range(count):
        part = padded[frame * hop : frame * hop + window] * hann
        angles = -2j * np.pi * np.outer(frequencies, np.arange(window)) / size
        power = np.abs(np.exp(angles) @ part) ** 2
        for band in range(bands):
            low, middle, high = edges[band : band + 3]
            total = 0.0
            for place, value in enumerate(power):
                frequency = place * rate / size
                if low < frequency <= middle:
                    total += value * (frequency - low) / (middle - low)
                elif middle < frequency < high:
                    total += value * (high - frequency) / (high - middle)
            features[frame, band] = np.log(max(total, FLOOR))
    return features


@pytest.mark.parametrize(("rate", "length"), [(8000, 1234), (16000, 700), (8000, 50), (11025, 600)])
def test_features_are_those_of_the_definition(rate, length) -> None:
    samples = np.random.default_rng(rate).integers(-9000, 9000, length).astype(np.int16)
    layer = LogMel(rate, bands=23)
    features = layer(Padded(torch.from_numpy(samples)[None], torch.tensor([length])), dtype=torch.float64)
    expected = plain_features(samples.astype(float), rate=rate, bands=23)
    assert features.values.shape == (1, *expected.shape) and features.lengths.tolist() == [len(expected)]
    assert_close(features.values[0], torch.from_numpy(expected), rtol=0, atol=1e-8)


def test_padding_and_neighbours_change_nothing() -> None:
    generator = np.random.default_rng(0)
    samples = torch.from_numpy(generator.integers(-9000, 9000, (3, 900)).astype(np.int16))
    lengths = torch.tensor([900, 411, 7])
    layer = LogMel(8000, bands=10)
    whole = layer(Padded(samples, lengths), dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        alone = layer(Padded(samples[row : row + 1, :length], lengths[row : row + 1]), dtype=torch.float64)
        assert_close(whole.values[row, : alone.values.shape[1]], alone.values[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_no_band_of_eighty_is_empty(rate) -> None:
    assert (mel_filters(rate, 80).sum(axis=1) > 0).all()


def test_normalised_features_have_mean_0_and_variance_1_within_each_recording() -> None:
    values = 3 + 5 * torch.randn(2, 50, 4, generator=torch.Generator().manual_seed(0)).double()
    features = Normalise(4, over="utterance")(Padded(values, torch.tensor([50, 20])))
    for row, length in ((0, 50), (1, 20)):
        assert_close(features[row, :length].mean(0), torch.zeros(4).double(), rtol=0, atol=1e-9)
        assert_close(features[row, :length].var(0, unbiased=False), torch.ones(4).double(), rtol=0, atol=1e-3)
    assert not features[1, 20:].any()


def test_global_statistics_are_applied_and_saved() -> None:
    layer = Normalise(2, over="global")
    layer.learn(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 0.0]))
    values = torch.tensor([[[3.0, 2.0], [9.0, 9.0]]])
    assert_close(layer(Padded(values, torch.tensor([1])))[0], torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert set(layer.state_dict()) == {"mean", "deviation"}
    assert_close(Normalise(2, over="none")(Padded(values, torch.tensor([2]))), values)


def test_features_relative_to_the_peak_are_bels_above_silence(seed: int) -> None:
    """They do not depend on the level; what is too quiet is silence, like what follows the end."""
    power = 10 ** (torch.rand(2, 6, 3, generator=torch.Generator().manual_seed(seed)).double() * 8 - 4)
    lengths = torch.tensor([6, 4])
    layer = Normalise(3, over="peak", dynamic_range=30.0)
    features = layer(Padded(power.log(), lengths))
    for row, length in enumerate(lengths.tolist()):
        peak = max(float(value) for value in power[row, :length].flatten())
        for frame in range(6):
            for band in range(3):
                decibels = 10 * np.log10(float(power[row, frame, band]) / peak)
                expected = max(0.0, 30 + decibels) / 10 if frame < length else 0.0
                assert float(features[row, frame, band]) == pytest.approx(expected, abs=1e-9)
    assert_close(layer(Padded((1000 * power).log(), lengths)), features, rtol=0, atol=1e-9)
    assert layer.mean_of(Padded(features, lengths)) is not None and not layer.state_dict()


def test_smoothed_spectra_have_only_the_first_cepstral_coefficients(seed: int) -> None:
    """What remains is the best approximation by slow cosines; with all coefficients, nothing changes."""
    features = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(seed)).double()
    cosines = np.array([[np.cos(np.pi * order * (band + 0.5) / 12) for order in range(12)] for band in range(12)])
    for kept in (1, 4, 12):
        smooth = smooth_spectra(features, coefficients=kept)
        for frame, result in zip(features.flatten(0, 1).numpy(), smooth.flatten(0, 1).numpy(), strict=True):
            weights = np.linalg.lstsq(cosines[:, :kept], frame, rcond=None)[0]
            np.testing.assert_allclose(result, cosines[:, :kept] @ weights, atol=1e-9)
    assert_close(smooth, features, rtol=0, atol=1e-9)
    assert not smooth_spectra(torch.zeros(1, 3, 12), coefficients=4).any()  # silence stays silence


def test_masks_cover_blocks_within_their_bounds_and_depend_on_the_generator_alone() -> None:
    config = SpecAugmentConfig(frequency_masks=1, frequency_width=3, time_masks=1, time_width=8, time_share=0.5)
    features = Padded(torch.ones(64, 20, 10), torch.full((64,), 12))
    torch.manual_seed(5)
    masked = spec_augment(features, config)
    torch.manual_seed(5)
    assert torch.equal(masked, spec_augment(features, config))
    times = (masked == 0).all(dim=2).sum(dim=1)
    bands = (masked[:, :12] == 0).all(dim=1).sum(dim=1)
    assert times.max() == 6 and bands.max() == 3 and times.min() == 0 and bands.min() == 0
    assert (masked[:, 12:] == 1).all()
    for row in masked:
        covered = (row == 0).all(dim=1).nonzero().flatten()
        assert len(covered) == 0 or int(covered[-1] - covered[0]) + 1 == len(covered)


@pytest.mark.parametrize("over", ["utterance", "global", "peak", "none"])
def test_what_a_mask_covers_becomes_the_mean(over: str, seed: int) -> None:
    """Otherwise a masked band of features that are not normalised would be louder than any sound."""
    config = SpecAugmentConfig(frequency_masks=2, frequency_width=3, time_masks=2, time_width=8, time_share=0.5)
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([20, 13, 5])
    recordings = Padded(torch.randn(3, 20, 7, generator=generator).double() * 3 - 11, lengths)
    layer = Normalise(7, over=over)
    features = recordings._replace(values=layer(recordings))
    torch.manual_seed(seed)
    masked = spec_augment(features, config, fill=layer.mean_of(features))
    for row, length in enumerate(lengths.tolist()):
        own, read = features.values[row, :length], masked[row, :length]
        mean = own.mean(dim=0) if over in ("none", "peak") else torch.zeros(7).double()
        assert ((read == own) | (read - mean).abs().lt(1e-9)).all()
        assert torch.equal(masked[row, length:], features.values[row, length:])
    assert not torch.equal(masked, features.values)


def test_recordings_have_masks_of_their_own() -> None:
    config = SpecAugmentConfig(frequency_masks=1, frequency_width=5, time_masks=1, time_width=8, time_share=0.5)
    torch.manual_seed(3)
    masked = spec_augment(Padded(torch.ones(64, 20, 10), torch.full((64,), 20)), config)
    assert len({tuple(row.flatten().tolist()) for row in masked}) > 48
