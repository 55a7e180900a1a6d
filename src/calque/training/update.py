"""Updates of the weights that cope with running out of memory, values that are not finite, and several ranks.

The gradient is that of the mean loss per unit of weight (per target token, say) over all batches and ranks of the step.
Its random numbers depend only on the seed, the step and the rank, so that a step can be repeated.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from calque.data.batch import Batch, row_slices
from calque.devices import is_out_of_memory
from calque.errors import RankError, ReportedByPeer, TrainingError
from calque.tasks.interfaces import Carry, Task
from calque.training.distributed import Ranks, full_tensor, is_broken_connection
from calque.training.journal import Journal, read_journal
from calque.training.observers import TrainingObserver
from calque.training.optimisers import build_optimiser, set_learning_rate
from calque.training.settings import Precision, TrainingConfig


class Sums:
    """Sums since the last line of metrics; they stay on the device until a line is written."""

    def __init__(self, parts: Sequence[str], *, device: torch.device, dtype: torch.dtype) -> None:
        def zero() -> Tensor:
            return torch.zeros((), device=device, dtype=dtype)

        self.parts = {name: zero() for name in parts}
        self.objective = zero()
        self.weight = zero()  # that the objective and its parts are summed over
        self.norm = zero()  # of the gradients
        self.steps = zero()  # that the norms are summed over
        self.skipped = zero()  # updates that were not finite, since the run started
        self.in_a_row = zero()  # skipped updates since the last finite one

    def tensors(self) -> dict[str, Tensor]:
        """All sums by their names in checkpoints."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        weight = own.pop("weight")
        return {**self.parts, **own, "tokens": weight}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the sums of a checkpoint; older ones lack the objective, which was the loss."""
        for name, value in self.tensors().items():
            value.copy_(tensors[name] if name in tensors else tensors["loss"])

    def clear(self) -> None:
        """Resets the sums after a line was written, except those of the whole run."""
        for value in (*self.parts.values(), self.objective, self.weight, self.norm, self.steps):
            value.zero_()


def stream_seed(seed: int, purpose: str) -> int:
    """A 63-bit seed for one purpose of a run; the random streams of different purposes are independent."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class MemorySplits:
    """The number of parts that a step's batches are split into: one, unless the step ran out of memory before.

    Every rank reads the file; only the one that `writes` appends to it.
    """

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self._path, self._writes = path, writes
        lines = read_journal(path, counts=("step", "parts"))
        self._parts: dict[int, int] = {line["step"]: line["parts"] for line in lines}

    def parts(self, step: int) -> int:
        """The number of parts that the batches of a step are split into."""
        return self._parts.get(step, 1)

    def record(self, step: int, *, parts: int) -> None:
        """Splits the batches of a step into this many parts from now on; on disk when this returns."""
        self._parts[step] = parts
        if self._writes:
            with Journal(self._path) as journal:
                journal.append({"step": step, "parts": parts})
                journal.sync()


