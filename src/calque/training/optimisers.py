"""Optimisers, and their state as named tensors."""

from collections.abc import Mapping
from typing import Literal, assert_never

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn

from calque.config import Config, refuse_unused_by_kind
from calque.training.distributed import full_tensor, shard_like


class OptimiserConfig(Config):
    """SGD, Adadelta (Zeiler 2012), Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019)."""

    kind: Literal["adam", "adamw", "adadelta", "sgd"] = "adam"
    """adam or adamw (which differ only in weight_decay), adadelta or sgd."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """The peak learning rate, which the schedule scales. Papers use 1 with Adadelta, and 0.7 to 1 with plain SGD."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """adam, adamw: the decay of the running mean of gradients."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """adam, adamw: the decay of the running mean of squared gradients."""
    rho: float = Field(default=0.95, gt=0, lt=1)
    """adadelta: the decay of the running means of squared gradients and squared updates."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """sgd: the share of the previous update that is added to the next."""
    epsilon: float | None = Field(default=None, gt=0)
    """Added to the root mean square to avoid division by zero; by default 1e-9, for adadelta 1e-6."""
    weight_decay: float = Field(default=0.0, ge=0)
    """With adamw, decoupled weight decay; otherwise, an L2 term in the gradient. Vectors (biases, norms) are exempt."""

    @model_validator(mode="after")
    def _all_is_read(self, info: ValidationInfo) -> "OptimiserConfig":
        refuse_unused_by_kind(self, OPTIMISERS_THAT_READ, kind=self.kind, info=info)
        return self


OPTIMISERS_THAT_READ: dict[str, tuple[str, ...]] = {
    "beta1": ("adam", "adamw"),
    "beta2": ("adam", "adamw"),
    "rho": ("adadelta",),
    "momentum": ("sgd",),
    "epsilon": ("adam", "adamw", "adadelta"),
}
"""The kinds of optimiser that use each key; keys that are not listed are used by all kinds."""


def build_optimiser(config: OptimiserConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser for a model's trained parameters. Vectors, such as biases, have no weight decay."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    rate, fused = config.learning_rate, parameters[0].device.type in ("cpu", "cuda")
    match config.kind:
        case "adam" | "adamw":
            kind = torch.optim.AdamW if config.kind == "adamw" else torch.optim.Adam
            betas = (config.beta1, config.beta2)
            return kind(groups, lr=rate, betas=betas, eps=config.epsilon or 1e-9, fused=fused)
        case "adadelta":
            return torch.optim.Adadelta(groups, lr=rate, rho=config.rho, eps=config.epsilon or 1e-6)
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=config.momentum)
        case _:
            assert_never(config.kind)


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's unsharded state, named PARAMETER/KEY. If the state is sharded, all ranks must call this."""
    return {
        f"{name}/{key}": full_tensor(value.detach()).cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if value is not None  # SGD without momentum has an empty buffer
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restores the state that `optimiser_tensors` returned."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        prefix = f"{name}/"
        state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        optimiser.state[parameter] = {key: shard_like(value, like=parameter) for key, value in state.items()}


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate
