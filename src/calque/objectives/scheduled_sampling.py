"""Scheduled sampling: the decoder reads some of its own predictions. Letters: B sentences, T target, M positions."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, assert_never

import torch
from pydantic import Field, field_validator
from torch import Tensor

from calque.config import Config
from calque.data.pair_batch import PairBatch
from calque.layers.attention import draw
from calque.models.interfaces import Output
from calque.models.model import Context, Model
from calque.objectives.decoding_step import MARKS
from calque.tensors import length_mask

Choice = Literal["sample", "best"]


class InverseSigmoidConfig(Config):
    """The decoder reads the reference word with probability k / (k + exp(i / k)) at step i; it is ½ at i = k·ln k."""

    kind: Literal["inverse-sigmoid"] = "inverse-sigmoid"
    k: float = Field(default=2000.0, ge=1)
    """The larger k is, the more slowly the probability decays."""


class ExponentialConfig(Config):
    """The decoder reads the reference word with probability kⁱ at step i."""

    kind: Literal["exponential"] = "exponential"
    k: float = Field(default=0.9999, gt=0, lt=1)
    """The factor by which the probability decays per step."""


class LinearConfig(Config):
    """The decoder reads the reference word with probability k − c·i at step i."""

    kind: Literal["linear"] = "linear"
    k: float = Field(default=1.0, gt=0, le=1)
    """The initial probability."""
    c: float = Field(default=1e-5, gt=0)
    """The decrease of the probability per step."""


DecayConfig = Annotated[InverseSigmoidConfig | ExponentialConfig | LinearConfig, Field(discriminator="kind")]


class ScheduledSamplingConfig(Config):
    """Some of the reference words that the decoder reads are replaced by its own predictions (Bengio et al. 2015)."""

    kind: Literal["scheduled-sampling"] = "scheduled-sampling"
    decay: DecayConfig = InverseSigmoidConfig()
    """How the probability of reading the reference word falls with the step i (§2.4)."""
    minimum: float = Field(default=0.5, ge=0, le=1)
    """ε: the lower bound of the probability of reading the reference word."""
    choice: Choice = "sample"
    """How the model predicts a word: sample, by sampling from its distribution; best, the most likely word."""

    @field_validator("decay", mode="before")
    @classmethod
    def _usual_decay(cls, value: Any) -> Any:
        """Makes inverse-sigmoid the default kind of decay, so that decay.k=3000 can be set without decay.kind."""
        return {"kind": "inverse-sigmoid", **value} if isinstance(value, dict) else value


def gold_probability(config: ScheduledSamplingConfig, *, step: int) -> float:
    """εᵢ, the probability of reading the reference word at training step i."""
    decay = config.decay
    match decay:
        case InverseSigmoidConfig():
            probability = decay.k / (decay.k + math.exp(min(step / decay.k, 700.0)))
        case ExponentialConfig():
            probability = decay.k**step
        case LinearConfig():
            probability = decay.k - decay.c * step
        case _:
            assert_never(decay)
    return max(config.minimum, probability)


def draw_gold(batch: PairBatch, *, probability: float) -> Tensor:
    """Randomly chooses the target inputs [B,T] that remain reference tokens, as a boolean mask on the CPU.

    Each input is kept with the given probability; begin marks and padding are always kept.
    """
    gold = torch.rand(batch.target_input.shape) < probability
    gold[:, 0] = True
    return gold | ~length_mask(batch.target_lengths, size=gold.shape[1])


def read_mixed(model: Model, batch: PairBatch, *, gold: Tensor, choice: Choice, attention: bool = False) -> Output:
    """The decoder's output for target inputs that are its own predictions wherever gold [B,T] is false.

    Recurrent decoders read the word that they have just predicted. Decoders that read all tokens at once run twice: the
    predictions of a first pass over the reference are mixed into the input of the second (Mihaylova and Martins 2019,
    §3). No gradient flows through predicted words.
    """
    if bool(gold.all()):
        output: Output = model(batch.source, batch.target_input, attention=attention)
        return output
    read = _in_two_passes if model.decoder.parallel else _word_by_word
    return read(model, batch, gold, choice, attention)


def _word_by_word(model: Model, batch: PairBatch, gold: Tensor, choice: Choice, attention: bool) -> Output:
    context = model.prepare(batch.source)
    state = model.start(context)
    outputs: list[Output] = []
    for position, reference in enumerate(batch.target_input.unbind(1)):
        tokens = reference[:, None]
        rows = (~gold[:, position]).nonzero().squeeze(1).to(reference.device, non_blocking=True)
        if len(rows):
            predicted = _predict(model, outputs[-1], context, rows=rows, choice=choice)
            tokens = reference.index_copy(0, rows, predicted)[:, None]
        output, state = model.read(tokens, state, context, attention=attention)
        outputs.append(output)
    return concatenate(outputs)


def _in_two_passes(model: Model, batch: PairBatch, gold: Tensor, choice: Choice, attention: bool) -> Output:
    context = model.prepare(batch.source)
    with torch.no_grad():
        first, _ = model.read(batch.target_input, model.start(context), context)
    rows, columns = (~gold).nonzero(as_tuple=True)
    indices = (rows * gold.shape[1] + columns).to(batch.target_input.device, non_blocking=True)
    flat_context = _flat_context(context, gold.shape[1])
    predicted = _predict(model, _flat(first), flat_context, rows=indices - 1, choice=choice)
    mixed = batch.target_input.flatten().index_copy(0, indices, predicted).view_as(batch.target_input)
    output, _ = model.read(mixed, model.start(context), context, attention=attention)
    return output


@torch.no_grad()
def _predict(model: Model, output: Output, context: Context, *, rows: Tensor, choice: Choice) -> Tensor:
    """The word predicted for each of the `rows` [M] of `output` [N,1,…]: the most likely or a sample (`choice`)."""
    selected = Output(*(None if part is None else part.index_select(0, rows) for part in output[:4]))  # type: ignore[arg-type]
    tokens = None if context.tokens is None else context.tokens.index_select(0, rows)
    log_probs = model.log_probs(selected, Context(None, tokens))[:, -1]
    log_probs[:, list(MARKS.never)] = -torch.inf
    if choice == "best":
        return log_probs.argmax(dim=-1)
    return draw(log_probs.exp())


def concatenate(outputs: list[Output]) -> Output:
    """The outputs of consecutive tokens as one output."""
    losses = {name: torch.cat([output.losses[name] for output in outputs], dim=1) for name in outputs[0].losses}
    hidden, attention, gate, copied, chosen = zip(*(output[:5] for output in outputs), strict=True)
    return Output(torch.cat(hidden, dim=1), _cat(attention), _cat(gate), _cat(copied), _cat(chosen), losses)


def _cat(parts: Sequence[Tensor | None]) -> Tensor | None:
    return torch.cat([part for part in parts if part is not None], dim=1) if parts[0] is not None else None


def _flat(output: Output) -> Output:
    """A decoder's output [N,T,…] as an output [N·T,1,…] with one row per position."""
    parts = (None if part is None else part.flatten(0, 1).unsqueeze(1) for part in output[:4])
    return Output(*parts)  # type: ignore[arg-type]


def _flat_context(context: Context, size: int) -> Context:
    """The decoder's context with one row per target position: each sentence's row repeated for its `size` positions."""
    return Context(None, None if context.tokens is None else context.tokens.repeat_interleave(size, dim=0))
