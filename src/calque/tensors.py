"""Padded rows, masks, and trees of tensors whose rows can be chosen.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), S source, T target, D width.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Tree = TypeVar("Tree")


class Padded(NamedTuple):
    """Rows of different length in one tensor: row b holds `lengths[b]` values, then anything.

    Lengths stay on the host, where packing needs them: asking a device for them would make it wait.
    """

    values: Tensor  # [B,S] or [B,S,D]
    lengths: Tensor  # [B], on the CPU

    @property
    def mask(self) -> Tensor:
        """[B,S], true where there is a value."""
        return length_mask(self.lengths.to(self.values.device, non_blocking=True), size=self.values.shape[1])

    def to(self, device: torch.device) -> "Padded":
        """The same rows, their values on `device`."""
        return Padded(self.values.to(device, non_blocking=True), self.lengths)


def exact(values: Tensor) -> Tensor:
    """The same numbers in float64, or in float32 on devices that have none (MPS)."""
    return values.float() if values.device.type == "mps" else values.double()


def length_mask(lengths: Tensor, *, size: int) -> Tensor:
    """[B,size], true at positions below each row's length."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def map_rows(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The tree with `function` applied to every tensor; tuples, named tuples and None are walked through."""
    mapped: Any
    match tree:
        case Tensor():
            mapped = function(tree)
        case None:
            mapped = None
        case tuple():
            parts = [map_rows(function, part) for part in tree]
            mapped = type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
        case _:
            raise TypeError(f"not a tree of tensors: {type(tree).__name__}")
    return mapped  # type: ignore[no-any-return]


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """The tree with `rows` (indices, repeats allowed) chosen; a node with its own `select` chooses for itself."""
    if hasattr(tree, "select") and not isinstance(tree, Tensor):
        return tree.select(rows)  # type: ignore[no-any-return]
    match tree:
        case tuple():
            parts = [select_rows(part, rows) for part in tree]
            return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)  # type: ignore[return-value]
        case _:
            return map_rows(lambda tensor: tensor.index_select(0, rows), tree)


def running_sum(values: Tensor, *, dim: int) -> Tensor:
    """`cumsum`, whose order of additions changes from call to call on a GPU.

    Where only deterministic operations may be used: by doubling the reach log₂ n times, in an order that stays.
    """
    if not torch.are_deterministic_algorithms_enabled():
        return values.cumsum(dim)
    size, reach = values.shape[dim], 1
    while reach < size:
        first, rest, before = (
            values.narrow(dim, *span) for span in ((0, reach), (reach, size - reach), (0, size - reach))
        )
        values = torch.cat([first, rest + before], dim=dim)
        reach *= 2
    return values


def reverse_within(values: Tensor, lengths: Tensor) -> Tensor:
    """[B,S,...] with each row's first `lengths[b]` values in reverse order; what is behind them stays."""
    places = torch.arange(values.shape[1], device=values.device)[None]
    index = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return values.gather(1, index[..., None].expand_as(values) if values.dim() == 3 else index)


def at_last(values: Tensor, lengths: Tensor) -> Tensor:
    """[B,D], the last true position of each row of [B,S,D]."""
    index = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, values.shape[2])
    return values.gather(1, index).squeeze(1)


@contextmanager
def weightless() -> Iterator[None]:
    """Modules that are built within have weights of the right shapes that take no room and hold nothing."""
    with _Weightless():
        yield


class _Weightless(TorchFunctionMode):
    """Puts what is to be filled on the meta device; other than `torch.device("meta")`, what is computed is computed.

    There torch would load its whole compiler for many an operation, normal draws among them, which takes seconds.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if function is torch.nn.init.normal_:
            return args[0] if args else named["tensor"]
        if function in (torch.empty, torch.zeros, torch.ones, torch.full) and named.get("device") is None:
            named["device"] = "meta"
        return function(*args, **named)
