"""ConvS2S (Gehring et al. 2017, "Convolutional Sequence to Sequence Learning").

Differences from the paper: all layers of the encoder or decoder share one width and kernel; the output layer has no
weight normalisation (§4.2 uses it everywhere except in lookup tables); positions beyond the table share the last one.
Where the authors' code differs from the paper: like the code, we map the attention output c back to the layers' width
and attend before the residual sum; unlike the code, we scale neither the queries W h + b + g nor the values z + e by
√0.5, and we divide the encoder's gradient by the number of attention layers, not by twice that number.

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, k kernel.
"""

from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.attention import masked_softmax
from calque.layers.bounds import Kernel, Layers, Places, Width
from calque.layers.convolution import GatedConvolution, NormalisedLinear, scale_gradient
from calque.layers.dropout import dropout
from calque.layers.embedding import embed
from calque.layers.observers import AttentionLayer
from calque.models.interfaces import Decoder, Encoder, Inputs, Memory, MemoryShape, Output
from calque.tensors import Slots, fold, unfold

ROOT_HALF = 0.5**0.5  # √0.5, which preserves the variance of a sum of two (§3.4)


class ConvolutionalConfig(Config):
    """The settings common to encoder and decoder."""

    kind: Literal["convolutional"] = "convolutional"
    layers: Layers = 4
    """Number of blocks."""
    width: Width = 256
    """Width of the blocks."""
    embedding: Width = 256
    """Width of word and position vectors, and of the output of the last block."""
    kernel: Kernel = 3
    """Kernel size: the number of adjacent positions that a convolution sees."""
    maximum_positions: Places = 1024
    """Number of positions with their own vector; later positions share the last one."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the embeddings, on the input of each convolution and, in the decoder, before the output layer."""


