"""The corpora of the digits recipe: strings of one speaker, folds without overlap, the same bytes for the same seed."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from recipes.digits import run
from recipes.digits.corpus import (
    PITCH,
    QUIETER,
    RATE,
    SPEAKERS,
    WORDS,
    digit_string,
    read_recordings,
    repitched,
    write_corpus,
)
from recipes.digits.tones import WORDS as TONES
from recipes.digits.tones import write_tones


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings of each digit and speaker: a constant that tells digit and speaker apart."""
    path = tmp_path_factory.mktemp("fsdd") / "recordings.tar.gz"
    with tarfile.open(path, "w:gz") as files:
        for place, speaker in enumerate(SPEAKERS):
            for digit in range(10):
                for number in range(2):
                    content = io.BytesIO()
                    samples = np.full(1200, 0.05 * (place + 1) + 0.02 * digit)
                    soundfile.write(content, samples, RATE, format="WAV", subtype="PCM_16")
                    member = tarfile.TarInfo(f"recordings/{digit}_{speaker}_{number}.wav")
                    member.size = content.tell()
                    content.seek(0)
                    files.addfile(member, content)
    return path


def test_strings_consist_of_their_speakers_recordings(archive: Path, tmp_path: Path) -> None:
    write_corpus(archive, tmp_path / "out", train=5, test=12)
    lengths = set()
    for place, speaker in enumerate(SPEAKERS):
        rows = [json.loads(line) for line in (tmp_path / "out" / speaker / "test.jsonl").read_text().splitlines()]
        assert len(rows) == 12
        for row in rows:
            samples, rate = soundfile.read(tmp_path / "out" / speaker / row["audio"])
            digits = [WORDS.index(word) for word in row["text"].split()]
            lengths.add(len(digits))
            levels = [0.05 * (place + 1) + 0.02 * digit for digit in digits]
            heard = np.convolve(np.abs(samples) > 0.03, np.ones(200), "same") > 100
            starts = np.flatnonzero(np.diff(heard.astype(int)) == 1)
            assert rate == RATE and len(starts) == len(digits)
            for start, level in zip(starts, levels, strict=True):
                assert samples[start + 300 : start + 900].mean() == pytest.approx(level, abs=2e-3)
    assert lengths <= set(range(1, 8)) and len(lengths) == 7


def test_digits_of_training_strings_differ_in_level_and_strings_in_noise(archive: Path) -> None:
    takes = read_recordings(archive)[SPEAKERS[-1]]
    gains, noises = [], []
    for seed in range(60):
        plain, text = digit_string(takes, generator=np.random.default_rng(seed))
        varied, _ = digit_string(takes, generator=np.random.default_rng(seed), varied=True)
        digit = WORDS.index(text.split()[0])
        start = int(np.flatnonzero(np.abs(plain) > 0.1)[0])
        gains.append(20 * np.log10(varied[start + 200 : start + 600].mean() / takes[digit][0].mean()))
        noises.append(20 * np.log10(varied[: start - 1].std()))
    assert -QUIETER - 2 < min(gains) < -0.8 * QUIETER and -0.2 * QUIETER < max(gains) < 2  # pitch changes them a little
    assert max(noises) - min(noises) > 20


def vowel(*formants: float, pitch: float, size: int = 4000) -> NDArray[np.float64]:
    """Harmonics of a pitch, loudest at the formants."""
    times, sound = np.arange(size) / RATE, np.zeros(size)
    for harmonic in np.arange(pitch, RATE / 2, pitch):
        amplitude = sum(1 / (1 + ((harmonic - formant) / 120) ** 2) for formant in formants)
        sound += 0.03 * amplitude * np.sin(2 * np.pi * harmonic * times)
    return sound


def assert_formant(sound: NDArray[np.float64], formant: float, *, pitch: float) -> None:
    """The power near a formant is centred on it, as far as harmonics of a pitch can show it."""
    power = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2
    frequencies = np.fft.rfftfreq(len(sound), 1 / RATE)
    near = np.abs(frequencies - formant) < 350
    assert (power * frequencies)[near].sum() / power[near].sum() == pytest.approx(
        formant, abs=75 if pitch < 240 else pitch / 2
    )


