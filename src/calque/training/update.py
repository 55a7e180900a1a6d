"""One update of the weights, whatever happens: memory that runs out, numbers that are not finite, several ranks.

The gradient is that of the mean loss per unit of weight (a target token, say) over all batches and ranks of the step.
It depends on the seed, the step and the rank only, so that a step can be taken again.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from calque.data.batch import Batch, row_slices
from calque.errors import RankError, ReportedByPeer, TrainingError
from calque.tasks.interfaces import Carry, Task
from calque.training.distributed import Ranks, is_broken_connection, whole
from calque.training.journal import Journal, read_journal
from calque.training.optimisers import build_optimiser, set_learning_rate
from calque.training.settings import Precision, TrainingConfig

WITHOUT_MEMORY = (  # oneDNN and C++, word for word: "could not create a primitive descriptor" is another matter
    "could not create a primitive",
    "could not execute a primitive",
    "std::bad_alloc",
)


PARTS_WITHOUT_MEMORY = ("can't allocate memory", "not enough memory", "STATUS_ALLOC_FAILED")  # the last: cuBLAS, cuDNN


class Sums:
    """What has been summed since the last line of metrics; it stays on the device until a line is written."""

    def __init__(self, parts: Sequence[str], *, device: torch.device, dtype: torch.dtype) -> None:
        def zero() -> Tensor:
            return torch.zeros((), device=device, dtype=dtype)

        self.parts = {name: zero() for name in parts}
        self.objective = zero()  # what is minimised
        self.weight = zero()  # that both are sums over
        self.norm = zero()
        self.steps = zero()  # that the norm is of
        self.skipped = zero()  # updates left out, since the run began
        self.in_a_row = zero()  # of them, up to now

    def tensors(self) -> dict[str, Tensor]:
        """All sums by the names that checkpoints have for them."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        weight = own.pop("weight")
        return {**self.parts, **own, "tokens": weight}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to the sums of a checkpoint; once, the objective was not summed."""
        for name, value in self.tensors().items():
            value.copy_(tensors[name] if name in tensors else tensors["loss"])

    def clear(self) -> None:
        """Begins anew after a line was written."""
        for value in (*self.parts.values(), self.objective, self.weight, self.norm, self.steps):
            value.zero_()


def stream_seed(seed: int, purpose: str) -> int:
    """A seed of 63 bits for one purpose of a run: streams of different purposes are unrelated."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class MemorySplits:
    """How many parts the batches of a step are taken in: one, unless memory ran out there before.

    Every rank reads it and one writes.
    """

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self._path, self._writes = path, writes
        lines = read_journal(path, counts=("step", "parts"))
        self._parts: dict[int, int] = {line["step"]: line["parts"] for line in lines}

    def parts(self, step: int) -> int:
        """In how many parts a step's batches are taken."""
        return self._parts.get(step, 1)

    def record(self, step: int, *, parts: int) -> None:
        """From now on a step's batches are taken in so many parts; on disk when this returns."""
        self._parts[step] = parts
        if self._writes:
            with Journal(self._path) as journal:
                journal.append({"step": step, "parts": parts})
                journal.sync()


