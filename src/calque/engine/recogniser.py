"""The recogniser: recordings in, text out."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray

from calque.data.audio import Clip, Samples, Sound, read_sound, to_int16
from calque.data.batching import BatchConfig, Bucketed
from calque.data.resampling import resample
from calque.data.speech_batch import collate_speech, speech_widths
from calque.data.store import Store
from calque.devices import is_out_of_memory
from calque.engine.sound_parts import SoundPart, TimedToken, join_positions, join_tokens, split_sound
from calque.engine.speech_decoding import Decoded, SpeechDecoder, SpeechSearch
from calque.engine.text_generator import TextGenerator
from calque.errors import CalqueError, ConfigError, DataError, FolderError, OutOfMemory
from calque.layers.int8 import parameter_count
from calque.models.recogniser import RecogniserConfig, RecogniserModel
from calque.search.settings import SearchConfig
from calque.tasks.recognition import RecognitionConfig, recognition_loss
from calque.tensors import Padded, exact
from calque.text import Tokenizer

TOGETHER = 256  # recordings that are sorted by length together and grouped into batches, at most
TOGETHER_SAMPLES = 20_000_000  # samples of these recordings: 20 minutes at 16 kHz; one recording may have more
BATCH_FRAMES = 12_000  # frames per batch, padding included: two minutes
OVERLAP = 2.0  # seconds by which the parts of a long recording overlap
NO_MEMORY = "there is not enough memory to transcribe this recording; set a lower --chunk"

Recording = str | Path | Sound | Clip


class TimedWord(NamedTuple):
    """A word and when it is heard, in seconds."""

    word: str
    start: float
    end: float


class TranscriptCandidate(NamedTuple):
    """One of the n best transcripts of a recording."""

    text: str
    score: float  # candidates are ranked by it
    log_prob: float


class Transcript(NamedTuple):
    """The text of a recording.

    >>> transcript = recogniser.transcribe("hello.wav", timestamps=True)
    >>> transcript.text, transcript.words[0]
    ('hello world', TimedWord(word='hello', start=0.12, end=0.48))
    """

    text: str
    candidates: list[TranscriptCandidate]  # at least one, best first; one only for a recording in parts
    seconds: float
    words: list[TimedWord] | None = None  # if timestamps are requested
    parts: int = 1  # into which a long recording was split

    def __str__(self) -> str:
        return self.text


SpeechAnswer = Transcript | CalqueError
"""The result for a recording: its transcript, or an error that concerns this recording alone."""


class StoreTranscripts(NamedTuple):
    """The transcripts of a store's rows, and the loss of the reference transcripts."""

    texts: list[str]
    loss: float  # per token, ends counted


class _Job(NamedTuple):
    """A recording that is being transcribed, and the parts into which it is split."""

    samples: NDArray[np.int16]
    parts: list[SoundPart]
    name: str  # before messages: its file and ": ", or nothing


