"""Observers of training. They must not change the model or its gradient; training computes nothing extra for them."""

from typing import Protocol

from torch import nn


class TrainingObserver(Protocol):
    """An observer of training, called with the gradient of every update."""

    def gradients(self, step: int, model: nn.Module) -> None:
        """Called at every update with the gradient in `parameter.grad`, summed over ranks and not clipped yet.

        The gradient must not be modified. With training.sharded, each rank has its shards (torch's `DTensor`).
        """
        ...
