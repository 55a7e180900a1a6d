"""Observers of training. They change nothing, and nothing is computed for them."""

from typing import Protocol

from torch import nn


class TrainingObserver(Protocol):
    """Watches training."""

    def gradients(self, step: int, model: nn.Module) -> None:
        """Called at every update with the gradient in `parameter.grad`, summed over ranks and not clipped yet.

        It must not be modified. With training.sharded, each rank has its shards (torch's `DTensor`).
        """
        ...
