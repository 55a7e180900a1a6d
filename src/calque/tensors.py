"""Padded rows, masks, and trees of tensors (nested tuples) from which rows can be selected.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), S source, T target, D width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Tree = TypeVar("Tree")


class Padded(NamedTuple):
    """Rows of different length in one tensor: row b holds `lengths[b]` values, then arbitrary padding.

    Lengths stay on the host, where packing needs them: copying them from a device would force a synchronisation. A
    second copy on the device, made once per batch, serves all masks; captured graphs read only this copy.
    """

    values: Tensor  # [B,S] or [B,S,D]
    lengths: Tensor  # [B], on the CPU
    placed_lengths: Tensor | None = None  # [B], on the device of the values

    @property
    def device_lengths(self) -> Tensor:
        """The lengths [B] on the device of the values."""
        if self.placed_lengths is not None:
            return self.placed_lengths
        return self.lengths.to(self.values.device, non_blocking=True)

    @property
    def mask(self) -> Tensor:
        """[B,S], true for values, false for padding."""
        return length_mask(self.device_lengths, size=self.values.shape[1])

    def to(self, device: torch.device) -> "Padded":
        """The same rows with their values on `device`."""
        placed = None if device.type == "cpu" else self.lengths.to(device, non_blocking=True)
        return Padded(self.values.to(device, non_blocking=True), self.lengths, placed)


def exact(values: Tensor) -> Tensor:
    """The same numbers in float64, or in float32 on devices without float64 (MPS)."""
    return values.float() if values.device.type == "mps" else values.double()


def length_mask(lengths: Tensor, *, size: int) -> Tensor:
    """[B,size], true at positions below each row's length."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def map_rows(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The tree with `function` applied to every tensor in nested tuples and named tuples; None stays None."""
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
            raise TypeError(f"a tree of tensors contains only tensors, tuples and None; found {type(tree).__name__}")
    return mapped  # type: ignore[no-any-return]


def copied_to_host(tree: Tree) -> Tree:
    """The tree with all tensors on the CPU; the host waits for a GPU once, not once per tensor."""
    gpus: set[torch.device] = set()

    def copied(tensor: Tensor) -> Tensor:
        if not tensor.is_cuda:
            return tensor.cpu()
        gpus.add(tensor.device)
        return tensor.to("cpu", non_blocking=True)

    copies = map_rows(copied, tree)
    for gpu in gpus:
        torch.cuda.current_stream(gpu).synchronize()
    return copies


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """The tree restricted to `rows` (indices, repeats allowed). A node with a method `select` selects its own rows."""
    if hasattr(tree, "select") and not isinstance(tree, Tensor):
        return tree.select(rows)  # type: ignore[no-any-return]
    match tree:
        case tuple():
            parts = [select_rows(part, rows) for part in tree]
            return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)  # type: ignore[return-value]
        case _:
            return map_rows(lambda tensor: tensor.index_select(0, rows), tree)


def move_rows(tree: Tree, rows: Tensor, *, size: int) -> Tree:
    """Like `select_rows`; elements with a method `moved`, which have preallocated buffers, also grow to this size."""
    if hasattr(tree, "moved"):
        return tree.moved(rows, size=size)  # type: ignore[no-any-return]
    if isinstance(tree, tuple):
        parts = [move_rows(part, rows, size=size) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)  # type: ignore[return-value]
    return select_rows(tree, rows)


class Slots(NamedTuple):
    """The position of each of N rows among the B·K hypotheses of a batch, some of which have been dropped (N < B·K)."""

    places: Tensor  # [N], increasing: row n is hypothesis places[n] % width of sentence places[n] // width
    width: int  # K

    @property
    def sentences(self) -> Tensor:
        """[N], the sentence of each row."""
        return self.places // self.width


def with_slots(context: Tree, slots: Slots | None) -> Tree:
    """The context of a decoder, with these slots in every named tuple that has a field `slots`."""
    if not isinstance(context, tuple) or isinstance(context, Slots):
        return context
    parts = [with_slots(part, slots) for part in context]
    placed: Any = type(context)(*parts) if hasattr(context, "_fields") else tuple(parts)
    return placed._replace(slots=slots) if "slots" in getattr(context, "_fields", ()) else placed  # type: ignore[no-any-return]


def fold(rows: Tensor, *, sentences: int, slots: Slots | None = None) -> Tensor:
    """[N,T,D] as [B,K·T,D]: all queries of a sentence in one row, so that they share its memory without tiling.

    Queries of dropped hypotheses are 0.
    """
    if slots is not None:
        full = rows.new_zeros(sentences * slots.width, *rows.shape[1:])
        rows = full.index_copy_(0, slots.places, rows)
    return rows.reshape(sentences, -1, rows.shape[-1])


def unfold(queries: Tensor, *, rows: int, slots: Slots | None = None) -> Tensor:
    """[B,K·T,X] back to [N,T,X], the inverse of `fold`: one row per hypothesis instead of one per sentence."""
    if slots is None:
        return queries.reshape(rows, -1, queries.shape[-1])
    full = queries.reshape(queries.shape[0] * slots.width, -1, queries.shape[-1])
    return full.index_select(0, slots.places)


def sentence_of_rows(rows: int, *, size: int, sentences: int, slots: Slots | None) -> Tensor:
    """[N·T], the sentence of each of T = `size` positions of N = `rows` hypotheses, on the CPU."""
    of_row = torch.arange(rows) // (rows // sentences) if slots is None else slots.sentences
    return of_row if size == 1 else of_row.repeat_interleave(size)


def best_candidates(scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best values of [B,C] and their indices, best first; ties go to the lower index."""
    count = min(count, scores.shape[1])
    if scores.is_cuda and scores.dtype == torch.float32:
        return _best_by_key(scores, count=count)
    values, indices = _top(scores, count=min(count + 1, scores.shape[1]))
    ties = (values[:, count - 1 : count] == values[:, count:]) & values[:, count:].isfinite()
    indices, order = indices[:, :count].sort(dim=1)
    ordered = values[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    values, indices = ordered.values, indices.gather(1, ordered.indices)
    tied_rows = ties.any(dim=1).nonzero().squeeze(1)
    if len(tied_rows):  # topk does not specify which of several equal values it returns
        exact = scores[tied_rows].sort(dim=1, descending=True, stable=True)
        values[tied_rows], indices[tied_rows] = exact.values[:, :count], exact.indices[:, :count]
    return values, indices


def _best_by_key(scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """`best_candidates` of float32 values, without a synchronisation with the host to check for ties.

    A value and its index are packed into an integer key: keys are ordered by value and, among equal values, the lower
    index comes first.
    """
    bits = (scores + 0.0).view(torch.int32).long()  # + 0.0 makes −0.0 equal to 0.0
    ordered = torch.where(bits < 0, bits ^ 0x7FFF_FFFF, bits)
    keys = (ordered << 32) | (0xFFFF_FFFF - torch.arange(scores.shape[1], device=scores.device))
    indices = 0xFFFF_FFFF - (keys.topk(count).values & 0xFFFF_FFFF)
    return scores.gather(1, indices), indices


def _top(scores: Tensor, *, count: int, blocks: Sequence[int] = (64, 8)) -> tuple[Tensor, Tensor]:
    """`topk`, faster on a CPU, where only the blocks (of 64, then of 8 values) with the largest maxima are searched.

    The `count` best values lie in at most `count` blocks. With 8,000 values and a `count` of 11, this is twice as fast.
    """
    rows, size = scores.shape
    block = next((block for block in blocks if size // block >= 2 * count), 0)
    if scores.device.type != "cpu" or not block or not rows:
        return scores.topk(count)
    whole = size // block
    body = scores[:, : whole * block].view(rows, whole, block)
    _, best = _top(body.amax(dim=2), count=count, blocks=blocks[1:])
    if rest := size - whole * block:
        candidates = body.gather(1, best[..., None].expand(-1, -1, block)).flatten(1)
        candidates = torch.cat([candidates, scores[:, -rest:]], dim=1)
    else:  # the same, but faster
        places = (best + torch.arange(0, rows * whole, whole)[:, None]).flatten()
        candidates = body.reshape(rows * whole, block).index_select(0, places).view(rows, count * block)
    values, chosen = _top(candidates, count=count, blocks=blocks[1:])
    inside = best.gather(1, (chosen // block).clamp(max=count - 1)) * block + chosen % block
    return values, torch.where(chosen < count * block, inside, chosen + (whole - count) * block)


def running_sum(values: Tensor, *, dim: int) -> Tensor:
    """`cumsum`, deterministic if torch is set to use deterministic algorithms.

    On a GPU the order of additions in torch's own kernel varies between calls; the deterministic version adds
    copies shifted by 1, 2, 4, … positions, in a fixed order.
    """
    if not torch.are_deterministic_algorithms_enabled():
        return values.cumsum(dim)
    size, offset = values.shape[dim], 1
    while offset < size:
        first, rest, shifted = (
            values.narrow(dim, *span) for span in ((0, offset), (offset, size - offset), (0, size - offset))
        )
        values = torch.cat([first, rest + shifted], dim=dim)
        offset *= 2
    return values


def reverse_within(values: Tensor, lengths: Tensor) -> Tensor:
    """[B,S,...] with each row's first `lengths[b]` values in reverse order; padding stays in place."""
    positions = torch.arange(values.shape[1], device=values.device)[None]
    index = torch.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)
    return values.gather(1, index[..., None].expand_as(values) if values.dim() == 3 else index)


def at_last(values: Tensor, lengths: Tensor) -> Tensor:
    """[B,D], the value of each row of [B,S,D] at its last position before the padding."""
    index = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, values.shape[2])
    return values.gather(1, index).squeeze(1)


@contextmanager
def weightless() -> Iterator[None]:
    """In this context, new modules have weights of the right shapes on the meta device, without storage."""
    with _MetaWeights():
        yield


class _MetaWeights(TorchFunctionMode):
    """Creates new tensors on the meta device and skips `torch.nn.init.normal_`; other operations run as usual.

    It replaces `torch.device("meta")`, under which many operations (`normal_` among them) load torch's compiler, which
    takes seconds.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = dict(kwargs or {})
        if function is torch.nn.init.normal_:
            return args[0] if args else keywords["tensor"]
        if function in (torch.empty, torch.zeros, torch.ones, torch.full) and keywords.get("device") is None:
            keywords["device"] = "meta"
        return function(*args, **keywords)
