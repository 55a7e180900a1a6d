"""Scheduled sampling: the decoder reads some of its own words in training. Letters: B sentences, T target, M places."""

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
    """k / (k + exp(i / k)): it stays near 1, falls, and is a half at step k·ln k."""

    kind: Literal["inverse-sigmoid"] = "inverse-sigmoid"
    k: float = Field(default=2000.0, ge=1)
    """How slowly, in steps."""


class ExponentialConfig(Config):
    """kⁱ."""

    kind: Literal["exponential"] = "exponential"
    k: float = Field(default=0.9999, gt=0, lt=1)
    """What is left after a step."""


class LinearConfig(Config):
    """k − c·i."""

    kind: Literal["linear"] = "linear"
    k: float = Field(default=1.0, gt=0, le=1)
    """Where it begins."""
    c: float = Field(default=1e-5, gt=0)
    """What it loses a step."""


DecayConfig = Annotated[InverseSigmoidConfig | ExponentialConfig | LinearConfig, Field(discriminator="kind")]


class ScheduledSamplingConfig(Config):
    """Words the model said itself stand for some of the true ones it reads (Bengio et al. 2015)."""

    kind: Literal["scheduled-sampling"] = "scheduled-sampling"
    decay: DecayConfig = InverseSigmoidConfig()
    """How the probability of reading the true word falls with the step i (§2.4)."""
    minimum: float = Field(default=0.5, ge=0, le=1)
    """ε: where it stops falling."""
    choice: Choice = "sample"
    """The model's word: sample, drawn from its probabilities; best, the most likely one."""

    @field_validator("decay", mode="before")
    @classmethod
    def _usual_decay(cls, value: Any) -> Any:
        """A decay that does not say its kind is the usual one, so that decay.k=3000 is enough."""
        return {"kind": "inverse-sigmoid", **value} if isinstance(value, dict) else value


def gold_probability(config: ScheduledSamplingConfig, *, step: int) -> float:
    """εᵢ, how likely a true word is read at a step."""
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
    """[B,T], on the host: which target inputs stay as they are; begin marks and padding always do."""
    gold = torch.rand(batch.target_input.shape) < probability
    gold[:, 0] = True
    return gold | ~length_mask(batch.target_lengths, size=gold.shape[1])


def read_mixed(model: Model, batch: PairBatch, *, gold: Tensor, choice: Choice, attention: bool = False) -> Output:
    """What the decoder makes of the target inputs where gold [B,T] is true, elsewhere of what it said just before.

    Decoders that read one token after the other read what they just said. Those that read all at once do so twice:
    what the first reading of the true words gave is mixed into what the second one reads (Mihaylova and Martins 2019,
    §3). No gradient flows through what was said.
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
    for place, true in enumerate(batch.target_input.unbind(1)):
        tokens = true[:, None]
        mine = (~gold[:, place]).nonzero().squeeze(1).to(true.device, non_blocking=True)
        if len(mine):
            said = _say(model, outputs[-1], context, rows=mine, choice=choice)
            tokens = true.index_copy(0, mine, said)[:, None]
        output, state = model.read(tokens, state, context, attention=attention)
        outputs.append(output)
    return joined(outputs)


def _in_two_passes(model: Model, batch: PairBatch, gold: Tensor, choice: Choice, attention: bool) -> Output:
    context = model.prepare(batch.source)
    with torch.no_grad():
        first, _ = model.read(batch.target_input, model.start(context), context)
    rows, places = (~gold).nonzero(as_tuple=True)
    at = (rows * gold.shape[1] + places).to(batch.target_input.device, non_blocking=True)
    said = _say(model, _flat(first), _flat_context(context, gold.shape[1]), rows=at - 1, choice=choice)
    mixed = batch.target_input.flatten().index_copy(0, at, said).view_as(batch.target_input)
    output, _ = model.read(mixed, model.start(context), context, attention=attention)
    return output


@torch.no_grad()
def _say(model: Model, output: Output, context: Context, *, rows: Tensor, choice: Choice) -> Tensor:
    """[M], a word for each of the rows of an output [N,1,…], as search might go on."""
    chosen = Output(*(None if part is None else part.index_select(0, rows) for part in output[:4]))  # type: ignore[arg-type]
    tokens = None if context.tokens is None else context.tokens.index_select(0, rows)
    log_probs = model.log_probs(chosen, Context(None, tokens))[:, -1]
    log_probs[:, list(MARKS.never)] = -torch.inf
    if choice == "best":
        return log_probs.argmax(dim=-1)
    return draw(log_probs.exp())


def joined(outputs: list[Output]) -> Output:
    """Outputs of one token after the other as one of all tokens."""
    losses = {name: torch.cat([each.losses[name] for each in outputs], dim=1) for name in outputs[0].losses}
    hidden, attention, gate, copied, chosen = zip(*(each[:5] for each in outputs), strict=True)
    return Output(torch.cat(hidden, dim=1), _cat(attention), _cat(gate), _cat(copied), _cat(chosen), losses)


def _cat(parts: Sequence[Tensor | None]) -> Tensor | None:
    return torch.cat([part for part in parts if part is not None], dim=1) if parts[0] is not None else None


def _flat(output: Output) -> Output:
    """[N,T,…] as [N·T,1,…]."""
    parts = (None if part is None else part.flatten(0, 1).unsqueeze(1) for part in output[:4])
    return Output(*parts)  # type: ignore[arg-type]


def _flat_context(context: Context, size: int) -> Context:
    """A context whose rows are the places of its sentences."""
    return Context(None, None if context.tokens is None else context.tokens.repeat_interleave(size, dim=0))
