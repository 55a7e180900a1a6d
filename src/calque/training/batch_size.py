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
from torch import Tensor, nn

from calque.data.batch import Batch
from calque.data.batching import WHOLE, BatchConfig
from calque.data.store import Store
from calque.tasks.interfaces import Task
from calque.training.settings import Precision
from calque.training.update import computing, is_out_of_memory

SHARES = {"cpu": 0.4, "cuda": 0.8, "mps": 0.4}  # of free memory; other processes use a CPU's too
PROBES = (512, 2048)  # positions
LEAST, MOST = 256, 1 << 20
ASSUMED = 4 << 30  # bytes that are free, where the system does not say
BATCHES_AN_EPOCH = 20  # at least: a budget beyond that leaves too few updates


class Fit(NamedTuple):
    """A budget, and why it is no larger."""

    tokens: int
    reason: str


class Trial(NamedTuple):
    """Steps that are tried, and with what."""

    model: nn.Module
    task: Task
    store: Store
    precision: Precision = "float32"

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def objective(self, batch: Batch) -> Tensor:
        """What is minimised in the first step of a batch."""
        with computing(self.precision, self.device.type):
            return self.task.loss(self.model, batch.to(self.device), step=1).objective

    def extremes(self, config: BatchConfig, *, tokens: int) -> Iterator[Batch]:
        """Of the first batches with that budget the fullest, that of the most and that of the longest rows.

        Kernels take room of their own: on a GPU a batch of many short sentences needed more than the fullest one.
        """
        order = self.task.order(self.store, config=config.model_copy(update={"tokens": tokens}), seed=0)
        first = [*islice(order.batches(0), 200)]
        largest = (
            max(first, key=lambda planned: planned.size.positions),
            max(first, key=lambda planned: planned.size.rows),
            max(first, key=lambda planned: sum(planned.size.widths)),
        )
        for planned in largest:
            yield self.task.collate(self.store, planned, epoch=0, shard=WHOLE)


def find_batch_size(trial: Trial, *, config: BatchConfig, positions: int, ranks: int = 1) -> Fit:
    """The largest number of positions of a batch that a training step can take on devices like this model's.

    An epoch has `positions` in all.
    """
    device = trial.device
    parameters = list(trial.model.parameters())
    state = 4 * sum(value.numel() * value.element_size() for value in parameters)  # weights, gradients, Adam's two
    sharing = 1 if device.type == "cuda" else int(os.environ.get("LOCAL_WORLD_SIZE", ranks))  # one machine's memory
    free = free_memory(device) * SHARES[device.type] / sharing - state
    small, large = (next(trial.extremes(config, tokens=tokens)) for tokens in PROBES)
    needs = [_kept_bytes(trial, batch) for batch in (small, large)]
    slope = max(1.0, (needs[1] - needs[0]) / max(1, large.positions - small.positions))
    fitting = ranks * max(LEAST, int(PROBES[1] + (free - needs[1]) / slope))
    bounds = {
        "with more, an epoch would have fewer than 20 batches": positions // BATCHES_AN_EPOCH,
        "the most that is ever taken": MOST,
        f"{slope / 1024:.0f} KiB a position fill {SHARES[device.type]:.0%} of the free memory": fitting,
    }
    reason, tokens = min(bounds.items(), key=lambda each: each[1])
    tokens = max(LEAST, tokens // 64 * 64)
    if device.type != "cuda":
        return Fit(tokens, reason)
    tried = _tried(tokens, fits=lambda most: _fits(trial, config=config, tokens=most // ranks))
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


def _kept_bytes(trial: Trial, batch: Batch) -> int:
    """What autograd keeps of a forward pass, each storage once; weights are not counted."""
    weights = {value.untyped_storage().data_ptr() for value in trial.model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    was_training = trial.model.training
    trial.model.train()
    with torch.autograd.graph.saved_tensors_hooks(note, _same):
        objective = trial.objective(batch)
    del objective
    trial.model.train(was_training)
    return sum(kept.values())


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _fits(trial: Trial, *, config: BatchConfig, tokens: int) -> bool:
    """Whether a step with that budget goes through, beside what an optimiser will hold."""
    held: list[Tensor] = []
    try:
        held += [
            torch.empty(2, *value.shape, dtype=value.dtype, device=trial.device) for value in trial.model.parameters()
        ]
        for batch in trial.extremes(config, tokens=tokens):
            torch.autograd.backward(trial.objective(batch))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    finally:
        held.clear()
        trial.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
    return True
