"""Speech recognisers: an encoder of recordings with a CTC head, an attention decoder, or both.

Graves et al. 2006 (CTC); Chan et al. 2016 (listen, attend and spell); Watanabe et al. 2017 (hybrid CTC/attention).

Letters: B recordings, W samples, S positions, T target, D width, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn

from calque.config import Config, refuse_unused
from calque.errors import ConfigError
from calque.layers.bounds import Width
from calque.layers.ctc import ctc_losses
from calque.layers.dropout import dropout
from calque.layers.output import FullOutputConfig, wide
from calque.layers.perturbation import PerturbationConfig
from calque.layers.spec_augment import SpecAugmentConfig
from calque.models.interfaces import Memory, MemoryShape
from calque.models.luong import LuongConfig
from calque.models.model import Context, DecoderConfig, DecoderModel, EncoderConfig, Sizes, build_decoder, build_encoder
from calque.models.outputs import build_output
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.speech_inputs import NormaliseOver, SpeechInputs, SubsamplingConfig
from calque.tensors import Padded

HeadName = Literal["ctc", "attention", "hybrid"]
SPELLER = LuongConfig(layers=1, width=256, embedding=64, bridge="zero")


class RecogniserConfig(Config):
    """An encoder of recordings, and the head that turns its memory into text."""

    kind: Literal["recogniser"] = "recogniser"
    head: HeadName = "ctc"
    """ctc: each position predicts a token or a blank. attention: a decoder attends to the recording. hybrid: both, with
    interpolated losses and joint decoding."""
    ctc_weight: float = Field(default=0.3, gt=0, lt=1)
    """λ of a hybrid: λ CTC + (1 − λ) attention, in the loss and in the score of decoding (Watanabe 2017, §III)."""
    features: Width = 80
    """Mel bands."""
    normalise: NormaliseOver = "utterance"
    """utterance, global: each band has mean 0 and variance 1, over each recording or over the training data. peak: all
    bands are relative to the loudest one of the recording. none: features are not normalised."""
    dynamic_range: float = Field(default=40.0, gt=0, le=120)
    """With normalise = "peak": values that are at least this many dB below the peak count as silence."""
    cepstrum: int = Field(default=0, ge=0)
    """Smooths the spectrum of each frame before it is normalised: only this many cepstral coefficients are kept, as in
    MFCCs, such as 10 for 40 bands. Features then depend less on pitch. 0 turns it off."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on the encoder's output before the CTC head."""
    augmentation: SpecAugmentConfig = SpecAugmentConfig()
    perturbation: PerturbationConfig = PerturbationConfig()
    subsampling: SubsamplingConfig = SubsamplingConfig()
    encoder: EncoderConfig = RecurrentEncoderConfig(layers=2, width=320, embedding=160, dropout=0.2)
    """The encoder of the subsampled frames. Its `embedding` (in a Transformer its `width`) is the width of the vectors
    that it reads."""
    decoder: DecoderConfig | None = None
    """The attention decoder, by default one LSTM layer with Luong's attention; not used if head = "ctc"."""

    @model_validator(mode="before")
    @classmethod
    def _decoder_by_head(cls, values: Any) -> Any:
        """Adds the default decoder if `head` needs one and none is given; removes any decoder if head = "ctc"."""
        if not isinstance(values, dict):
            return values
        decoder = values.get("decoder")
        if values.get("head", "ctc") == "ctc":
            return {key: value for key, value in values.items() if key != "decoder"}
        if decoder is None:
            return {**values, "decoder": SPELLER}
        return {**values, "decoder": {"kind": "luong", **decoder}} if isinstance(decoder, dict) else values

    @model_validator(mode="after")
    def _fitting(self, info: ValidationInfo) -> Self:
        used = {
            "ctc_weight": (self.head == "hybrid", "head = 'hybrid'"),
            "dynamic_range": (self.normalise == "peak", "normalise = 'peak'"),
        }
        refuse_unused(self, used, info)
        if self.cepstrum >= self.features:
            raise ValueError(f"cepstrum = {self.cepstrum} must be below features = {self.features}; 0 turns it off")
        if self.decoder is None:
            return self
        if getattr(self.decoder, "copies", False):
            raise ValueError(
                "decoder.copies = true cannot be used with recordings, which have no words to copy; set it to false"
            )
        if self.decoder.kind in ("recurrent", "cho"):
            raise ValueError(
                f"decoder.kind = {self.decoder.kind!r} has no attention, which recognisers need; choose another one"
            )
        if getattr(getattr(self.decoder, "attention", None), "choice", "soft") != "soft":
            raise ValueError("decoder.attention.choice = 'hard' is not supported in recognisers; set it to 'soft'")
        return self

    @property
    def has_ctc(self) -> bool:
        return self.head != "attention"

    @property
    def input_width(self) -> int:
        """Width of the vectors that the encoder reads."""
        return int(getattr(self.encoder, "embedding", self.encoder.width))


