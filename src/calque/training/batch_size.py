"""Finds the largest batch, in positions (tokens and padding), whose training step fits into a device's memory.

Memory is measured, not guessed: the bytes that autograd saves for the backward pass are counted for two small batch
sizes and extrapolated linearly. On a GPU, the result is then confirmed by trial steps.
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
from calque.devices import is_out_of_memory
from calque.tasks.interfaces import Task
from calque.training.settings import Precision
from calque.training.update import autocast_to

SHARES = {"cpu": 0.4, "cuda": 0.8, "mps": 0.4}  # of free memory; on a CPU, other processes need some of it too
PROBES = (512, 2048)  # positions
LEAST, MOST = 256, 1 << 20
ASSUMED = 4 << 30  # free bytes, if the system does not report them
BATCHES_PER_EPOCH = 20  # at least; with larger batches, an epoch would have too few updates


class Fit(NamedTuple):
    """A batch size in positions, and the reason why it is not larger."""

    tokens: int
    reason: str


class Trial(NamedTuple):
    """The model, task and data for trial steps, which measure how much memory a batch needs."""

    model: nn.Module
    task: Task
    store: Store
    precision: Precision = "float32"

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def objective(self, batch: Batch) -> Tensor:
        """The training objective of a batch, computed as in step 1."""
        with autocast_to(self.precision, self.device.type):
            return self.task.loss(self.model, batch.to(self.device), step=1).objective

    def extremes(self, config: BatchConfig, *, tokens: int) -> Iterator[Batch]:
        """The batches with the most positions, the most rows and the longest rows among the first 200 of an epoch.

        Kernels need workspace of their own: on a GPU, a batch of many short sentences needed more memory than the batch
        with the most positions.
        """
        order = self.task.order(self.store, config=config.model_copy(update={"tokens": tokens}), seed=0)
        plans = [*islice(order.batches(0), 200)]
        largest = (
            max(plans, key=lambda planned: planned.size.positions),
            max(plans, key=lambda planned: planned.size.rows),
            max(plans, key=lambda planned: sum(planned.size.widths)),
        )
        for planned in largest:
            yield self.task.collate(self.store, planned, epoch=0, shard=WHOLE)


def find_batch_size(trial: Trial, *, config: BatchConfig, positions: int, ranks: int = 1) -> Fit:
    """The largest number of positions per batch that fits, for a corpus of `positions` positions.

    The result counts the positions of all ranks together. All ranks are assumed to have a device like this model's.
    """
    device = trial.device
    weights = sum(value.numel() * value.element_size() for value in trial.model.parameters())
    state = 4 * weights  # weights, gradients and Adam's two moments
    sharing = 1 if device.type == "cuda" else int(os.environ.get("LOCAL_WORLD_SIZE", ranks))  # ranks per machine
    free = free_memory(device) * SHARES[device.type] / sharing - state
    small, large = (next(trial.extremes(config, tokens=tokens)) for tokens in PROBES)
    needs = [_saved_bytes(trial, batch) for batch in (small, large)]
    slope = max(1.0, (needs[1] - needs[0]) / max(1, large.positions - small.positions))
    fitting = ranks * max(LEAST, int(PROBES[1] + (free - needs[1]) / slope))
    bounds = {
        f"larger batches would leave fewer than {BATCHES_PER_EPOCH} batches per epoch": positions // BATCHES_PER_EPOCH,
        "the upper limit of automatic batch sizes": MOST,
        f"at {slope / 1024:.0f} KiB per position, this fills {SHARES[device.type]:.0%} of the free memory": fitting,
    }
    reason, tokens = min(bounds.items(), key=lambda bound: bound[1])
    tokens = max(LEAST, tokens // 64 * 64)
    if device.type != "cuda":
        return Fit(tokens, reason)
    tried = _reduce_until_fit(tokens, fits=lambda budget: _fits(trial, config=config, tokens=budget // ranks))
    return Fit(tokens, reason) if tried == tokens else Fit(tried, "found by trial steps on the device")


def _reduce_until_fit(tokens: int, *, fits: Callable[[int], bool]) -> int:
    """The given batch size if it fits. Otherwise, it is reduced until it fits, and then once more.

    The given size was computed to fill only a share of the memory. A size found by trial may only just fit, so the
    last reduction leaves a margin for steps that need a little more.
    """
    if tokens <= LEAST or fits(tokens):
        return tokens
    while (tokens := _reduce(tokens)) > LEAST and not fits(tokens):
        pass
    return _reduce(tokens)


def _reduce(tokens: int) -> int:
    return max(LEAST, int(0.85 * tokens) // 64 * 64)


def free_memory(device: torch.device, *, root: Path = Path("/")) -> int:
    """The free memory in bytes. For a CPU, it is read from system files below `root`, including a container's limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = [ASSUMED]
    meminfo, limit, usage = (
        root / name for name in ("proc/meminfo", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current")
    )
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        free = [int(lines["MemAvailable"].split()[0]) * 1024]
    if limit.exists() and usage.exists() and (maximum := limit.read_text(encoding="ascii").strip()) != "max":
        free.append(int(maximum) - int(usage.read_text(encoding="ascii")))
    return max(0, min(free))


def _saved_bytes(trial: Trial, batch: Batch) -> int:
    """The number of bytes that autograd saves in a forward pass. Storages are counted once, and weights not at all."""
    weights = {value.untyped_storage().data_ptr() for value in trial.model.parameters()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    was_training = trial.model.training
    trial.model.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
        objective = trial.objective(batch)
    del objective
    trial.model.train(was_training)
    return sum(sizes.values())


def _unpack(tensor: Tensor) -> Tensor:
    return tensor


def _fits(trial: Trial, *, config: BatchConfig, tokens: int) -> bool:
    """Whether steps with this batch size fit into memory in addition to Adam's two moments."""
    moments: list[Tensor] = []
    try:
        moments += [
            torch.empty(2, *value.shape, dtype=value.dtype, device=trial.device) for value in trial.model.parameters()
        ]
        for batch in trial.extremes(config, tokens=tokens):
            torch.autograd.backward(trial.objective(batch))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    finally:
        moments.clear()
        trial.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
    return True
