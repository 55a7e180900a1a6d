"""Consecutive Triton kernels that overlap (programmatic dependent launch, on Hopper GPUs and later).

A kernel that is launched with the options `overlap(…)` may start while the kernel before it still runs. It calls
`start_next`, so that the next kernel may start too, then loads what never changes, such as weights, and calls
`await_previous` before it touches anything else: that returns when all kernels before it have ended. On an H200, a
`base` model decodes one sentence 1.34 times as fast greedily, and 1.06 times with a beam of 5.
"""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

OVERLAPPING_ROWS = 16  # with more, the programs of the next kernel take the place of those that still work


def overlap(rows: Tensor) -> dict[str, Any]:
    """The launch options of a kernel that works on these rows [N,...]: whether it overlaps with its neighbours."""
    overlaps = len(rows) <= OVERLAPPING_ROWS and _can_overlap(rows.device)
    return {"overlaps": overlaps, **({"launch_pdl": True} if overlaps else {})}


@cache
def _can_overlap(device: torch.device) -> bool:
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    return is_nvidia and torch.cuda.get_device_capability(device) >= (9, 0)


@triton.jit
def start_next(overlaps: tl.constexpr):
    if overlaps:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def await_previous(overlaps: tl.constexpr):
    if overlaps:
        tl.extra.cuda.gdc_wait()
