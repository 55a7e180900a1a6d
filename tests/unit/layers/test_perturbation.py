"""Perturbed recordings: warped bands are those of a plain loop, and noise has the drawn ratio."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.testing import assert_close

from calque.layers.log_mel import (
    FLOOR,
    LogMel,
    Normalise,
    band_edges,
    mel_filters,
    smooth_spectra,
    spectrum_frequencies,
)
from calque.layers.perturbation import (
    PerturbationConfig,
    add_noise,
    equalise,
    random_warps,
    warp_frequencies,
    warped_filters,
)
from calque.layers.spec_augment import SpecAugmentConfig
from calque.models.speech_inputs import SpeechInputs, SubsamplingConfig
from calque.tensors import Padded

QUIET = SpecAugmentConfig(frequency_masks=0, time_masks=0)


def plain_warp(frequency: float, factor: float, *, rate: int) -> float:
    """Jaitly and Hinton 2013, §3, with F_hi = 4,800 Hz or 85 % of the Nyquist frequency."""
    half, highest = rate / 2, min(4800.0, 0.85 * rate / 2)
    if frequency <= highest * min(factor, 1) / factor:
        return frequency * factor
    slope = (half - highest * min(factor, 1)) / (half - highest * min(factor, 1) / factor)
    return half - slope * (half - frequency)


def noise(rows: int, size: int, *, seed: int, loudness: int = 9000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-loudness, loudness, (rows, size), generator=generator).to(torch.int16)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_frequencies_are_warped_as_in_the_paper(rate: int) -> None:
    frequencies = torch.linspace(0, rate / 2, 101, dtype=torch.float64)
    factors = torch.tensor([0.5, 0.8, 0.95, 1.0, 1.1, 1.5], dtype=torch.float64)
    warped = warp_frequencies(frequencies, factors, rate=rate)
    expected = [[plain_warp(f, a, rate=rate) for f in frequencies.tolist()] for a in factors.tolist()]
    assert_close(warped, torch.tensor(expected, dtype=torch.float64))
    assert (warped.diff(dim=1) > 0).all()
    assert_close(warped[:, 0], torch.zeros(6).double())
    assert_close(warped[:, -1], torch.full((6,), rate / 2).double())
    assert_close(warped[3], frequencies)


def test_filters_that_are_not_warped_are_the_mel_filters() -> None:
    edges, frequencies = torch.from_numpy(band_edges(8000, 40)), torch.from_numpy(spectrum_frequencies(8000))
    filters = warped_filters(edges, torch.ones(2).double(), frequencies=frequencies, rate=8000)
    assert_close(filters, torch.from_numpy(mel_filters(8000, 40)).expand(2, -1, -1), rtol=0, atol=1e-12)


def test_every_recording_is_warped_by_its_own_factor() -> None:
    """Each band is a triangle between the warped edges, over the power spectrum of each frame."""
    samples, lengths = noise(3, 700, seed=0), torch.tensor([700, 411, 80])
    factors = torch.tensor([0.8, 1.0, 1.2]).double()
    features = LogMel(8000, bands=7)(Padded(samples, lengths), dtype=torch.float64, warps=factors).values
    hann, frequencies = np.hanning(200), spectrum_frequencies(8000)
    for row, (length, factor) in enumerate(zip(lengths.tolist(), factors.tolist(), strict=True)):
        edges = [plain_warp(edge, factor, rate=8000) for edge in band_edges(8000, 7)]
        padded = np.concatenate([samples[row, :length].numpy() / 32768, np.zeros(300)])
        for frame in range(-(-length // 80)):
            power = np.abs(np.fft.rfft(padded[frame * 80 : frame * 80 + 200] * hann, 512)) ** 2
            for band in range(7):
                triangle = np.interp(frequencies, edges[band : band + 3], [0.0, 1.0, 0.0])
                expected = np.log(max(float(triangle @ power), FLOOR))
                assert float(features[row, frame, band]) == pytest.approx(expected, abs=1e-9)


def test_a_higher_voice_is_read_like_the_original_if_it_is_warped_as_much() -> None:
    times = torch.arange(4000) / 8000
    original, higher = ((9000 * torch.sin(2 * torch.pi * f * times)).to(torch.int16)[None] for f in (1000.0, 1200.0))
    layer, lengths = LogMel(8000, bands=40), torch.tensor([4000])
    heard = layer(Padded(original, lengths)).values[0, 5:40].mean(0)
    warped = layer(Padded(higher, lengths), warps=torch.tensor([1.2])).values[0, 5:40].mean(0)
    assert heard.argmax() == warped.argmax()
    assert layer(Padded(higher, lengths)).values[0, 5:40].mean(0).argmax() > heard.argmax()


def test_factors_are_uniform_within_their_bounds(seed: int) -> None:
    torch.manual_seed(seed)
    factors = random_warps(20_000, strength=0.2, device=torch.device("cpu"))
    assert 0.8 <= float(factors.min()) < 0.801 and 1.199 < float(factors.max()) <= 1.2
    shares = torch.histc(factors, bins=4, min=0.8, max=1.2) / 20_000
    assert_close(shares, torch.full((4,), 0.25), rtol=0, atol=0.02)


def test_noise_has_the_drawn_ratio_whatever_the_padding(seed: int) -> None:
    samples, lengths = noise(64, 9000, seed=seed, loudness=3000), torch.tensor([9000] * 32 + [4000] * 32)
    samples[32:, 4000:] = 30_000
    torch.manual_seed(seed)
    noisy = add_noise(Padded(samples, lengths), (10.0, 30.0), dtype=torch.float64)
    ratios = []
    for row, length in enumerate(lengths.tolist()):
        signal = samples[row, :length].double()
        added = noisy.values[row, :length] - signal
        ratios.append(10 * float(torch.log10(signal.square().mean() / added.square().mean())))
    assert min(ratios) > 9.5 and max(ratios) < 30.5 and min(ratios) < 14 and max(ratios) > 26


def test_noise_has_many_colours(seed: int) -> None:
    samples = Padded(noise(64, 8000, seed=seed, loudness=3000), torch.full((64,), 8000))
    torch.manual_seed(seed)
    added = add_noise(samples, (0.0, 0.0), dtype=torch.float64).values - samples.values
    power = torch.fft.rfft(added).abs().square()
    bass = power[:, :2000].sum(dim=1) / power.sum(dim=1)
    assert float(bass.min()) < 0.3 and float(bass.max()) > 0.7 and 0.35 < float(bass.mean()) < 0.65


def test_an_equaliser_adds_smooth_curves_with_its_deviation(seed: int) -> None:
    torch.manual_seed(seed)
    curves = equalise(torch.zeros(4000, 2, 32).double(), strength=6.0) * 10 / np.log(10)  # dB
    assert torch.equal(curves[:, 0], curves[:, 1])
    assert float(curves.square().mean().sqrt()) == pytest.approx(6.0, rel=0.05)
    bends = torch.fft.rfft(torch.cat([curves[:, 0], curves[:, 0].flip(1)], dim=1)).abs()  # cosines of order 0, 1, …
    assert float(bends[:, 5:].max()) < 1e-9 and float(bends[:, 0].max()) < 1e-9
    powers = bends[:, 1:5].square().mean(dim=0)
    assert_close(powers / powers[0], 1 / torch.arange(1, 5).double(), rtol=0.15, atol=0)


def test_an_equaliser_has_no_effect_if_each_band_is_normalised(seed: int) -> None:
    torch.manual_seed(seed)
    features = torch.randn(2, 30, 8).double()
    layer, lengths = Normalise(8, over="utterance"), torch.tensor([30, 30])
    equalised = layer(Padded(equalise(features, strength=9.0), lengths))
    assert_close(equalised, layer(Padded(features, lengths)), rtol=0, atol=1e-9)


def inputs(perturbation: PerturbationConfig, *, cepstrum: int = 0) -> SpeechInputs:
    torch.manual_seed(0)
    return SpeechInputs(
        8000,
        bands=9,
        normalise="peak",
        dynamic_range=40.0,
        cepstrum=cepstrum,
        augmentation=QUIET,
        perturbation=perturbation,
        subsampling=SubsamplingConfig(layers=1, channels=3, dropout=0.0),
        width=4,
    )


@pytest.mark.parametrize(
    "changes", [{"vocal_tract": 0.2}, {"noise": (0, 20)}, {"equaliser": 6.0}], ids=lambda changes: next(iter(changes))
)
def test_recordings_are_perturbed_in_training_only(changes: dict[str, object], seed: int) -> None:
    recordings = Padded(noise(2, 900, seed=seed), torch.tensor([900, 0]))
    layer, plain = inputs(PerturbationConfig.model_validate(changes)), inputs(PerturbationConfig())
    assert torch.equal(layer.eval()(recordings).values, plain.eval()(recordings).values)
    torch.manual_seed(seed)
    first, second = (layer.train()(recordings).values for _ in range(2))
    assert not torch.equal(first, second) and first.isfinite().all()
    torch.manual_seed(seed)
    assert torch.equal(first, layer(recordings).values)


def test_without_perturbations_nothing_is_drawn(seed: int) -> None:
    """So that masks and dropout of earlier runs, which come from the same generator, stay the same."""
    layer = inputs(PerturbationConfig()).train()
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    layer(Padded(noise(2, 900, seed=seed), torch.tensor([900, 400])))
    assert torch.equal(before, torch.get_rng_state())


def test_bounds_of_noise_in_the_wrong_order_are_rejected() -> None:
    with pytest.raises(ValidationError, match="the first bound must not be above the second"):
        PerturbationConfig(noise=(30, 10))


def test_spectra_are_smoothed_before_they_are_normalised(seed: int) -> None:
    """So that features relative to the peak are at most r / 10, 0 in silence, and 0 after the end of a recording."""
    plain, smooth = inputs(PerturbationConfig()).eval(), inputs(PerturbationConfig(), cepstrum=3).eval()
    audio = Padded(torch.randn(2, 4000, generator=torch.Generator().manual_seed(seed)), torch.tensor([4000, 2000]))
    frames = plain.log_mel(audio._replace(placed_lengths=audio.lengths), dtype=torch.float32)
    expected = smooth.normalise(frames._replace(values=smooth_spectra(frames.values, coefficients=3)))
    found = smooth.features(audio)
    assert_close(found.values, expected)
    assert not torch.allclose(found.values, plain.features(audio).values)
    assert found.values.min() >= 0 and found.values.max() <= 4.0
    assert not found.values[1, int(found.lengths[1]) :].any()
