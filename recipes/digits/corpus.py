"""Strings of spoken digits from the Free Spoken Digit Dataset: recordings of one speaker, joined with pauses.

For every speaker, OUT/SPEAKER/ has wav files and two manifests: `train.jsonl` with many strings, for folds that are
trained on the speaker, and `test.jsonl` with fewer, for folds that are validated or tested on the speaker. Lengths are
drawn evenly from 1 to 7 digits. The same seed writes the same bytes.

Training strings vary more than tested ones: every digit has a pitch and a level of its own, and every string a noise
of its own, because speakers differ in all of them. The median pitch of a speaker lies between 113 and 157 Hz, the mean
duration of a take between 0.33 and 0.57 s. One speaker's takes are 24 dB apart (5th to 95th percentile), the others' 7
to 10 dB, and the quietest moments of a take lie 18 to 49 dB below its loudest, depending on the speaker.

Letters: F frames, W samples of a frame, Q frequencies.
"""

import io
import json
import re
import tarfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 3  # of the strings that a seed makes; version 1 was not varied, version 2 only in level and noise
RATE = 8000
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
LONGEST = 7  # digits
PAUSE = (0.05, 0.30)  # seconds between digits, and before and after the string
PITCH = (0.7, 1.4)  # by which the pitch of a digit of a training string is multiplied, and its duration divided
QUIETER = 20.0  # dB, the most by which a digit of a training string is attenuated
NOISE = (18.0, 50.0)  # dB by which the noise of a training string lies below its quietest digit
FRAME, HOP = 256, 64  # samples, of the frames in which pitch is changed
WINDOW = np.hanning(FRAME + 1)[:-1]
CEPSTRUM = 20  # coefficients of a spectral envelope: too few to follow the harmonics of pitches up to 400 Hz
MOST_GAIN = 4.0  # of a frequency by an envelope, natural logarithm

Samples = NDArray[Any]
Recordings = Mapping[str, Mapping[int, list[Samples]]]
"""The recordings by speaker and digit, in the order of their numbers."""


def read_recordings(archive: Path) -> Recordings:
    """All recordings of the archive, `DIGIT_SPEAKER_NUMBER.wav`, at 8,000 samples per second."""
    import soundfile

    found: dict[str, dict[int, dict[int, Samples]]] = {}
    with tarfile.open(archive) as files:
        for member in files:
            match = re.fullmatch(r"(?:.*/)?(\d)_([a-z]+)_(\d+)\.wav", member.name)
            content = files.extractfile(member) if match else None
            if match is None or content is None:
                continue
            samples, rate = soundfile.read(io.BytesIO(content.read()), dtype="float32", always_2d=True)
            if rate != RATE:
                raise ValueError(f"{member.name}: found {rate} samples per second, expected {RATE}")
            by_digit = found.setdefault(match[2], {})
            by_digit.setdefault(int(match[1]), {})[int(match[3])] = samples.mean(axis=1)
    if not found:
        raise ValueError(f"{archive}: no recordings named DIGIT_SPEAKER_NUMBER.wav")
    return {
        speaker: {digit: [takes[number] for number in sorted(takes)] for digit, takes in sorted(digits.items())}
        for speaker, digits in sorted(found.items())
    }


def digit_string(
    takes: Mapping[int, list[Samples]], *, generator: np.random.Generator, varied: bool = False
) -> tuple[Samples, str]:
    """The sound of a random string of 1 to 7 digits in one voice, and its words; `varied` is for training."""
    digits = generator.integers(10, size=generator.integers(1, LONGEST + 1)).tolist()
    parts, levels = [_pause(generator)], []
    for digit in digits:
        take = takes[digit][int(generator.integers(len(takes[digit])))]
        if varied:
            take = repitched(take, float(np.exp(generator.uniform(*np.log(PITCH)))), generator=generator)
            take = take * np.float32(10 ** (-generator.uniform(0, QUIETER) / 20))
            levels.append(_level(take))
        parts += [take, _pause(generator)]
    sound = np.concatenate(parts)
    noise = generator.normal(0, 0.0005, len(sound))  # so that pauses are not silent to the last bit
    if varied:
        noise += _coloured(len(sound), generator) * min(levels) * 10 ** (-generator.uniform(*NOISE) / 20)
    return sound + noise.astype(np.float32), " ".join(WORDS[digit] for digit in digits)


