"""Decides when our own kernel computes attention over short sentences, and loads it if Triton is installed."""

import importlib

import torch
from torch import Tensor

LONGEST = 64  # tokens of a sentence
WIDTHS = (16, 32, 64, 128)  # of a head
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def load_kernel() -> bool:
    """Registers torch.ops.calque.short_attention; returns False if the optional package Triton is not installed."""
    try:
        importlib.import_module("calque.layers.short_attention_kernel")
    except ImportError:
        return False
    return True


def is_short(queries: Tensor, keys: Tensor) -> bool:
    """Whether sentences are so short that a fused kernel for long ones wastes most of its work."""
    return max(queries.shape[2], keys.shape[2]) <= LONGEST


def fits(queries: Tensor, keys: Tensor, mask: Tensor | None) -> bool:
    """Whether the kernel supports queries [B,H,T,d] and keys [B,H,S,d]; a mask must be [B,1,1,S]."""
    has_shape = queries.shape[3] in WIDTHS and queries.shape[1] == keys.shape[1]
    has_mask = mask is None or (mask.shape[1] == 1 and mask.shape[2] == 1)
    return is_short(queries, keys) and has_shape and queries.dtype in DTYPES and has_mask