class Recogniser:
    """A speech recogniser with its tokenizer.

    >>> recogniser = calque.load("runs/digits")
    >>> print(recogniser.transcribe("call.wav"))
    four two seven
    """

    def __repr__(self) -> str:
        parameters = parameter_count(self.model)
        return f"Recogniser({self.config.encoder.kind}, {self.config.head}, {parameters:,} parameters, {self.device})"

    def __init__(
        self,
        model: RecogniserModel,
        tokenizer: Tokenizer,
        *,
        config: RecogniserConfig,
        task: RecognitionConfig,
        search: SearchConfig,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config = config
        self.task = task
        self.search = search

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def stride(self) -> int:
        """The number of audio samples per encoder position."""
        return self.task.hop * self.config.subsampling.factor

    @overload
    def transcribe(
        self,
        audio: Recording,
        *,
        search: SearchConfig | None = None,
        nbest: int = 1,
        timestamps: bool = False,
        language: TextGenerator | None = None,
        chunk: float | None = None,
    ) -> Transcript: ...
    @overload
    def transcribe(
        self,
        audio: list[str] | list[Path] | list[Sound] | list[Clip],
        *,
        search: SearchConfig | None = None,
        nbest: int = 1,
        timestamps: bool = False,
        language: TextGenerator | None = None,
        chunk: float | None = None,
    ) -> list[Transcript]: ...
    def transcribe(
        self,
        audio: Recording | list[str] | list[Path] | list[Sound] | list[Clip],
        *,
        search: SearchConfig | None = None,
        nbest: int = 1,
        timestamps: bool = False,
        language: TextGenerator | None = None,
        chunk: float | None = None,
    ) -> Transcript | list[Transcript]:
        """The transcript of a recording (the path of an audio file, or samples as a `Sound`), or of each one in a list.

        A recording longer than `chunk` seconds (by default `task.longest`, the limit in training) is transcribed in
        parts. Raises an error for a recording that cannot be read.

        >>> recogniser.transcribe("call.wav").text
        >>> recogniser.transcribe(Sound(samples, rate=48000), nbest=5).candidates
        >>> recogniser.transcribe(["a.wav", "b.flac"], language=calque.load("runs/english"))
        """
        given: list[Recording] = list(audio) if isinstance(audio, list) else [audio]
        transcripts = []
        for answer in self.answers(
            given, search=search, nbest=nbest, timestamps=timestamps, language=language, chunk=chunk
        ):
            if isinstance(answer, CalqueError):
                raise answer
            transcripts.append(answer)
        return transcripts if isinstance(audio, list) else transcripts[0]

    def answers(
        self,
        recordings: Iterable[Recording],
        *,
        search: SearchConfig | None = None,
        nbest: int = 1,
        timestamps: bool = False,
        language: TextGenerator | None = None,
        chunk: float | None = None,
        batch_frames: int = BATCH_FRAMES,
    ) -> Iterator[SpeechAnswer]:
        """A transcript or an error for each recording, in order. A result does not depend on the other recordings."""
        settings = self.settings(search=search, nbest=nbest, timestamps=timestamps, language=language)
        longest = self.task.longest if chunk is None else chunk
        if not math.isfinite(longest * self.task.rate):
            raise ConfigError(f"chunk is {longest:g} s: expected a finite number of seconds, such as 20")
        if longest * self.task.rate < 4 * self.stride:
            raise ConfigError(f"chunk is {longest:g} s: that is too short to recognise anything; give at least 1 s")
        for jobs in _groups(self._job(recording, longest=longest) for recording in recordings):
            yield from self._group(jobs, settings, longest=longest, batch_frames=batch_frames)

    def settings(
        self, *, search: SearchConfig | None, nbest: int, timestamps: bool, language: TextGenerator | None
    ) -> SpeechSearch:
        """The settings of decoding; raises an error if they cannot be combined."""
        search = search or self.search
        if search.method != "beam":
            raise ConfigError(
                f"search.method = {search.method!r} is not supported for speech recognisers; set it to 'beam'"
            )
        if not 1 <= nbest <= search.beam:
            raise ConfigError(f"nbest is {nbest} and beam is {search.beam}: nbest must be between 1 and beam")
        if language is not None and language.tokenizer.to_bytes() != self.tokenizer.to_bytes():
            raise FolderError(
                "the pieces of the language model differ from those of the recogniser; train it with the recogniser's "
                'vocabulary (text.kind = "given", text.path = the recogniser\'s run)'
            )
        return SpeechSearch(search, nbest, timestamps, language)

    @torch.inference_mode()
    def transcribe_store(
        self, store: Store, *, search: SearchConfig, batch: BatchConfig, stop: Callable[[], None] | None = None
    ) -> StoreTranscripts:
        """The transcripts of all recordings in a store, each decoded as a whole, and the loss of the reference texts.

        `stop` is called before each batch and may raise. The model must be in evaluation mode.
        """
        settings = self.settings(search=search, nbest=1, timestamps=False, language=None)
        texts = [""] * len(store)
        total, tokens = exact(torch.zeros((), device=self.device)), 0
        config, widths = batch.model_copy(update={"shapes": "exact"}), speech_widths(store, hop=self.task.hop)
        decoder = SpeechDecoder(self.model, settings)
        for planned in Bucketed(widths, spans=store.spans, config=config, seed=0).batches(0):
            if stop is not None:
                stop()
            rows = collate_speech(store, planned, hop=self.task.hop)
            placed = rows.to(self.device)
            heard = self.model(placed.audio)
            total += exact(recognition_loss(self.model, placed, heard=heard).objective)
            tokens += rows.weight
            for index, decoded in zip(planned.indices.tolist(), decoder.decode(heard), strict=True):
                texts[index] = self.tokenizer.decode(decoded[0].tokens)
        return StoreTranscripts(texts, float(total) / max(1, tokens))

    def _group(
        self, jobs: "Sequence[_Job | CalqueError]", settings: SpeechSearch, *, longest: float, batch_frames: int
    ) -> Iterator[SpeechAnswer]:
        pieces = [
            (number, part) for number, job in enumerate(jobs) if isinstance(job, _Job) for part in range(len(job.parts))
        ]
        size = int(longest * self.task.rate) // self.stride * self.stride
        waveforms = {}
        for number, part in pieces:
            job = jobs[number]
            assert isinstance(job, _Job)
            first = job.parts[part].first * self.stride
            whole = len(job.parts) == 1
            waveforms[number, part] = job.samples if whole else job.samples[first : first + size]
        results: dict[tuple[int, int], Decoded | OutOfMemory] = {}
        for batch in _batches(
            pieces, [len(waveforms[piece]) for piece in pieces], samples=batch_frames * self.task.hop
        ):
            results |= zip(batch, self._isolated([waveforms[piece] for piece in batch], settings), strict=True)
        for number, job in enumerate(jobs):
            if isinstance(job, CalqueError):
                yield job
            else:
                own = [results[number, part] for part in range(len(job.parts))]
                decoded = [result for result in own if isinstance(result, Decoded)]
                is_whole = len(decoded) == len(own)
                yield self._finish(job, decoded, settings) if is_whole else OutOfMemory(f"{job.name}{NO_MEMORY}")

    def samples(self, recording: Recording) -> NDArray[np.int16]:
        """The samples of a recording as the model reads them; raises an error for one that cannot be read."""
        clip = Clip(str(recording)) if isinstance(recording, str | Path) else recording
        return to_int16(self._samples(clip, name=_name(clip)))

    def _job(self, recording: Recording, *, longest: float) -> _Job | CalqueError:
        name = _name(Clip(str(recording)) if isinstance(recording, str | Path) else recording)
        try:
            samples = self.samples(recording)
        except CalqueError as error:
            return error
        except MemoryError:
            return OutOfMemory(f"{name}there is not enough memory to read this recording; split it")
        positions = -(-len(samples) // self.stride)
        grid = int(longest * self.task.rate) // self.stride
        parts = split_sound(positions, longest=grid, overlap=round(OVERLAP * self.task.rate / self.stride))
        return _Job(samples, parts, name)

    def _samples(self, recording: Clip | Sound, *, name: str) -> Samples:
        sound = read_sound(recording, folder=Path()) if isinstance(recording, Clip) else recording
        samples = np.asarray(sound.samples, dtype=np.float32)
        samples = samples.mean(axis=1) if samples.ndim == 2 else samples
        if samples.ndim != 1 or not len(samples) or not np.isfinite(samples).all():
            raise DataError(
                f"{name}the samples are invalid; expected a non-empty array of finite numbers, [samples] or "
                "[samples, channels]"
            )
        if sound.rate != self.task.rate and not self.task.resample:
            raise DataError(
                f"{name}the recording has {sound.rate} samples per second, but this model reads {self.task.rate} and "
                "does not resample (task.resample = false); convert the recording"
            )
        return resample(samples, source=sound.rate, target=self.task.rate)

    def _isolated(self, waveforms: Sequence[np.ndarray], settings: SpeechSearch) -> list[Decoded | OutOfMemory]:
        """Decodes a batch. If memory runs out, decodes its halves; a waveform that does not fit alone gets an error."""
        try:
            return list(self._decode(waveforms, settings))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        if len(waveforms) == 1:
            return [OutOfMemory(NO_MEMORY)]
        middle = len(waveforms) // 2
        return [
            result for half in (waveforms[:middle], waveforms[middle:]) for result in self._isolated(half, settings)
        ]

    @torch.inference_mode()
    def _decode(self, waveforms: Sequence[np.ndarray], settings: SpeechSearch) -> list[Decoded]:
        lengths = torch.tensor([len(samples) for samples in waveforms])
        values = torch.zeros(len(waveforms), int(lengths.max()), dtype=torch.int16)
        for row, samples in enumerate(waveforms):
            values[row, : len(samples)] = torch.from_numpy(samples)
        with self.model.evaluating():
            heard = self.model(Padded(values, lengths).to(self.device))
            return SpeechDecoder(self.model, settings).results(heard)

    @torch.inference_mode()
    def _finish(self, job: _Job, results: Sequence[Decoded], settings: SpeechSearch) -> Transcript:
        """The transcript of a recording, given the results of its parts.

        For a model with CTC alone, the probabilities of the parts are joined and decoded again; otherwise, their tokens
        are joined.
        """
        decoder, seconds = SpeechDecoder(self.model, settings), len(job.samples) / self.task.rate
        if len(results) == 1:
            result = results[0]
        elif self.model.speller is None:
            log_probs = [result.log_probs for result in results if result.log_probs is not None]
            result = decoder.decode_ctc(join_positions(job.parts, log_probs))
        else:
            timed = [result.timed(decoder, best=0) for result in results]
            tokens = join_tokens(job.parts, timed)
            score = sum(result.candidates[0].score for result in results)
            result = Decoded.joined(tokens, score=score)
        candidates = [
            TranscriptCandidate(self.tokenizer.decode(found.tokens), found.score, found.log_prob)
            for found in result.candidates
        ]
        words = self.words(result.timed(decoder, best=0)) if settings.timestamps else None
        return Transcript(candidates[0].text, candidates, seconds, words, len(job.parts))

    def words(self, tokens: Sequence[TimedToken]) -> list[TimedWord]:
        """The words that timed tokens form, with the times of the words. Words are separated by white space."""
        words: list[tuple[bytes, int, int]] = []
        is_inside = False
        surfaces = self.tokenizer.surfaces()
        for token, first, end in tokens:
            for place, part in enumerate(surfaces[token].replace(b"\t", b" ").split(b" ")):
                is_inside = is_inside and place == 0
                if part and is_inside:
                    text, start, _ = words[-1]
                    words[-1] = (text + part, start, end)
                elif part:
                    words.append((part, first, end))
                    is_inside = True
        second = self.stride / self.task.rate
        return [
            TimedWord(text.decode(errors="replace"), round(first * second, 3), round(end * second, 3))
            for text, first, end in words
        ]


def _name(recording: Clip | Sound) -> str:
    """The prefix of messages about a recording: its file name and ": ", or nothing if it was passed as samples."""
    return f"{recording.name(Path())}: " if isinstance(recording, Clip) else ""


def _groups(jobs: "Iterable[_Job | CalqueError]") -> "Iterator[list[_Job | CalqueError]]":
    """Groups of consecutive recordings, each small enough to be kept in memory."""
    group: list[_Job | CalqueError] = []
    samples = 0
    for job in jobs:
        group.append(job)
        samples += len(job.samples) if isinstance(job, _Job) else 0
        if len(group) == TOGETHER or samples >= TOGETHER_SAMPLES:
            yield group
            group, samples = [], 0
    if group:
        yield group


def _batches(
    pieces: Sequence[tuple[int, int]], lengths: Sequence[int], *, samples: int
) -> Iterator[list[tuple[int, int]]]:
    """Yields batches of `pieces` (parts of recordings) of similar length, within a budget of `samples` with padding."""
    batch: list[tuple[int, int]] = []
    for length, piece in sorted(zip(lengths, pieces, strict=True)):
        if batch and (len(batch) + 1) * length > samples:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch
