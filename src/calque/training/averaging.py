"""Means of weights over time: of checkpoints, and the moving one."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from calque.training.distributed import part_of, whole


def mean_weights(checkpoints: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, taken in float64; whole numbers, such as ranks, are those of the first."""
    return {
        name: torch.stack([checkpoint[name].double() for checkpoint in checkpoints]).mean(dim=0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in checkpoints[0].items()
    }


class TriggeredAverage:
    """The mean of the weights of all steps since it was begun (averaged SGD: Polyak and Juditsky 1992)."""

    def __init__(self, model: nn.Module) -> None:
        self._trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.weights: dict[str, Tensor] = {}
        self.steps = 0

    @property
    def is_begun(self) -> bool:
        return self.steps > 0

    @torch.no_grad()
    def begin(self) -> None:
        """The weights as they are now are the first."""
        self.weights = {name: value.detach().clone() for name, value in self._trained.items()}
        self.steps = 1

    @torch.no_grad()
    def follow(self) -> None:
        """Takes in the weights as they are after a step, once begun."""
        if self.is_begun:
            self.steps += 1
            torch._foreach_lerp_(list(self.weights.values()), list(self._trained.values()), 1 / self.steps)

    def whole_weights(self) -> dict[str, Tensor]:
        """The mean, whole and on the CPU."""
        return {name: whole(value).cpu() for name, value in self.weights.items()}

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], *, steps: int) -> None:
        """Puts the mean of a checkpoint back."""
        self.weights = {name: part_of(weights[name], like=value.detach()) for name, value in self._trained.items()}
        self.steps = steps


class MovingAverage:
    """w̄ ← d w̄ + (1 − d) w after each step, with d = min(decay, (1 + step) / (10 + step)), which forgets the start."""

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self._learnt = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.weights = {name: one.detach().clone() for name, one in self._learnt.items()}

    @torch.no_grad()
    def follow(self, *, step: int) -> None:
        """Moves towards the weights as they are after a step."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self._learnt.values()), share)

    def whole_weights(self) -> dict[str, Tensor]:
        """The average, whole and on the CPU."""
        return {name: whole(value).cpu() for name, value in self.weights.items()}

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Puts whole weights of a checkpoint back."""
        for name, value in self.weights.items():
            value.copy_(part_of(weights[name], like=value))
