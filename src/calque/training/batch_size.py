"""Batch fitting: the largest budget of positions whose training step fits into a device's memory.

What a step must remember between its two passes is counted, not guessed: the tensors that autograd keeps, at two
small budgets, give a line; on a GPU the budget it leads to is then tried.
"""

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from calque.data.batch import Batch, collate
from calque.data.batching import BatchConfig, Plan
from calque.data.store import Store
from calque.models.model import Model
from calque.training.update import LossOf, is_out_of_memory

SHARES = {"cpu": 0.4, "cuda": 0.8, "mps": 0.4}  # of free memory; other processes use a CPU's too
PROBES = (512, 2048)  # positions
LEAST, MOST = 256, 1 << 20
ASSUMED = 4 << 30  # bytes that are free, where the system does not say
BATCHES_AN_EPOCH = 20  # at least: a budget beyond that leaves too few updates


class Fit(NamedTuple):
    """A budget, and why it is no larger."""

    tokens: int
    reason: str


def find_batch_size(model: Model, store: Store, *, config: BatchConfig, loss_of: LossOf, ranks: int = 1) -> Fit:
    """The largest number of positions of a batch that a training step can take on devices like this model's."""
    device = next(model.parameters()).device
    state = 4 * sum(one.numel() * one.element_size() for one in model.parameters())  # weights, gradients, Adam's two
    sharing = 1 if device.type == "cuda" else int(os.environ.get("LOCAL_WORLD_SIZE", ranks))  # one machine's memory
    free = free_memory(device) * SHARES[device.type] / sharing - state
    small, large = (_largest(store, config=config, tokens=tokens) for tokens in PROBES)
    needs = [_kept_bytes(model, batch.to(device), loss_of=loss_of) for batch in (small, large)]
    slope = max(1.0, (needs[1] - needs[0]) / max(1, large.positions - small.positions))
    fitting = ranks * max(LEAST, int(PROBES[1] + (free - needs[1]) / slope))
    positions = int(store.source_lengths.sum()) + int(store.target_lengths.sum())
    bounds = {
        "with more, an epoch would have fewer than 20 batches": positions // BATCHES_AN_EPOCH,
        "the most that is ever taken": MOST,
        f"{slope / 1024:.0f} KiB a position fill {SHARES[device.type]:.0%} of the free memory": fitting,
    }
    reason, tokens = min(bounds.items(), key=lambda each: each[1])
    tokens = max(LEAST, tokens // 64 * 64)
    if device.type != "cuda":
        return Fit(tokens, reason)
    tried = _tried(tokens, fits=lambda most: _fits(model, store, config=config, tokens=most // ranks, loss_of=loss_of))
    return Fit(tokens, reason) if tried == tokens else Fit(tried, "tried on the device")


def _tried(tokens: int, *, fits: Callable[[int], bool]) -> int:
    """This budget where it fits, else one that is surely smaller than what does.

    The first one is held to a share of the memory; of smaller ones, what just fits leaves no room for a step that needs
    a little more.
    """
    if tokens <= LEAST or fits(tokens):
        return tokens
    while (tokens := _less(tokens)) > LEAST and not fits(tokens):
        pass
    return _less(tokens)


def _less(tokens: int) -> int:
    return max(LEAST, int(0.85 * tokens) // 64 * 64)


def free_memory(device: torch.device, *, root: Path = Path("/")) -> int:
    """Bytes that nobody uses; a CPU's are those of the system below `root`, and of what a container may have."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = [ASSUMED]
    meminfo, limit, used = (
        root / name for name in ("proc/meminfo", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current")
    )
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        free = [int(lines["MemAvailable"].split()[0]) * 1024]
    if limit.exists() and used.exists() and (most := limit.read_text(encoding="ascii").strip()) != "max":
        free.append(int(most) - int(used.read_text(encoding="ascii")))
    return max(0, min(free))


def _largest(store: Store, *, config: BatchConfig, tokens: int) -> Batch:
    """The fullest batch of the first that a plan with that budget gives."""
    return next(_extremes(store, config=config, tokens=tokens))


def _extremes(store: Store, *, config: BatchConfig, tokens: int) -> Iterator[Batch]:
    """Of the first batches of a plan with that budget the fullest, that of the most and that of the longest sentences.

    Kernels take room of their own: on a GPU a batch of many short sentences needed more than the fullest one.
    """
    plan = Plan(store, config=config.model_copy(update={"tokens": tokens}), seed=0)
    first = [*islice(plan.batches(0), 200)]
    yield collate(store, planned=max(first, key=lambda one: one.shape.positions))
    yield collate(store, planned=max(first, key=lambda one: one.shape.rows))
    yield collate(store, planned=max(first, key=lambda one: one.shape.source + one.shape.target))


def _kept_bytes(model: Model, batch: Batch, *, loss_of: LossOf) -> int:
    """What autograd keeps of a forward pass, each storage once; weights are not counted."""
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    was_training = model.training
    model.train()
    with torch.autograd.graph.saved_tensors_hooks(note, _same):
        loss = loss_of(batch, 1)
    del loss
    model.train(was_training)
    return sum(kept.values())


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _fits(model: Model, store: Store, *, config: BatchConfig, tokens: int, loss_of: LossOf) -> bool:
    """Whether a step with that budget goes through, beside what an optimiser will hold."""
    device = next(model.parameters()).device
    held: list[Tensor] = []
    try:
        held += [torch.empty(2, *one.shape, dtype=one.dtype, device=device) for one in model.parameters()]
        for batch in _extremes(store, config=config, tokens=tokens):
            torch.autograd.backward(loss_of(batch.to(device), 1).objective)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    finally:
        held.clear()
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
    return True
