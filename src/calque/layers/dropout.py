"""Dropout (Srivastava et al. 2014), with masks that are cheap to draw on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.arithmetic import arithmetic

STEPS = 1 << 16  # of 16-bit probabilities


def dropout(values: Tensor, probability: float, training: bool = True) -> Tensor:
    """The values; in training, each is zeroed with this probability, and otherwise scaled to keep its expectation.

    On a CPU, the mask comes from 16-bit random numbers: torch draws one 64-bit number per value, which takes seven
    times as long. The probability is rounded to a multiple of 1/65536, and the scale is computed from the rounded
    value. Runs with `training.arithmetic=1`, other devices and compiled graphs use torch's own dropout.
    """
    if not training or not probability:
        return values
    if torch.compiler.is_compiling() or values.device.type != "cpu" or arithmetic() < 2:
        return F.dropout(values, probability)
    dropped = quantised(probability)
    mask = keep_mask(values, dropped=dropped)
    scale = STEPS / (STEPS - dropped)
    if values.dtype in (torch.bfloat16, torch.float16):  # which would round the scale
        return values * mask * scale
    return values * mask.mul_(scale)


class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, values: Tensor) -> Tensor:
        return dropout(values, self.probability, self.training)


def quantised(probability: float) -> int:
    """A probability as an integer in units of 1/65536, at most 65535."""
    return min(round(probability * STEPS), STEPS - 1)


def keep_mask(like: Tensor, *, dropped: int) -> Tensor:
    """A mask of the shape and data type of `like`: 0 with probability `dropped` / 65536, else 1."""
    count = like.numel()
    numbers = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)  # all 64 bits, as four numbers
    uniform = numbers.view(torch.int16)[:count]  # from −32768 to 32767
    return uniform.ge_(dropped - STEPS // 2).to(like.dtype).view(like.shape)


def scaled_mask(like: Tensor, probability: float) -> Tensor:
    """A mask of the shape and data type of `like`: 0 with the given probability p, else 1 / (1 − p)."""
    return dropout(torch.ones_like(like), probability)
