"""The list of all models: every law runs over it, and a new model is tested by being added here."""

from typing import TypeVar

import torch
from torch import nn

from calque.layers.output import FullOutput
from calque.models.model import Model, ModelConfig, Sizes
from calque.tensors import Padded
from tests.laws.families import attention, convolutional, mixed, output, recurrent, systems, transformer

Module = TypeVar("Module", bound=nn.Module)

# Sizes share no factor with each other, so that a tensor folded the wrong way cannot pass.
SENTENCES, SOURCE, TARGET, BEAMS, WORDS, SIZES = 3, 7, 5, 4, 11, Sizes(13, 11, joint=False)
JOINT = Sizes(11, 11, joint=True)


FAMILIES = (recurrent, attention, convolutional, transformer, output, mixed, systems)
MODELS: dict[str, ModelConfig] = {name: model for family in FAMILIES for name, model in family.MODELS.items()}


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
    """A model that copies or is tied needs one vocabulary; the sources hold words outside it."""
    model = MODELS[name]
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
