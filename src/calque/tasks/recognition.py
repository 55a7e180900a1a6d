"""Speech recognition: transcribing recordings."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.recognition_preparation import AUDIO, TEXT
from calque.data.speech_batch import SpeechBatch, collate_speech, speech_widths
from calque.data.store import ColumnKind, Store
from calque.layers.log_mel import hop_size
from calque.models.recogniser import Heard, RecogniserModel
from calque.tasks.interfaces import Carry, Loss
from calque.text import PAD


class RecognitionConfig(Config):
    """Speech recognition: a model reads a recording and generates its transcript."""

    kind: Literal["recognition"] = "recognition"
    rate: int = Field(default=16_000, ge=2_000, le=192_000)
    """The sampling rate of the audio that the model reads, in samples per second."""
    resample: bool = True
    """Resample recordings with other sampling rates; if false, they are rejected."""
    longest: float = Field(default=30.0, gt=0, le=3600)
    """The length of the longest recording, in seconds. Longer training recordings are left out and counted; longer
    files are transcribed in parts."""
    speeds: tuple[int, ...] = (100,)
    """Speeds in percent, one of which is drawn per recording and epoch, such as [90, 100, 110] (Ko et al. 2015)."""

    @field_validator("speeds", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        """Accepts a list and, from the command line, also `task.speeds=90,100,110` or `task.speeds=90`."""
        if isinstance(value, int):
            return [value]
        return value.split(",") if isinstance(value, str) else value

    @field_validator("speeds")
    @classmethod
    def _within_reason(cls, speeds: tuple[int, ...]) -> tuple[int, ...]:
        if not speeds or any(not 50 <= speed <= 200 for speed in speeds):
            found = ", ".join(map(str, speeds)) or "no speeds"
            raise ValueError(f"found {found}; expected one or more speeds from 50 to 200 percent")
        return speeds

    @property
    def hop(self) -> int:
        """The number of samples per frame."""
        return hop_size(self.rate)


class Recognition:
    """The task of a recogniser: minimises λ L_CTC + (1 − λ) L_attention, negative log-probabilities of transcripts."""

    reads: Mapping[str, ColumnKind] = {AUDIO: ColumnKind("<i2"), TEXT: ColumnKind()}
    divisible = True

    def __init__(self, config: RecognitionConfig, *, parts: tuple[str, ...], seed: int, smoothing: float = 0.0) -> None:
        self.config = config
        self.parts = parts
        self.seed = seed
        self.smoothing = smoothing
        self._is_static = False

    @property
    def order_settings(self) -> Mapping[str, object]:
        return {"speeds": list(self.config.speeds)}

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        self._is_static = config.shapes == "static"
        widths = speech_widths(store, hop=self.config.hop, slowest=min(self.config.speeds))
        return Bucketed(widths, spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> SpeechBatch:
        speeds, stream = self.config.speeds, (self.seed, epoch)
        return collate_speech(
            store,
            planned,
            hop=self.config.hop,
            speeds=speeds,
            stream=stream,
            shard=shard,
            static=self._is_static,
        )

    def loss(self, model: nn.Module, batch: SpeechBatch, *, step: int, carry: Carry | None = None) -> Loss:
        assert isinstance(model, RecogniserModel)
        return recognition_loss(model, batch, smoothing=self.smoothing)

    def capturable(self, model: nn.Module) -> bool:
        """Whether the loss can be captured as a CUDA graph: always, as it needs neither the host nor the step."""
        return True

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Does nothing: recognisers have no running statistics to update."""


def loss_parts(head: str) -> tuple[str, ...]:
    """The names of the components of a recogniser's loss."""
    return ("loss", "ctc", "attention") if head == "hybrid" else ("loss",)


def recognition_loss(
    model: RecogniserModel, batch: SpeechBatch, *, smoothing: float = 0.0, heard: Heard | None = None
) -> Loss:
    """The loss of a batch on the model's device, summed over its transcripts; rows of padding add nothing.

    `heard` is the encoded audio of the batch, if it is known already.
    """
    heard = model(batch.audio) if heard is None else heard
    losses = model.losses(heard, batch.target_input, batch.target_output, batch.token_lengths, smoothing=smoothing)
    is_real = (batch.target_output != PAD).any(dim=1)
    sums = {name: torch.where(is_real, part, 0).sum() for name, part in losses._asdict().items() if part is not None}
    weights = {"ctc": model.ctc_weight, "attention": 1 - model.ctc_weight}
    total = sum((weights[name] * part for name, part in sums.items()), torch.zeros((), device=is_real.device))
    detached = {name: part.detach() for name, part in sums.items()} if len(sums) == 2 else {}
    return Loss(total, {"loss": total.detach(), **detached})
