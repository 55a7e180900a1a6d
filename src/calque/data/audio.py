"""Recordings: parts of audio files, read as one channel of samples between −1 and 1."""

import json
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.resampling import resample
from calque.errors import DataError

MISSING = "soundfile is not installed: pip install soundfile"
LONGEST = 4 * 3600  # seconds of a recording that is read at once
MOST = 1 << 29  # samples of a channel that are read at once: 3 hours at 48 kHz, 2 GiB
BLOCK = 1 << 20  # samples of all channels that are decoded before they are mixed

Samples = NDArray[np.float32]


class Clip(NamedTuple):
    """A recording: an audio file, or the part of it between two times in seconds."""

    path: str
    start: float | None = None
    end: float | None = None

    @property
    def cell(self) -> str:
        """The clip serialised as text, from which `Clip.of` restores it."""
        return json.dumps([self.path, self.start, self.end], ensure_ascii=False)

    @classmethod
    def of(cls, cell: str) -> "Clip":
        return cls(*json.loads(cell))

    def name(self, folder: Path) -> str:
        """The clip as messages name it: its file, with start and end times if the clip is only part of the file."""
        part = "" if self.start is None and self.end is None else f" ({self.start or 0:g} to {_end(self.end)})"
        return f"{folder / self.path}{part}"


class Sound(NamedTuple):
    """One channel of audio samples, and their sampling rate."""

    samples: Samples  # between −1 and 1
    rate: int


class SoundHeader(NamedTuple):
    """The length of a clip, and the sampling rate and number of channels of its file."""

    seconds: float
    rate: int
    channels: int


def sound_header(clip: Clip, *, folder: Path) -> SoundHeader:
    """The header of a clip's file, with the length of the clip. Raises a DataError if the file cannot be read."""
    with _open(folder / clip.path) as file:
        _, count = _part(clip, file, folder=folder)
        return SoundHeader(count / file.samplerate, file.samplerate, file.channels)


def read_sound(clip: Clip, *, folder: Path) -> Sound:
    """The samples of a clip, mixed down to mono. Raises a DataError that names the file if it cannot be used."""
    soundfile = _soundfile()
    with _open(folder / clip.path) as file:
        first, count = _part(clip, file, folder=folder)
        try:
            samples, read = _mixed(file, first=first, count=count)
        except (soundfile.SoundFileError, RuntimeError, ValueError, MemoryError) as error:
            raise DataError(f"{clip.name(folder)}: damaged audio: {_reason(error)}") from None
        rate = file.samplerate
    if read < count:
        raise DataError(
            f"{clip.name(folder)}: truncated: {read / rate:.2f} s of audio, but its header says {count / rate:.2f} s"
        )
    if not np.isfinite(samples).all():
        raise DataError(f"{clip.name(folder)}: damaged audio: some samples are infinite or not a number")
    return Sound(samples, rate)


def read_at_rate(clip: Clip, *, folder: Path, rate: int) -> Samples:
    """The samples of a clip, resampled if the sampling rate of its file is not `rate`."""
    sound = read_sound(clip, folder=folder)
    return resample(sound.samples, source=sound.rate, target=rate)


def to_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """The samples as 16-bit integers. Samples beyond ±1 are clipped."""
    scaled = samples * 32768.0
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -32768, 32767, out=scaled).astype(np.int16)


def clip_problem(clip: Clip, *, folder: Path) -> str | None:
    """A message that says why a clip cannot be used, or None if it can be. Decodes the whole clip."""
    try:
        read_sound(clip, folder=folder)
    except DataError as error:
        return str(error)
    return None


def _part(clip: Clip, file: Any, *, folder: Path) -> tuple[int, int]:
    """The index of a clip's first sample in its file, and the clip's number of samples."""
    total, rate = int(file.frames), int(file.samplerate)
    if not 100 <= rate <= 1_000_000 or file.channels < 1:
        raise DataError(
            f"{clip.name(folder)}: damaged audio: its header says {rate} samples per second, {file.channels} channels"
        )
    if total <= 0:
        raise DataError(f"{clip.name(folder)}: empty: no audio")
    start, end = clip.start or 0.0, total / rate if clip.end is None else clip.end
    is_inside = 0 <= start < end <= total / rate + 0.01  # false for NaN too; an end may be rounded to hundredths
    first, last = (round(start * rate), min(round(end * rate), total)) if is_inside else (0, 0)
    if first >= last:
        raise DataError(
            f"{clip.name(folder)}: the file has {total / rate:.2f} s of audio; the start must be before the end, and "
            "both must lie within the file"
        )
    if last - first > LONGEST * rate:
        raise DataError(f"{clip.name(folder)}: longer than {LONGEST // 3600} hours; split the recording")
    if last - first > MOST:
        raise DataError(
            f"{clip.name(folder)}: {last - first:,} samples per channel, but at most {MOST:,} can be read; "
            "split the recording"
        )
    return first, last - first


def _mixed(file: Any, *, first: int, count: int) -> tuple[Samples, int]:
    """`count` samples of a file from index `first` on, mixed down to mono, and how many of them could be read."""
    samples, read = np.empty(count, dtype=np.float32), 0
    file.seek(first)
    while read < count:
        channels = file.read(min(count - read, max(1, BLOCK // file.channels)), dtype="float32", always_2d=True)
        if not len(channels):
            break
        samples[read : read + len(channels)] = channels.mean(axis=1)
        read += len(channels)
    return samples, read


def _open(path: Path) -> Any:
    soundfile = _soundfile()
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # e.g. a name that is too long or has a NUL
        raise DataError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    if not S_ISREG(status.st_mode):
        raise DataError(f"{path}: not a regular file")
    try:
        return soundfile.SoundFile(path)
    except (soundfile.SoundFileError, RuntimeError, TypeError, OSError) as error:
        if status.st_size == 0:
            raise DataError(f"{path}: empty file") from None
        raise DataError(f"{path}: cannot be read as audio (wav, flac, ogg, …): {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """The reason that libsndfile gives for an error, without the file's name."""
    text = str(getattr(error, "error_string", "") or error).strip()
    return text.rstrip(".") or type(error).__name__


def _end(end: float | None) -> str:
    return "its end" if end is None else f"{end:g} s"


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError):
        raise DataError(MISSING) from None
    return soundfile