class Updater:
    """Takes one step after the other; `sums` tells how they went, `carry` is what running text goes on from."""

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
        self.averaged = ranks.count if self.is_sharded else 1  # sharded gradients come as the ranks' mean
        first = next(model.parameters())
        self.device = first.device
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimiser = build_optimiser(config.optimiser, model)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "float16")
        dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
        self.sums = Sums(task.parts, device=self.device, dtype=dtype)
        self.carry: Carry | None = None

    def update(self, batches: Sequence[Batch], *, step: int, rate: float) -> None:
        """Takes step number `step`; where it does not fit into memory, in more and smaller parts."""
        parts = self.splits.parts(step)
        while (gradient := self._gradient(batches, step=step, parts=parts)) is None:
            parts *= 2
            if not self.ranks.any(parts < 2 * max(batch.rows for batch in batches)):
                raise TrainingError(
                    f"out of memory in step {step} even with one row at a time; the last checkpoint is intact; "
                    "begin another run with a smaller data.maximum_length, or with a smaller model"
                )
            self.splits.record(step, parts=parts)
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimiser)
        norm = self._clip()
        finite = norm.isfinite() & gradient.losses.isfinite().all()
        self._apply(rate=rate, finite=finite)
        self._count(gradient.losses, norm, finite=finite, weight=sum(batch.shared_weight for batch in batches))
        if gradient.carry is not None:  # a state that is not finite would spoil all that follows
            self.carry = tuple(torch.where(finite, state, torch.zeros_like(state)) for state in gradient.carry)

    def _gradient(self, batches: Sequence[Batch], *, step: int, parts: int) -> "Gradient | None":
        """Leaves the gradient with the weights; None without memory."""
        rank = f" rank {self.ranks.rank}" if self.ranks.rank else ""
        torch.manual_seed(stream_seed(self.seed, f"step {step}{rank}"))
        weight = sum(batch.shared_weight for batch in batches) / self.averaged
        losses = self.sums.objective.new_zeros(1 + len(self.task.parts))
        statistics: Tensor | None = None
        carry = self.carry
        ran_out = False
        try:
            with multiplying(self.config.precision):
                for batch in batches:
                    if carry is not None and len(carry[0]) != batch.rows:  # of another number of ranks
                        carry = None
                    carries = []
                    for part, before in zip(batch.split(parts), split_carry(carry, batch.rows, parts), strict=True):
                        with computing(self.config.precision, self.device.type):
                            loss = self.task.loss(self.model, part.to(self.device), step=step, carry=before)
                        torch.autograd.backward(self.scaler.scale(loss.objective / weight))
                        losses[0] += loss.objective.detach()
                        losses[1:] += torch.stack([loss.parts[name].to(losses) for name in self.task.parts])
                        if loss.statistics is not None:
                            statistics = loss.statistics if statistics is None else statistics + loss.statistics
                        carries.append(loss.carry)
                    carry = join_carries(carries)
        except (RuntimeError, MemoryError) as error:
            if self.is_sharded and is_broken_connection(error):
                raise ReportedByPeer(f"another rank has ended: {error}") from error
            if not is_out_of_memory(error):
                raise
            ran_out = True
        if ran_out and not self.task.divisible:
            raise RankError(
                f"out of memory in step {step}; the last checkpoint is intact; the loss of this task needs whole "
                "batches, so set a smaller training.batch.tokens in config.toml and resume"
            )
        if ran_out and self.is_sharded:  # the others are in the middle of sending parts to this rank
            raise RankError(
                f"out of memory in step {step}; the last checkpoint is intact; with training.sharded a batch cannot be "
                "taken in parts, so set a smaller training.batch.tokens in config.toml and resume"
            )
        if self.ranks.any(ran_out):
            self.optimiser.zero_grad(set_to_none=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            return None
        if self.ranks.count > 1:
            self._add_up(losses, statistics)
        if statistics is not None:  # once for all ranks, batches and parts, however they are cut
            self.task.follow(self.model, statistics)
        return Gradient(losses, carry)

    def _add_up(self, losses: Tensor, statistics: Tensor | None) -> None:
        """Gradients, losses and statistics of all ranks; what one rank did not use has a gradient of zero there."""
        sums = [losses] if statistics is None else [losses, statistics]
        if self.is_sharded:
            self.ranks.add_up(sums)
        else:
            for parameter in self.trained:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
            self.ranks.add_up([*gradients, *sums])

    def _clip(self) -> Tensor:
        """The norm that the gradient had; it is clipped by value, then by norm."""
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        norm = total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip_value:
            torch.nn.utils.clip_grad_value_(self.trained, self.config.clip_value)
            total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.trained, self.config.clip, total)
        return whole(norm)

    def _apply(self, *, rate: float, finite: Tensor) -> None:
        """Moves the weights, unless something is not finite; a GPU decides that by itself, so that nobody waits."""
        set_learning_rate(self.optimiser, rate)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimiser)
            self.scaler.update()
        elif self.device.type == "cuda" and self.config.optimiser.kind in ("adam", "adamw"):
            self.optimiser.found_inf = (~finite).float()  # type: ignore[attr-defined]  # fused kernels look for it
            self.optimiser.step()
        elif bool(finite):
            self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _count(self, losses: Tensor, norm: Tensor, *, finite: Tensor, weight: float) -> None:
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
    """What a backward pass gave beside the gradient itself."""

    losses: Tensor  # [1 + parts], the objective and the loss's parts, of all ranks
    carry: Carry | None


def split_carry(carry: Carry | None, rows: int, parts: int) -> list[Carry | None]:
    """The state of each part of a batch that is split."""
    slices = row_slices(rows, parts=parts)
    if carry is None:
        return [None] * len(slices)
    return [tuple(state[at] for state in carry) for at in slices]


def join_carries(carries: Sequence[Carry | None]) -> Carry | None:
    """The state of a batch from those of its parts."""
    known = [carry for carry in carries if carry is not None]
    return tuple(torch.cat(states) for states in zip(*known, strict=True)) if known else None


def computing(precision: Precision, device: str) -> AbstractContextManager[Any]:
    """What a forward pass computes in."""
    match precision:
        case "float32" | "tf32" | "float64":
            return nullcontext()
        case "bfloat16":
            return torch.autocast(device, dtype=torch.bfloat16)
        case "float16":
            return torch.autocast(device, dtype=torch.float16)


@contextmanager
def multiplying(precision: Precision) -> Iterator[None]:
    """How float32 matrices are multiplied, forwards and backwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had no memory left; most allocators say so in a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    said = str(error)
    return said in WITHOUT_MEMORY or any(part in said for part in PARTS_WITHOUT_MEMORY)
