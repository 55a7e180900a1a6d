"""A corpus of tones for trials without speech: each word is a sound of its own, and recordings are sequences of them.

    python -m recipes.digits.tones tones --recordings 400

writes `tones/train/` and `tones/valid/`, with wav files and a manifest `manifest.jsonl` each. The words rise, fall or
stay on one pitch; voices differ in pitch and speed. The same seed writes the same bytes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 8000
WORDS: dict[str, tuple[float, float]] = {
    "low": (400.0, 400.0),
    "high": (1200.0, 1200.0),
    "rise": (500.0, 1100.0),
    "fall": (1100.0, 500.0),
    "top": (2200.0, 2200.0),
}
"""The frequency in Hz at which each word begins and ends."""


def tone(word: str, *, rate: int = RATE, seconds: float = 0.12, pitch: float = 1.0) -> NDArray[np.float64]:
    """The sound of a word: a chirp from its first to its last frequency, faded in and out."""
    first, last = WORDS[word]
    times = np.arange(round(seconds * rate)) / rate
    phase = 2 * np.pi * pitch * (first * times + (last - first) * times**2 / (2 * seconds))
    fade = np.minimum(1, np.minimum(times, times[::-1]) / 0.01)
    sound: NDArray[np.float64] = 0.4 * fade * np.sin(phase)
    return sound


def recording(words: list[str], *, generator: np.random.Generator, rate: int = RATE) -> NDArray[np.float64]:
    """A sequence of words in one voice, with pauses and a little noise."""
    pitch, seconds = generator.uniform(0.95, 1.05), generator.uniform(0.10, 0.15)
    parts: list[NDArray[Any]] = [np.zeros(round(0.03 * rate))]
    for word in words:
        parts += [
            tone(word, rate=rate, seconds=seconds, pitch=pitch),
            np.zeros(round(generator.uniform(0.03, 0.08) * rate)),
        ]
    sound = np.concatenate(parts)
    return sound + generator.normal(0, 0.005, len(sound))


def write_tones(
    folder: Path, *, recordings: int, seed: int = 0, longest: int = 5, rate: int = RATE, format: str = "wav"
) -> Path:
    """Writes recordings of 1 to `longest` words and their manifest; returns the manifest."""
    import soundfile

    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(recordings):
        words = [str(word) for word in generator.choice(list(WORDS), size=generator.integers(1, longest + 1))]
        name = f"{number}.{format}"
        soundfile.write(folder / name, recording(words, generator=generator, rate=rate), rate, subtype="PCM_16")
        rows.append({"audio": name, "text": " ".join(words)})
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return manifest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--recordings", type=int, default=400, help="for training; a tenth as many for validation (default: 400)"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for seed, (role, count) in enumerate((("train", arguments.recordings), ("valid", arguments.recordings // 10))):
        print(write_tones(arguments.folder / role, recordings=count, seed=2 * arguments.seed + seed))


if __name__ == "__main__":
    main()
