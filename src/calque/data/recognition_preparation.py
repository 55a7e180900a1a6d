"""Prepares recordings for speech recognition: the samples and the ids of transcripts that a store holds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.audio import Clip, Samples, read_sound, sound_header, to_int16
from calque.data.fingerprint import text_settings
from calque.data.numericalise import Numericalised, Texts
from calque.data.resampling import resample
from calque.data.store import ColumnKind, Rows, pack, smallest_unsigned
from calque.errors import DataError
from calque.text import TextConfig, Tokenizer, load_tokenizer, save_columns, train_tokenizer

AUDIO, TEXT = "audio", "text"
PEAK = 32768  # int16 samples of a signal between −1 and 1 are divided by it


class Fit(NamedTuple):
    """Decides whether a recording is long enough for its tokens.

    CTC needs one position per token, and one more between equal neighbours.
    """

    hop: int  # samples per frame
    factor: int  # frames per position of the encoder
    fastest: int  # the fastest speed in training, in percent
    aligned: bool  # whether the model has CTC

    def positions(self, samples: int) -> int:
        """The number of encoder positions for a recording of `samples` samples, at the fastest speed in training."""
        frames = max(1, -(-samples * 100 // self.fastest // self.hop))
        return -(-frames // self.factor)

    def fits(self, samples: int, tokens: Sequence[int]) -> bool:
        repeated = sum(first == second for first, second in pairwise(tokens))
        return not self.aligned or len(tokens) + repeated <= self.positions(samples)


class RecognitionPreparation(NamedTuple):
    """How manifests of recordings are prepared: waveforms at one sampling rate, and the ids of transcripts."""

    text: TextConfig
    rate: int
    fit: Fit
    resampled: bool = True
    """Whether recordings with other sampling rates are resampled; if not, they are an error."""
    longest: float = 30.0
    """The length of the longest recording, in seconds. Longer recordings are left out and counted."""
    maximum_length: int = 256

    @property
    def unit(self) -> str:
        return "recordings"

    @property
    def reads(self) -> tuple[str, ...]:
        return (AUDIO, TEXT, "folder")

    @property
    def settings(self) -> Mapping[str, str]:
        fit = {f"task.fit.{name}": str(value) for name, value in self.fit._asdict().items()}
        own = {"task.rate": str(self.rate), "task.longest": str(self.longest), "task.resample": str(self.resampled)}
        return {**text_settings(self.text), **own, **fit}

    @property
    def running(self) -> bool:
        return False

    @property
    def lines_up(self) -> bool:
        return False

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        headers = [sound_header(Clip.of(row[0]), folder=Path(row[2])) for row in rows]
        return {
            "hundredths of a second": [round(100 * header.seconds) for header in headers],
            "text characters": [len(row[1]) for row in rows],
        }

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        headers = [sound_header(Clip.of(row[0]), folder=Path(row[2])) for row in rows]
        return {
            "sampling rate": Counter(f"{header.rate} Hz" for header in headers),
            "channels": Counter(str(header.channels) for header in headers),
        }

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        save_columns({TEXT: train_tokenizer(self.text, lines=lambda: texts(TEXT), count=rows)}, folder)

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        size = len(load_tokenizer(folder, column=TEXT).vocabulary)
        return {AUDIO: ColumnKind("<i2"), TEXT: ColumnKind(smallest_unsigned(size - 1))}

    def numericaliser(self, folder: Path) -> "RecognitionNumericaliser":
        return RecognitionNumericaliser(load_tokenizer(folder, column=TEXT), self)


class RecognitionNumericaliser(NamedTuple):
    """Converts recordings to 16-bit samples at one rate, and transcripts to ids."""

    tokenizer: Tokenizer
    preparation: RecognitionPreparation

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        usable: list[int] = []
        waveforms: list[Samples] = []
        tokens: list[list[int]] = []
        problems: list[str] = []
        empty = long = 0
        for index, (cell, text, folder, place) in enumerate(zip(*columns, strict=True)):
            clip, ids = Clip.of(cell), self.tokenizer.encode(text)
            try:
                samples = self._samples(clip, Path(folder))
                self._refuse_unfit(clip, samples, ids, folder=Path(folder))
            except DataError as error:
                problems.append(f"{place}: {error}")
                continue
            if not ids:
                empty += 1
            elif len(ids) > self.preparation.maximum_length or len(samples) > self._most_samples:
                long += 1
            else:
                usable.append(index)
                waveforms.append(samples)
                tokens.append(ids)
        sound = np.concatenate([to_int16(samples) for samples in waveforms]) if waveforms else np.zeros(0, np.int16)
        audio = Rows(sound, np.array([len(samples) for samples in waveforms], dtype=np.uint32))
        return Numericalised({AUDIO: audio, TEXT: pack(tokens)}, usable, empty=empty, long=long, problems=problems)

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {"text characters": self.tokenizer.unknown_characters("".join(row[1] for row in rows))}

    @property
    def _most_samples(self) -> int:
        return int(self.preparation.longest * self.preparation.rate)

    def _samples(self, clip: Clip, folder: Path) -> Samples:
        sound, rate = read_sound(clip, folder=folder), self.preparation.rate
        if sound.rate != rate and not self.preparation.resampled:
            raise DataError(
                f"{clip.name(folder)}: {sound.rate} samples per second, expected {rate} (task.rate); set "
                "task.resample = true to convert it"
            )
        return resample(sound.samples, source=sound.rate, target=rate)

    def _refuse_unfit(self, clip: Clip, samples: Samples, ids: Sequence[int], *, folder: Path) -> None:
        fit = self.preparation.fit
        if len(samples) <= self._most_samples and not fit.fits(len(samples), ids):
            seconds, positions = len(samples) / self.preparation.rate, fit.positions(len(samples))
            raise DataError(
                f"{clip.name(folder)}: a text of {len(ids)} tokens is too long for {seconds:.2f} s of audio, which the "
                f"encoder reads as {positions} positions; CTC needs one per token and one more between equal "
                "neighbours: lower model.subsampling.layers, use longer tokens, or leave such recordings out "
                "(data.invalid = 'skip')"
            )