class ConvolutionalEncoderConfig(ConvolutionalConfig):
    """Centred gated convolutions over the source; the kernel size must be odd."""

    @model_validator(mode="after")
    def _odd(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel {self.kernel} must be odd: an encoder sees equally many positions on both sides")
        return self


class ConvolutionalEncoder(Encoder):
    """hˡ = √0.5 (v(W [hˡ⁻¹ᵢ₋ₖ/₂; …; hˡ⁻¹ᵢ₊ₖ/₂] + b) + hˡ⁻¹ᵢ), where v is the gated linear unit (§3.2, §3.4).

    The values of the memory are z, the outputs of the last block, mapped back to the embeddings' width; the inputs of
    the memory are e, the embeddings.
    """

    def __init__(
        self, config: ConvolutionalEncoderConfig, *, vocabulary_size: int = 0, inputs: Inputs | None = None
    ) -> None:
        super().__init__()
        retained = 1 - config.dropout
        self.inputs = inputs
        self.embedding = (
            PositionedEmbedding(config, vocabulary_size=vocabulary_size)
            if inputs is None
            else PositionedVectors(config, width=inputs.width)
        )
        self.enter = NormalisedLinear(config.embedding, outputs=config.width, retained=retained)
        self.convolutions = nn.ModuleList(
            GatedConvolution(config.width, kernel=config.kernel, retained=retained) for _ in range(config.layers)
        )
        self.leave = NormalisedLinear(config.width, outputs=config.embedding)
        self.reach = config.kernel // 2
        self.dropout = config.dropout
        self.shape = MemoryShape(width=config.embedding, layers=1, parts=1, inputs=config.embedding)

    def forward(self, source: Any) -> Memory:
        read = self.read(source)
        mask = read.mask
        inputs = self.embedding(read.values, torch.arange(mask.shape[1], device=mask.device)[None])
        stream = self.enter(inputs)
        for convolution in self._convolutions():
            window = zero_padding(dropout(stream, self.dropout, self.training), mask)
            stream = ROOT_HALF * (convolution(F.pad(window, (0, 0, self.reach, self.reach))) + stream)
            stream = convolution.observed_states(stream)
        values = self.leave(stream)
        mean = zero_padding(values, mask).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return Memory(values, mask, inputs, read.tokens, (mean[:, None],))

    def _convolutions(self) -> list[GatedConvolution]:
        return [layer for layer in self.convolutions if isinstance(layer, GatedConvolution)]


class ConvolutionalDecoderConfig(ConvolutionalConfig):
    """Gated convolutions over the target prefix, each followed by attention."""


class ConvolutionalContext(NamedTuple):
    keys: Tensor  # [B,S,E], z
    values: Tensor  # [B,S,E], √m·(z + e) for m source tokens
    mask: Tensor  # [B,S]
    slots: Slots | None = None


class ConvolutionalState(NamedTuple):
    """The last k − 1 inputs of each convolution, which the next tokens need; zeros before the first token."""

    tails: tuple[Tensor, ...]  # [N,k−1,D] per layer
    position: Tensor  # [N]


class ConvolutionalDecoder(Decoder[ConvolutionalState, ConvolutionalContext]):
    """The decoder of ConvS2S: in each layer, a causal gated convolution, then attention (Gehring 2017, §3.2-3.4).

    hˡ = √0.5 (√0.5 (vˡ + cˡ) + hˡ⁻¹), where vˡ = v(W [hˡ⁻¹ᵢ₋ₖ₊₁; …; hˡ⁻¹ᵢ] + b), v is the gated linear unit and cˡ the
    attention of vˡ.
    """

    has_fixed_state = True
    parallel = True

    def __init__(self, config: ConvolutionalDecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        if not memory.width == memory.inputs == config.embedding:
            raise ValueError(
                f"a convolutional decoder needs equal widths, but the encoder's output has {memory.width}, the source "
                f"embeddings have {memory.inputs} and its own embeddings {config.embedding}; set encoder.embedding and "
                "decoder.embedding to the same value, and encoder.width too unless the encoder is convolutional"
            )
        retained = 1 - config.dropout
        self.embedding = PositionedEmbedding(config, vocabulary_size=vocabulary_size)
        self.enter = NormalisedLinear(config.embedding, outputs=config.width, retained=retained)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.leave = NormalisedLinear(config.width, outputs=config.embedding)
        self.dropout = config.dropout
        self.width = config.embedding

    def prepare(self, memory: Memory) -> ConvolutionalContext:
        """The keys z and values √m·(z + e) of all attention layers, for m source tokens (Gehring 2017, §3.4).

        The factor is m·√(1/m) = √m. In training, the gradient of z, but not of e, is divided by the number of layers.
        """
        scale = 1 / len(self.layers) if self.training else 1.0  # a trick of training: saliency needs true gradients
        keys = scale_gradient(memory.values, scale=scale)
        size = memory.mask.sum(dim=1).to(keys.dtype)[:, None, None]
        values = size.sqrt() * (keys + memory.inputs)
        wide = self._layers()[0].wide
        return ConvolutionalContext(wide(keys), wide(values), memory.mask)

    def start(self, context: ConvolutionalContext) -> ConvolutionalState:
        rows, like = context.keys.shape[0], self.embedding.weight
        tails = tuple(
            like.new_zeros(rows, layer.convolution.kernel - 1, layer.convolution.width) for layer in self._layers()
        )
        return ConvolutionalState(tails, torch.zeros(rows, dtype=torch.long, device=context.keys.device))

    def forward(
        self, tokens: Tensor, state: ConvolutionalState, context: ConvolutionalContext, *, attention: bool = False
    ) -> tuple[Output, ConvolutionalState]:
        size = tokens.shape[1]
        embedded = self.embedding(tokens, state.position[:, None] + torch.arange(size, device=tokens.device))
        stream = self.enter(embedded)
        tails, weights = [], []
        for layer, tail in zip(self._layers(), state.tails, strict=True):
            window = torch.cat([tail, dropout(stream, self.dropout, self.training)], dim=1)
            gated = layer.convolution(window)
            attended, layer_weights = layer.attend(gated, embedded, context)
            stream = layer.convolution.observed_states(ROOT_HALF * (ROOT_HALF * (gated + attended) + stream))
            tails.append(window[:, size:])
            weights.append(layer_weights)
        hidden = dropout(self.leave(stream), self.dropout, self.training)
        mean = torch.stack(weights).mean(dim=0) if attention else None
        return Output(hidden, mean), ConvolutionalState(tuple(tails), state.position + size)

    def _layers(self) -> list["DecoderLayer"]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


class DecoderLayer(AttentionLayer):
    """A layer of the ConvS2S decoder: a gated convolution and the attention of its outputs over the source."""

    def __init__(self, config: ConvolutionalDecoderConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config.width, kernel=config.kernel, retained=1 - config.dropout)
        self.query = NormalisedLinear(config.width, outputs=config.embedding)
        self.found = NormalisedLinear(config.embedding, outputs=config.width)

    def attend(self, gated: Tensor, embedded: Tensor, context: ConvolutionalContext) -> tuple[Tensor, Tensor]:
        """The attention output c [N,T,D] and the attention weights a [N,T,S] (Gehring 2017, eq. 1, 2).

        c = W_c Σⱼ aⱼ √m (zⱼ + eⱼ) + b_c with a = softmax(d·z) and d = W h + b + g, where h is the output `gated` of the
        convolution, g the `embedded` target tokens and m the number of source tokens.
        """
        rows, dtype = gated.shape[0], gated.dtype
        queries = self.wide(fold(self.query(gated) + embedded, sentences=context.mask.shape[0], slots=context.slots))
        weights = masked_softmax(queries @ context.keys.transpose(1, 2), context.mask[:, None])
        weights = self.observed(weights[:, None]).squeeze(1) if self.shows_weights else weights
        attended = unfold(weights @ context.values, rows=rows, slots=context.slots).to(dtype)
        return self.found(attended), unfold(weights, rows=rows, slots=context.slots).to(dtype)


class PositionedEmbedding(nn.Module):
    """e = w + p: a token's vector plus its learned position vector, with dropout (§3.1)."""

    def __init__(self, config: ConvolutionalConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, config.embedding))
        self.positions = nn.Parameter(torch.empty(config.maximum_positions, config.embedding))
        self.dropout = config.dropout
        nn.init.normal_(self.weight, std=0.1)
        nn.init.normal_(self.positions, std=0.1)

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        """The vectors [N,T,E] of tokens [N,T] at positions [N,T]; positions beyond the table share its last vector."""
        return dropout(embed(tokens, self.weight) + _at(self.positions, places), self.dropout, self.training)


class PositionedVectors(nn.Module):
    """Input vectors with learnt positions p: e = W x + p, with dropout, where x comes from the encoder's `inputs`."""

    def __init__(self, config: ConvolutionalConfig, *, width: int) -> None:
        super().__init__()
        self.linear = NormalisedLinear(width, outputs=config.embedding)
        self.positions = nn.Parameter(torch.empty(config.maximum_positions, config.embedding))
        self.dropout = config.dropout
        nn.init.normal_(self.positions, std=0.1)

    def forward(self, vectors: Tensor, places: Tensor) -> Tensor:
        """The projected `vectors` [B,S,E] with their position vectors added; `places` [B,S] are the positions."""
        return dropout(self.linear(vectors) + _at(self.positions, places), self.dropout, self.training)


def _at(positions: Tensor, places: Tensor) -> Tensor:
    """The rows [N,T,E] of the table `positions` at `places` [N,T]; places beyond the table get its last row."""
    return F.embedding(places.clamp(max=positions.shape[0] - 1), positions)


def zero_padding(values: Tensor, mask: Tensor) -> Tensor:
    """The values [B,S,D], with zeros where the mask [B,S] is false, like the paper's padding."""
    return values.masked_fill(~mask[..., None], 0)
