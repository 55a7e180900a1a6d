"""Models whose tables are estimated from the counts of a corpus instead of trained by gradients."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn


class CountedModel(nn.Module):
    """A module of tables, in at least single precision whatever precision the model is cast to."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves or casts the tables by `fn`, as in PyTorch; casts to half precision are ignored."""

        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            is_half = result.dtype in (torch.float16, torch.bfloat16)
            return tensor.to(result.device) if is_half else result

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self


def table(tensor: Tensor) -> nn.Parameter:
    """A table that is saved with the weights although it has no gradients."""
    return nn.Parameter(tensor, requires_grad=False)
