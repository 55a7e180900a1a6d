"""Optimisers, and their state as named tensors."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from calque.config import Config


class OptimiserConfig(Config):
    """Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019)."""

    kind: Literal["adam", "adamw"] = "adam"
    """adam or adamw; they differ in weight_decay only."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """The peak; the schedule scales it."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """How slowly the mean of gradients moves."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """How slowly the mean of squared gradients moves."""
    epsilon: float = Field(default=1e-9, gt=0)
    """Added to the root of the latter, so that nothing is divided by zero."""
    weight_decay: float = Field(default=0.0, ge=0)
    """adam: L2 added to the gradient; adamw: decoupled. Vectors (biases, norms) are left alone."""


def build_optimiser(config: OptimiserConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser over the parameters of a model that learn, in the order of their names."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    groups = [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.kind == "adamw" else torch.optim.Adam
    fused = parameters[0].device.type in ("cpu", "cuda")
    return kind(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=fused)


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Its whole state, named PARAMETER/KEY."""
    return {
        f"{name}/{key}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Puts `optimiser_tensors` back."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        prefix = f"{name}/"
        optimiser.state[parameter] = {
            key.removeprefix(prefix): _placed(value, parameter)
            for key, value in tensors.items()
            if key.startswith(prefix)
        }


def _placed(value: Tensor, parameter: Tensor) -> Tensor:
    return value.to(parameter.device).clone()


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate
