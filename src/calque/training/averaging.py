"""Weight averaging: over checkpoints, over all steps since a trigger, and as an exponential moving average."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from calque.training.distributed import full_tensor, shard_like


def mean_weights(checkpoints: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, computed in float64. Integer tensors are taken from the first checkpoint."""
    return {
        name: torch.stack([checkpoint[name].double() for checkpoint in checkpoints]).mean(dim=0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in checkpoints[0].items()
    }


class WeightAverage:
    """The average of a model's trained weights, sharded like the model."""

    def __init__(self, model: nn.Module) -> None:
        self._trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.weights: dict[str, Tensor] = {}

    def full_weights(self) -> dict[str, Tensor]:
        """The average, unsharded and on the CPU."""
        return {name: full_tensor(value).cpu() for name, value in self.weights.items()}

    def _start_from_model(self) -> None:
        self.weights = {name: value.detach().clone() for name, value in self._trained.items()}

    def _move(self, share: float) -> None:
        """Moves the average towards the current weights: average ← average + share · (weights − average)."""
        torch._foreach_lerp_(list(self.weights.values()), list(self._trained.values()), share)


class TriggeredAverage(WeightAverage):
    """The mean of the weights of all steps since averaging started (averaged SGD: Polyak and Juditsky 1992)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.steps = 0

    @property
    def has_started(self) -> bool:
        return self.steps > 0

    @torch.no_grad()
    def start(self) -> None:
        """Starts averaging with the current weights."""
        self._start_from_model()
        self.steps = 1

    @torch.no_grad()
    def update(self) -> None:
        """Adds the current weights to the mean, once averaging has started."""
        if self.has_started:
            self.steps += 1
            self._move(1 / self.steps)

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], *, steps: int) -> None:
        """Restores the mean from a checkpoint."""
        self.weights = {name: shard_like(weights[name], like=value.detach()) for name, value in self._trained.items()}
        self.steps = steps


class MovingAverage(WeightAverage):
    """The exponential moving average w̄ of the weights w, updated after each step: w̄ ← d w̄ + (1 − d) w.

    The decay d = min(decay, (1 + step) / (10 + step)) is small at first, so that early weights soon fade.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        super().__init__(model)
        self.decay = decay
        self._start_from_model()

    @torch.no_grad()
    def update(self, *, step: int) -> None:
        """Moves the average towards the current weights."""
        self._move(1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Restores the average from a checkpoint."""
        for name, value in self.weights.items():
            value.copy_(shard_like(weights[name], like=value))