def repitched(sound: Samples, factor: float, *, generator: np.random.Generator) -> Samples:
    """The sound with its pitch multiplied and its duration divided by a factor; its formants stay where they are.

    Resampling moves pitch and formants together. Then the power of every frame and its spectral envelope, which is the
    spectrum without its higher cepstral coefficients, are replaced by those of the original at the same moment. A lower
    pitch leaves no sound in the highest frequencies; there, the envelope shapes noise, as fricatives are noise.
    """
    sound = sound.astype(np.float64)  # NumPy transforms float32 in float32
    resampled = _resampled(sound, round(len(sound) / factor))
    if factor < 1:
        resampled += _above(factor, generator.normal(size=len(resampled))) * np.sqrt((resampled**2).mean())
    starts = np.arange(0, len(resampled) + HOP, HOP)
    spectra, originals = _spectra(resampled, starts), _spectra(sound, np.round(starts * factor).astype(int))
    gains = np.clip(_log_envelopes(originals) - _log_envelopes(spectra), -MOST_GAIN, MOST_GAIN)
    shaped = spectra * np.exp(gains)
    shaped *= np.sqrt((_powers(originals) + 1e-9) / (_powers(shaped) + 1e-9))
    frames = np.fft.irfft(shaped) * WINDOW
    added, weights = np.zeros((2, int(starts[-1]) + FRAME))
    for start, frame in zip(starts, frames, strict=True):
        added[start : start + FRAME] += frame
        weights[start : start + FRAME] += WINDOW**2
    inside = slice(FRAME // 2, FRAME // 2 + len(resampled))
    return np.asarray(added[inside] / weights[inside], dtype=np.float32)


def write_strings(
    takes: Mapping[int, list[Samples]], folder: Path, *, name: str, strings: int, seed: int, speaker: str
) -> Path:
    """Writes strings of one speaker as wav files, and their manifest, which is written last."""
    import soundfile

    manifest = folder / f"{name}.jsonl"
    if manifest.is_file():
        return manifest
    (folder / name).mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(strings):
        sound, text = digit_string(takes, generator=generator, varied=name == "train")
        audio = f"{name}/{number}.wav"
        soundfile.write(folder / audio, np.clip(sound, -1, 1), RATE, subtype="PCM_16")
        rows.append({"audio": audio, "text": text, "speaker": speaker})
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return manifest


def write_corpus(archive: Path, out: Path, *, train: int, test: int, seed: int = 1) -> None:
    """Writes the strings of all speakers, unless they exist."""
    manifests = [out / speaker / f"{name}.jsonl" for speaker in SPEAKERS for name in ("train", "test")]
    if all(manifest.is_file() for manifest in manifests):
        return
    recordings = read_recordings(archive)
    if missing := sorted(set(SPEAKERS) - set(recordings)):
        raise ValueError(f"{archive}: no recordings of {', '.join(missing)}")
    with ProcessPoolExecutor(len(SPEAKERS), mp_context=get_context("spawn")) as pool:
        written = [
            pool.submit(
                write_strings,
                recordings[speaker],
                out / speaker,
                name=name,
                strings=strings,
                seed=1000 * seed + 2 * number + place,
                speaker=speaker,
            )
            for number, speaker in enumerate(SPEAKERS)
            for place, (name, strings) in enumerate((("train", train), ("test", test)))
        ]
    for future in written:
        future.result()


def _pause(generator: np.random.Generator) -> Samples:
    return np.zeros(round(generator.uniform(*PAUSE) * RATE), dtype=np.float32)


def _resampled(sound: Samples, length: int) -> NDArray[np.float64]:
    """The sound as this many samples, without aliasing."""
    return np.fft.irfft(np.fft.rfft(sound), length) * (length / len(sound))


def _above(share: float, noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of noise above this share of all frequencies."""
    spectrum = np.fft.rfft(noise)
    spectrum[: round(share * len(spectrum))] = 0
    return np.fft.irfft(spectrum, len(noise))


def _spectra(sound: Samples, centres: NDArray[np.int64]) -> NDArray[np.complex128]:
    """The spectra [F,Q] of the frames around these samples [F]; there is silence before and after the sound."""
    padded = np.pad(sound, (FRAME // 2, FRAME // 2 + HOP))
    return np.fft.rfft(padded[np.minimum(centres, len(sound) + HOP)[:, None] + np.arange(FRAME)] * WINDOW)


def _powers(spectra: NDArray[np.complex128]) -> NDArray[np.float64]:
    """The power [F,1] of spectra [F,Q]."""
    powers: NDArray[np.float64] = (np.abs(spectra) ** 2).sum(axis=1, keepdims=True)
    return powers


def _log_envelopes(spectra: NDArray[np.complex128]) -> NDArray[np.float64]:
    """The smoothed natural logarithms of spectra [F,Q]."""
    cepstra = np.fft.irfft(np.log(np.abs(spectra) + 1e-5))
    cepstra[:, CEPSTRUM : FRAME - CEPSTRUM + 1] = 0
    return np.fft.rfft(cepstra).real


def _level(sound: Samples) -> float:
    """The root mean square of the loudest fifth of a sound, in frames of 20 ms."""
    frame = RATE // 50
    energies = np.sort((sound[: len(sound) // frame * frame].reshape(-1, frame) ** 2).mean(axis=1))
    return float(np.sqrt(energies[-max(1, len(energies) // 5) :].mean()))


def _coloured(length: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Noise of mean square 1, with a random colour between white and pink."""
    size = 1 << (length - 1).bit_length()  # transforms of other sizes can take ten times as long
    spectrum = np.fft.rfft(generator.normal(size=size))
    spectrum[1:] *= np.arange(1, len(spectrum)) ** (-generator.uniform(0, 1) / 2)
    noise = np.fft.irfft(spectrum)[:length]
    return np.asarray(noise / np.sqrt((noise**2).mean()))
