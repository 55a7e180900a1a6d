"""The list of all models: every law runs over it, and a new model is tested by being added here."""

from typing import TypeVar

import torch
from torch import nn

from calque.data.pair_batch import PairBatch
from calque.layers.output import FullOutput
from calque.models.model import Model, ModelConfig, Sizes
from calque.tensors import Padded
from tests.laws.families import attention, convolutional, crossed, mixed, output, recurrent, systems, transformer
from tests.unit.objectives.objects import translation_loss

Module = TypeVar("Module", bound=nn.Module)

# Sizes share no factor with each other, so that a tensor folded the wrong way cannot pass.
SENTENCES, SOURCE, TARGET, BEAMS, WORDS, SIZES = 3, 7, 5, 4, 11, Sizes(13, 11, joint=False)
JOINT = Sizes(11, 11, joint=True)


FAMILIES = (recurrent, attention, convolutional, transformer, output, mixed, systems)
OTHERS: dict[str, ModelConfig] = {name: model for family in FAMILIES for name, model in family.MODELS.items()}
MODELS: dict[str, ModelConfig] = OTHERS | crossed.models(beside=OTHERS)


def build(name: str, *, dtype=torch.float64, seed: int = 0) -> Model:
    """A model of the list in evaluation mode.

    What it says depends on what it reads, not on a bias: otherwise a search that mixes hypotheses up goes unseen.
    """
    model = loud(Model(MODELS[name], sizes=sizes(name)), dtype=dtype, seed=seed)
    model.output.learn_frequencies(torch.arange(SIZES.target) * 7 % 5)
    if isinstance(model.output, FullOutput):
        torch.nn.init.zeros_(model.output.bias)
    return model


def sizes(name: str) -> Sizes:
    return sizes_for(MODELS[name])


def sizes_for(model: ModelConfig) -> Sizes:
    """A model that copies or is tied needs one vocabulary; the sources hold words outside it."""
    return JOINT if model.tie in ("embeddings", "all") or model.copies else SIZES


def loud(module: Module, *, dtype=torch.float64, seed: int = 0) -> Module:
    """The module in evaluation mode, with weights large enough that every part of it matters."""
    torch.manual_seed(seed)
    module = module.to(dtype).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.7)
    return module


def idle(config: ModelConfig) -> set[str]:
    """Parameters that no gradient reaches.

    From none of three truncate: so few rectified units may all be off at one of them.
    """
    still = set.intersection(*(_unmoved(config, seed=seed) for seed in range(3)))
    if config.decoder.kind in ("recurrent", "cho"):  # they see the top layer's state, not what leaves it
        still -= {f"encoder.connections.2.gate.{part}" for part in ("weight", "bias")}
    return still


def _unmoved(config: ModelConfig, *, seed: int) -> set[str]:
    torch.manual_seed(seed)
    model = Model(config, sizes=sizes_for(config)).double()
    tokens = target()
    batch = PairBatch(source(), tokens, tokens, torch.tensor([]), weight=0, shared_weight=0)
    translation_loss(model, batch, smoothing=0.0).objective.backward()
    learning = {key: parameter for key, parameter in model.named_parameters() if parameter.requires_grad}
    return {key for key, parameter in learning.items() if parameter.grad is None or not parameter.grad.any()}


def source(seed: int = 0, *, sentences: int = SENTENCES) -> Padded:
    """Random source sentences of different length, garbage behind them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, SIZES.source, (sentences, SOURCE), generator=generator)
    lengths = torch.randint(1, SOURCE + 1, (sentences,), generator=generator)
    lengths[0], lengths[-1] = SOURCE, 2
    return Padded(values, lengths)


def target(seed: int = 0, *, rows: int = SENTENCES, size: int = TARGET) -> torch.Tensor:
    """Random target tokens."""
    return torch.randint(0, SIZES.target, (rows, size), generator=torch.Generator().manual_seed(seed + 1))
