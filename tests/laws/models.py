"""The list of all models: every law is tested on it, and a new model is tested by being added to it."""

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

# Sizes are pairwise coprime, so that a tensor reshaped the wrong way fails.
SENTENCES, SOURCE, TARGET, BEAMS, WORDS, SIZES = 3, 7, 5, 4, 11, Sizes(13, 11, joint=False)
JOINT = Sizes(11, 11, joint=True)


FAMILIES = (recurrent, attention, convolutional, transformer, output, mixed, systems)
OTHERS: dict[str, ModelConfig] = {name: model for family in FAMILIES for name, model in family.MODELS.items()}
MODELS: dict[str, ModelConfig] = OTHERS | crossed.models(others=OTHERS)


def build(name: str, *, dtype=torch.float64, seed: int = 0) -> Model:
    """A model of the list in evaluation mode.

    Without an output bias its predictions depend on its inputs: otherwise a search that mixes up hypotheses would pass.
    """
    model = loud(Model(MODELS[name], sizes=sizes(name)), dtype=dtype, seed=seed)
    model.output.learn_frequencies(torch.arange(SIZES.target) * 7 % 5)
    if isinstance(model.output, FullOutput):
        torch.nn.init.zeros_(model.output.bias)
    return model


def sizes(name: str) -> Sizes:
    return sizes_for(MODELS[name])


def sizes_for(model: ModelConfig) -> Sizes:
    """A model that copies or is tied needs a joint vocabulary; the sources contain words outside it."""
    return JOINT if model.tie in ("embeddings", "all") or model.copies else SIZES


def loud(module: Module, *, dtype=torch.float64, seed: int = 0) -> Module:
    """The module in evaluation mode, with weights large enough that every part has an effect."""
    torch.manual_seed(seed)
    module = module.to(dtype).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.7)
    return module


def idle(config: ModelConfig) -> set[str]:
    """Parameters without a gradient.

    For none of three seeds: with so few rectified units, all of them may be off for one seed.
    """
    unused = set.intersection(*(_without_gradient(config, seed=seed) for seed in range(3)))
    if config.decoder.kind in ("recurrent", "cho"):  # they use the top layer's state, not its output
        unused -= {f"encoder.connections.2.gate.{part}" for part in ("weight", "bias")}
    return unused


def _without_gradient(config: ModelConfig, *, seed: int) -> set[str]:
    torch.manual_seed(seed)
    model = Model(config, sizes=sizes_for(config)).double()
    tokens = target()
    batch = PairBatch(source(), tokens, tokens, torch.tensor([]), weight=0, shared_weight=0)
    translation_loss(model, batch, smoothing=0.0).objective.backward()
    learning = {key: parameter for key, parameter in model.named_parameters() if parameter.requires_grad}
    return {key for key, parameter in learning.items() if parameter.grad is None or not parameter.grad.any()}


def source(seed: int = 0, *, sentences: int = SENTENCES) -> Padded:
    """Random source sentences of different length, padded with random tokens."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, SIZES.source, (sentences, SOURCE), generator=generator)
    lengths = torch.randint(1, SOURCE + 1, (sentences,), generator=generator)
    lengths[0], lengths[-1] = SOURCE, 2
    return Padded(values, lengths)


def target(seed: int = 0, *, rows: int = SENTENCES, size: int = TARGET) -> torch.Tensor:
    """Random target tokens."""
    return torch.randint(0, SIZES.target, (rows, size), generator=torch.Generator().manual_seed(seed + 1))
