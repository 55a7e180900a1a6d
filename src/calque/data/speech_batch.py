"""Batches of recordings with their transcripts.

Letters: B rows, W samples, T tokens. The decoder's inputs are BOS and the tokens, its outputs the tokens and EOS; CTC
reads the tokens alone. Padding rows, which fill a batch up to a static shape, have no samples and weight 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.audio import to_int16
from calque.data.batch import row_slices
from calque.data.batching import WHOLE, Planned, Shard
from calque.data.pair_batch import pad_ids, shifted
from calque.data.recognition_preparation import AUDIO, PEAK, TEXT
from calque.data.resampling import resample
from calque.data.store import Store, Widths
from calque.tensors import Padded

Array = NDArray[Any]


class SpeechBatch(NamedTuple):
    """Padded recordings and their transcripts."""

    audio: Padded  # values [B,W], int16; lengths in samples
    target_input: Tensor  # [B,T]
    target_output: Tensor  # [B,T], PAD at positions without a token to predict
    target_lengths: Tensor  # [B], on the CPU, EOS counted; 0 for a padding row
    weight: int  # tokens and ends to be predicted
    shared_weight: int  # the weight of all ranks that share this batch
    hop: int  # samples per frame

    @property
    def rows(self) -> int:
        return len(self.target_lengths)

    @property
    def positions(self) -> int:
        """The number of frames and target positions, padding included."""
        return self.rows * -(-self.audio.values.shape[1] // self.hop) + self.target_input.numel()

    @property
    def filled(self) -> int:
        return int(frame_counts(self.audio.lengths.numpy(), hop=self.hop).sum()) + self.weight

    @property
    def token_lengths(self) -> Tensor:
        """[B], the number of tokens of each transcript, on the CPU."""
        return (self.target_lengths - 1).clamp(min=0)

    def to(self, device: torch.device) -> "SpeechBatch":
        placed = self._map(lambda tensor: tensor.to(device, non_blocking=True))
        return placed._replace(audio=self.audio.to(device))

    def pin(self) -> "SpeechBatch":
        return self._map(Tensor.pin_memory)

    def split(self, parts: int) -> "list[SpeechBatch]":
        return [self] if parts == 1 else [self._rows(at) for at in row_slices(self.rows, parts=parts)]

    def _rows(self, at: slice) -> "SpeechBatch":
        lengths = self.target_lengths[at]
        return self._replace(
            audio=Padded(self.audio.values[at], self.audio.lengths[at]),
            target_input=self.target_input[at],
            target_output=self.target_output[at],
            target_lengths=lengths,
            weight=int(lengths.sum()),
        )

    def _map(self, function: Callable[[Tensor], Tensor]) -> "SpeechBatch":
        return self._replace(
            audio=self.audio._replace(values=function(self.audio.values)),
            target_input=function(self.target_input),
            target_output=function(self.target_output),
        )


def frame_counts(samples: Array, *, hop: int) -> Array:
    """The number of frames of each recording, given its number of samples."""
    counts: Array = np.maximum(1, -(-samples.astype(np.int64) // hop))
    return counts


def speech_widths(store: Store, *, hop: int, slowest: int = 100) -> list[Widths]:
    """The number of positions that each row takes in a batch: first its frames, then its tokens and EOS.

    Frames are counted for a recording played at the speed `slowest`, in percent of the recorded speed.
    """
    samples = -(-store[AUDIO].lengths.astype(np.int64) * 100 // slowest)
    return [Widths(frame_counts(samples, hop=hop)), store.widths(TEXT, marks=1)]


def collate_speech(
    store: Store,
    planned: Planned,
    *,
    hop: int,
    speeds: Sequence[int] = (100,),
    stream: tuple[int, ...] = (),
    shard: Shard = WHOLE,
    static: bool = False,
) -> SpeechBatch:
    """Collates a planned batch with padding; with a shard, only the rows of that rank.

    The recordings are padded to the longest of them or, if shapes are `static`, to the planned number of frames.

    Each recording is played at one of the `speeds` (in percent; Ko et al. 2015). The choice depends only on the row and
    on `stream`, such as the run's seed and the epoch.
    """
    shared_weight = int(store.widths(TEXT, marks=1)[planned.indices].sum())
    planned = planned.shard(shard)
    rows, (frames, width) = planned.size
    real = np.arange(len(planned.indices))
    waveforms = [
        _at_speed(store[AUDIO].row(int(index)), _speed(speeds, stream, int(index))) for index in planned.indices
    ]
    lengths = np.zeros(rows, dtype=np.int64)
    lengths[real] = [len(samples) for samples in waveforms]
    longest = int(lengths.max(initial=1))
    audio = np.zeros((rows, max(frames * hop, longest) if static else longest), dtype=np.int16)
    for row, samples in enumerate(waveforms):
        audio[row, : len(samples)] = samples
    ids, token_lengths = pad_ids(store[TEXT], planned.indices, size=(rows, width))
    inputs, outputs = shifted(ids, token_lengths, real=real)
    token_lengths[real] += 1
    return SpeechBatch(
        Padded(torch.from_numpy(audio), torch.from_numpy(lengths)),
        torch.from_numpy(inputs),
        torch.from_numpy(outputs),
        torch.from_numpy(token_lengths),
        weight=int(token_lengths.sum()),
        shared_weight=shared_weight,
        hop=hop,
    )


def _speed(speeds: Sequence[int], stream: tuple[int, ...], index: int) -> int:
    if len(speeds) == 1:
        return speeds[0]
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([*stream, index])))
    return speeds[int(generator.integers(len(speeds)))]


def _at_speed(samples: Array, speed: int) -> Array:
    """The samples of a recording played at `speed` percent of its own speed; above 100, there are fewer samples."""
    return samples if speed == 100 else to_int16(resample(samples / PEAK, source=speed, target=100))