@pytest.mark.parametrize("factor", [*PITCH, 1.0, 1.2])
@pytest.mark.parametrize("pitch", [130, 210])
def test_another_pitch_moves_harmonics_but_no_formants(factor: float, pitch: float) -> None:
    """Of two vowels, one after the other: each formant at its time, up to 3,300 Hz, and the power of each vowel."""
    spoken = ((700, 1800, 3300), (450, 2500, 3300))
    sound = np.concatenate([vowel(*formants, pitch=pitch) for formants in spoken])
    changed = repitched(sound.astype(np.float32), factor, generator=np.random.default_rng(1))
    assert len(changed) == pytest.approx(8000 / factor, abs=2)
    half = len(changed) // 2
    for formants, part, original in zip(
        spoken, (changed[:half], changed[half:]), (sound[:4000], sound[4000:]), strict=True
    ):
        middle = part[len(part) // 2 - 1000 : len(part) // 2 + 1000]
        similarity = np.correlate(middle, middle, "full")[len(middle) :]  # to itself, 1, 2, … samples later
        shortest = round(0.8 * RATE / (pitch * factor))
        period = shortest + int(np.argmax(similarity[shortest - 1 : 2 * shortest]))
        assert RATE / period == pytest.approx(pitch * factor, rel=0.04)
        for formant in formants:
            assert_formant(middle, formant, pitch=factor * pitch)
        assert middle.std() == pytest.approx(original.std(), rel=0.1)
    if factor == 1:
        np.testing.assert_allclose(changed, sound, atol=1e-6)


@pytest.mark.parametrize("factor", [0.7, 0.85, 1.2])
def test_fricatives_keep_their_spectrum_and_level(factor: float) -> None:
    spectrum = np.fft.rfft(np.random.default_rng(1).normal(size=4096))
    frequencies = np.fft.rfftfreq(4096, 1 / RATE)
    spectrum[(frequencies < 2500) | (frequencies > 3900)] = 0
    noise = np.fft.irfft(spectrum)
    changed = repitched(noise.astype(np.float32), factor, generator=np.random.default_rng(2))
    power = np.abs(np.fft.rfft(changed)) ** 2
    inside = np.fft.rfftfreq(len(changed), 1 / RATE) > 2400
    assert power[inside].sum() > 0.97 * power.sum()
    assert changed.std() == pytest.approx(noise.std(), rel=0.15)


def test_the_same_seed_writes_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    for place in ("here", "there"):
        write_corpus(archive, tmp_path / place, train=2, test=2)
    for path in (tmp_path / "here").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "there" / path.relative_to(tmp_path / "here")).read_bytes()
    first, second = (write_tones(tmp_path / name, recordings=3) for name in ("a", "b"))
    assert (first.parent / "2.wav").read_bytes() == (second.parent / "2.wav").read_bytes()
    assert {word for line in first.read_text().splitlines() for word in json.loads(line)["text"].split()} <= set(TONES)


def test_no_fold_hears_its_test_speaker_and_no_speaker_has_two_roles() -> None:
    for tested in SPEAKERS:
        selecting, trained = run.roles(tested)
        assert len({tested, selecting, *trained}) == 6 and len(trained) == 4
    assert {run.roles(tested)[0] for tested in SPEAKERS} == set(SPEAKERS)


def test_an_archive_without_recordings_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(tmp_path / "recordings.tar.gz", "w:gz"):
        pass
    with pytest.raises(ValueError, match="no recordings named"):
        read_recordings(tmp_path / "recordings.tar.gz")
    assert run.main([str(tmp_path), str(tmp_path / "out")]) == 2
    assert "no recordings" in capsys.readouterr().err


def test_the_table_has_the_mean_of_all_folds_over_their_seeds(tmp_path: Path) -> None:
    edits = {"substitutions": 3, "insertions": 2, "deletions": 1, "length": 99}
    for place, speaker in enumerate(SPEAKERS):
        for seed in (1, 2):
            folder = tmp_path / f"{speaker}-{seed}"
            folder.mkdir()
            wer = {"rate": 2.0 * place + 2 * seed - 3, "low": 1, "high": 9, **edits}
            (folder / "result.json").write_text(json.dumps({"wer": wer}))
    page = run.page(run.collect(tmp_path))
    assert "mean of 6" in page and "| 5.00 | bar 8: reached |" in page and "| 6 / 4 / 2 | 198 | 2 |" in page
    assert "4.00 (3.00 to 5.00)" in page
    for place, speaker in enumerate(SPEAKERS):
        for seed in (1, 2):
            values = (40.0 - place - more + seed for more in (0, 3, 1))
            rows = [{"kind": "train", "loss": 1}, *({"kind": "valid", "wer": value} for value in values)]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{speaker}-{seed}" / "metrics.jsonl").write_text(lines)
    page = run.page(run.collect(tmp_path))
    assert "38.50 (38.00 to 39.00)" in page and "| 36.00 |" in page  # the best validation of each run, and their mean