class Updater:
    """Performs updates; `sums` accumulates their losses and norms, `carry` is the state of running text."""

    def __init__(
        self, model: nn.Module, *, task: Task, config: TrainingConfig, seed: int, ranks: Ranks, splits: MemorySplits
    ) -> None:
        self.model = model
        self.task = task
        self.config = config
        self.seed = seed
        self.ranks = ranks
        self.splits = splits
        self.is_sharded = config.divides(ranks.count)
        self.averaged = ranks.count if self.is_sharded else 1  # FSDP averages gradients over the ranks
        first = next(model.parameters())
        self.device = first.device
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimiser = build_optimiser(config.optimiser, model)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "float16")
        dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
        self.sums = Sums(task.parts, device=self.device, dtype=dtype)
        self.carry: Carry | None = None
        self.observer: TrainingObserver | None = None

    def update(self, batches: Sequence[Batch], *, step: int, rate: float) -> None:
        """Performs update number `step`; if memory runs out, with batches split into more parts."""
        parts = self.splits.parts(step)
        while (gradient := self._gradient(batches, step=step, parts=parts)) is None:
            parts *= 2
            if not self.ranks.any(parts < 2 * max(batch.rows for batch in batches)):
                raise TrainingError(
                    f"out of memory in step {step} even with one row at a time; the last checkpoint is intact; "
                    "start another run with a smaller data.maximum_length or a smaller model"
                )
            self.splits.record(step, parts=parts)
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimiser)
        if self.observer is not None:
            self.observer.gradients(step, self.model)
        norm = self._clip()
        finite = norm.isfinite() & gradient.losses.isfinite().all()
        self._apply(rate=rate, finite=finite)
        self._accumulate(gradient.losses, norm, finite=finite, weight=sum(batch.shared_weight for batch in batches))
        if gradient.carry is not None:  # a state that is not finite would spoil all later steps
            self.carry = tuple(torch.where(finite, state, torch.zeros_like(state)) for state in gradient.carry)

    def _gradient(self, batches: Sequence[Batch], *, step: int, parts: int) -> "Gradient | None":
        """Leaves the gradient of all ranks in the parameters; None if any rank ran out of memory."""
        gradient: Gradient | None = None
        try:
            gradient = self._backward(batches, step=step, parts=parts)
        except (RuntimeError, MemoryError) as error:
            if self.is_sharded and is_broken_connection(error):
                raise ReportedByPeer(f"another rank has ended: {error}") from error
            if not is_out_of_memory(error):
                raise
        if gradient is None:
            self._refuse_unsplittable(step)
        if self.ranks.any(gradient is None) or gradient is None:
            self.optimiser.zero_grad(set_to_none=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            return None
        if self.ranks.count > 1:
            self._reduce(gradient)
        if gradient.statistics is not None:  # once per step, whatever the ranks, batches and parts
            self.task.follow(self.model, gradient.statistics)
        return gradient

    def _backward(self, batches: Sequence[Batch], *, step: int, parts: int) -> "Gradient":
        """Forward and backward passes of this rank's rows, in `parts` parts per batch."""
        rank = f" rank {self.ranks.rank}" if self.ranks.rank else ""
        torch.manual_seed(stream_seed(self.seed, f"step {step}{rank}"))
        weight = sum(batch.shared_weight for batch in batches) / self.averaged
        losses = self.sums.objective.new_zeros(1 + len(self.task.parts))
        statistics: Tensor | None = None
        carry = self.carry
        with matmul_precision(self.config.precision):
            for batch in batches:
                if carry is not None and len(carry[0]) != batch.rows:  # the number of ranks has changed
                    carry = None
                carries = []
                for part, before in zip(batch.split(parts), split_carry(carry, batch.rows, parts), strict=True):
                    with autocast_to(self.config.precision, self.device.type):
                        loss = self.task.loss(self.model, part.to(self.device), step=step, carry=before)
                    torch.autograd.backward(self.scaler.scale(loss.objective / weight))
                    losses[0] += loss.objective.detach()
                    losses[1:] += torch.stack([loss.parts[name].to(losses) for name in self.task.parts])
                    if loss.statistics is not None:
                        statistics = loss.statistics if statistics is None else statistics + loss.statistics
                    carries.append(loss.carry)
                carry = join_carries(carries)
        return Gradient(losses, statistics, carry)

    def _refuse_unsplittable(self, step: int) -> None:
        """Raises an error if batches that do not fit into memory cannot be split."""
        if not self.task.divisible:
            reason = "the loss of this task needs whole batches"
        elif self.is_sharded:  # the other ranks are in the middle of sending shards to this one
            reason = "with training.sharded a batch cannot be split"
        else:
            return
        raise RankError(
            f"out of memory in step {step}; the last checkpoint is intact; {reason}, so set a smaller "
            "training.batch.tokens in config.toml and resume"
        )

    def _reduce(self, gradient: "Gradient") -> None:
        """Sums gradients, losses and statistics over all ranks; a parameter that a rank did not use counts as zero."""
        sums = [gradient.losses] if gradient.statistics is None else [gradient.losses, gradient.statistics]
        if self.is_sharded:
            self.ranks.all_reduce(sums)
        else:
            for parameter in self.trained:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
            self.ranks.all_reduce([*gradients, *sums])

    def _clip(self) -> Tensor:
        """Clips the gradient by value, then by norm; its norm before clipping."""
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        norm = total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip_value:
            torch.nn.utils.clip_grad_value_(self.trained, self.config.clip_value)
            total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.trained, self.config.clip, total)
        return full_tensor(norm)

    def _apply(self, *, rate: float, finite: Tensor) -> None:
        """Updates the weights if all values are finite; on a GPU the kernel decides, so that the host need not wait."""
        set_learning_rate(self.optimiser, rate)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimiser)
            self.scaler.update()
        elif self.device.type == "cuda" and self.config.optimiser.kind in ("adam", "adamw"):
            self.optimiser.found_inf = (~finite).float()  # type: ignore[attr-defined]  # read by fused kernels
            self.optimiser.step()
        elif bool(finite):
            self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _accumulate(self, losses: Tensor, norm: Tensor, *, finite: Tensor, weight: float) -> None:
        """Adds a step to the sums, or to the skipped ones."""
        sums = self.sums
        counts = finite.to(sums.objective.dtype)
        objective, *parts = torch.nan_to_num(losses, nan=0.0, posinf=0.0, neginf=0.0) * counts
        sums.objective += objective
        for total, part in zip(sums.parts.values(), parts, strict=True):
            total += part
        sums.norm += torch.nan_to_num(norm, nan=0.0, posinf=0.0, neginf=0.0) * counts
        sums.weight += weight * counts
        sums.steps += counts
        sums.skipped += 1 - counts
        sums.in_a_row.copy_((sums.in_a_row + 1) * (1 - counts))


class Gradient(NamedTuple):
    """What a step returns besides the gradients in the parameters."""

    losses: Tensor  # [1 + parts], the objective and the loss's parts
    statistics: Tensor | None
    carry: Carry | None


def split_carry(carry: Carry | None, rows: int, parts: int) -> list[Carry | None]:
    """The state for each part of a batch that is split."""
    slices = row_slices(rows, parts=parts)
    if carry is None:
        return [None] * len(slices)
    return [tuple(state[part] for state in carry) for part in slices]


def join_carries(carries: Sequence[Carry | None]) -> Carry | None:
    """The state of a batch, from those of its parts."""
    known = [carry for carry in carries if carry is not None]
    return tuple(torch.cat(states) for states in zip(*known, strict=True)) if known else None


def autocast_to(precision: Precision, device: str) -> AbstractContextManager[Any]:
    """The autocast context of a forward pass."""
    match precision:
        case "float32" | "tf32" | "float64":
            return nullcontext()
        case "bfloat16":
            return torch.autocast(device, dtype=torch.bfloat16)
        case "float16":
            return torch.autocast(device, dtype=torch.float16)


@contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Sets the precision of float32 matrix products, forward and backward."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