class RecogniserSizes(NamedTuple):
    """The sizes that a recogniser's parameters depend on, besides its config."""

    vocabulary: int
    rate: int  # samples per second


class Heard(NamedTuple):
    """An encoded batch of recordings."""

    memory: Memory
    lengths: Tensor  # [B], positions, on the CPU; without values in a captured pass


class Losses(NamedTuple):
    """The losses of a batch of transcripts, [B] each; those of absent heads are None."""

    ctc: Tensor | None
    attention: Tensor | None


class Speller(DecoderModel):
    """The attention decoder of a recogniser: the part of an encoder-decoder that reads a memory."""

    def __init__(self, config: DecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.decoder = build_decoder(config, vocabulary_size=vocabulary_size, memory=memory)
        self.output = build_output(FullOutputConfig(), vocabulary_size=vocabulary_size, width=self.decoder.width)
        self.baseline = None
        self.sizes = Sizes(0, vocabulary_size, joint=False)
        self.copies = False
        if self.decoder.draws is not None:
            raise ConfigError("model.decoder: recognisers do not support hard attention; choose soft attention")

    def attend(self, memory: Memory) -> Context:
        """The values that the decoder computes once per recording, given its memory."""
        return Context(self.decoder.prepare(memory), None)


class RecogniserModel(nn.Module):
    """A recogniser: an encoder with a CTC head, an attention decoder, or both."""

    def __init__(self, config: RecogniserConfig, *, sizes: RecogniserSizes) -> None:
        super().__init__()
        inputs = SpeechInputs(
            sizes.rate,
            bands=config.features,
            normalise=config.normalise,
            dynamic_range=config.dynamic_range,
            cepstrum=config.cepstrum,
            augmentation=config.augmentation,
            perturbation=config.perturbation,
            subsampling=config.subsampling,
            width=config.input_width,
        )
        self.encoder = build_encoder(config.encoder, inputs=inputs)
        shape = self.encoder.shape
        self.ctc = nn.Linear(shape.width, sizes.vocabulary) if config.has_ctc else None
        self.speller: Speller | None = None
        if config.decoder is not None:
            self.speller = Speller(config.decoder, vocabulary_size=sizes.vocabulary, memory=shape)
        self.ctc_weight = {"ctc": 1.0, "attention": 0.0, "hybrid": config.ctc_weight}[config.head]
        self.dropout = config.dropout
        self.sizes = sizes

    @property
    def inputs(self) -> SpeechInputs:
        inputs = self.encoder.inputs
        assert isinstance(inputs, SpeechInputs)
        return inputs

    def forward(self, audio: Padded) -> Heard:
        """Encodes recordings [B,W]; a recording without samples is read as one frame of silence."""
        memory: Memory = self.encoder(audio)
        return Heard(memory, self.inputs.positions(audio.lengths))

    def ctc_log_probs(self, heard: Heard) -> Tensor:
        """The log-probabilities [B,S,V] of a token or a blank at each position, in at least float32."""
        assert self.ctc is not None
        hidden = dropout(heard.memory.values, self.dropout, self.training)
        return wide(self.ctc(hidden)).log_softmax(dim=-1)

    def losses(
        self,
        heard: Heard,
        target_input: Tensor,
        target_output: Tensor,
        token_lengths: Tensor,
        *,
        smoothing: float = 0.0,
    ) -> Losses:
        """The losses of transcripts [B,T]; `token_lengths` [B], on the CPU, do not count end marks.

        A captured pass does not know lengths on the host; they are then counted on the device.
        """
        ctc, attention = None, None
        counts = target_output != 0
        if self.ctc is not None:
            lengths = heard.lengths
            if lengths.is_meta:
                lengths, token_lengths = heard.memory.mask.sum(dim=1), (counts.sum(dim=1) - 1).clamp(min=0)
            ctc = ctc_losses(self.ctc_log_probs(heard), target_output, lengths, token_lengths)
        if self.speller is not None:
            context = self.speller.attend(heard.memory)
            output, _ = self.speller.read(target_input, self.speller.start(context), context)
            tokens = self.speller.losses(
                output, target_output, target_output, smoothing=smoothing if self.training else 0.0, ignored=0
            )
            extra = sum((losses * counts for losses in output.losses.values()), torch.zeros_like(tokens))
            attention = (tokens + extra).sum(dim=1)
        return Losses(ctc, attention)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """A context in which the model is in evaluation mode; its previous mode is restored afterwards."""
        was_training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(was_training)
