"""Updates of the weights that cope with running out of memory, values that are not finite, and several ranks.

The gradient is that of the mean loss per unit of weight (per target token, say) over all batches and ranks of the step.
The random numbers of a step depend only on the seed, the step and the rank, so that the step can be repeated.
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
from calque.layers.arithmetic import use_arithmetic
from calque.tasks.interfaces import Carry, Loss, Task
from calque.training.capturing import CapturedPasses
from calque.training.distributed import Ranks, full_tensor, is_broken_connection
from calque.training.journal import Journal, read_journal
from calque.training.observers import TrainingObserver
from calque.training.optimisers import build_optimiser, set_learning_rate
from calque.training.settings import Precision, TrainingConfig


class Sums:
    """Sums of losses and gradient norms, and counts of steps, since the last line of metrics was written.

    They stay on the device until the next line is written.
    """

    def __init__(self, parts: Sequence[str], *, device: torch.device, dtype: torch.dtype) -> None:
        def zero() -> Tensor:
            return torch.zeros((), device=device, dtype=dtype)

        self.parts = {name: zero() for name in parts}
        self.objective = zero()
        self.weight = zero()  # number of terms, such as tokens, in the sums of the objective and its parts
        self.norm = zero()  # of the gradients
        self.steps = zero()  # number of steps in the sum of norms
        self.clipped = zero()  # steps whose gradient was clipped
        self.skipped = zero()  # updates since the run started whose loss or gradient was not finite
        self.in_a_row = zero()  # skipped updates since the last finite one

    def tensors(self) -> dict[str, Tensor]:
        """All sums of losses and gradient norms, and all counts, by their names in checkpoints."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        weight = own.pop("weight")
        return {**self.parts, **own, "tokens": weight}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores all sums and counts from a checkpoint.

        Older checkpoints lack two of them: the count of clipped steps becomes 0, and the sum of the objective is taken
        from the loss, which was the same then.
        """
        for name, value in self.tensors().items():
            if name == "clipped" and name not in tensors:
                value.zero_()
            else:
                value.copy_(tensors[name] if name in tensors else tensors["loss"])

    def clear(self) -> None:
        """Resets the sums after a line was written, except those of the whole run."""
        for value in (*self.parts.values(), self.objective, self.weight, self.norm, self.steps, self.clipped):
            value.zero_()


def stream_seed(seed: int, purpose: str) -> int:
    """A 63-bit seed for one purpose of a run. The random streams of different purposes are independent."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class MemorySplits:
    """The number of parts that a step's batches are split into: one, unless the step ran out of memory before.

    A file of the run records the numbers. Every rank reads it; only the rank that `writes` appends to it.
    """

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self._path, self._writes = path, writes
        lines = read_journal(path, counts=("step", "parts"))
        self._parts: dict[int, int] = {line["step"]: line["parts"] for line in lines}

    def parts(self, step: int) -> int:
        """The number of parts that the batches of a step are split into."""
        return self._parts.get(step, 1)

    def record(self, step: int, *, parts: int) -> None:
        """Splits the batches of a step into this many parts from now on. The record is on disk when this returns."""
        self._parts[step] = parts
        if self._writes:
            with Journal(self._path) as journal:
                journal.append({"step": step, "parts": parts})
                journal.sync()


class Updater:
    """Performs the updates of the weights.

    `sums` adds up losses and gradient norms; `carry` is the state after a batch of running text.
    """

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
        self.captured = self._captured_passes() if self._is_captured() else None

    def update(self, batches: Sequence[Batch], *, step: int, rate: float) -> None:
        """Performs update number `step`. If memory runs out, repeats it with the batches split into more parts."""
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
        norm, is_clipped = self._clip()
        finite = norm.isfinite() & gradient.losses.isfinite().all()
        self._apply(rate=rate, finite=finite)
        self._accumulate(gradient.losses, norm, finite=finite, weight=sum(batch.shared_weight for batch in batches))
        self.sums.clipped += (is_clipped & finite).to(self.sums.clipped.dtype)
        if gradient.carry is not None:  # a state that is not finite would spoil all later steps
            self.carry = tuple(torch.where(finite, state, torch.zeros_like(state)) for state in gradient.carry)

    def _gradient(self, batches: Sequence[Batch], *, step: int, parts: int) -> "Gradient | None":
        """Computes the gradient over all ranks, in `parameter.grad`. Returns None if any rank ran out of memory."""
        gradient: Gradient | None = None
        try:
            gradient = self._backward(batches, step=step, parts=parts)
        except (RuntimeError, MemoryError) as error:
            if self.is_sharded and is_broken_connection(error):
                raise ReportedByPeer(f"another rank failed: {error}") from error
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
        if gradient.statistics is not None:  # once per step, however many ranks, batches and parts there are
            self.task.follow(self.model, gradient.statistics)
        return gradient

    def _is_captured(self) -> bool:
        """Whether passes are captured as CUDA graphs: on a GPU, in unsharded runs, if config and task allow it."""
        config, allows = self.config, getattr(self.task, "capturable", None)
        is_plain = not self.is_sharded and not self.scaler.is_enabled() and config.arithmetic >= 3
        is_gpu = self.device.type == "cuda"
        return is_gpu and config.captures and is_plain and allows is not None and allows(self.model)

    def _captured_passes(self) -> CapturedPasses:
        def run(batch: Batch, factor: Tensor) -> Tensor:
            loss = self._forward(batch, step=0)
            torch.autograd.backward(loss.objective * factor)
            return self._losses(loss)

        sums = self.sums.objective
        return CapturedPasses(self.trained, run, losses=1 + len(self.task.parts), dtype=sums.dtype)

    def _forward(self, batch: Batch, *, step: int, carry: Carry | None = None) -> Loss:
        with autocast_to(self.config.precision, self.device.type):
            return self.task.loss(self.model, batch, step=step, carry=carry)

    def _losses(self, loss: Loss) -> Tensor:
        """The objective, followed by the components of the loss that the task names, as one detached tensor."""
        values = [loss.objective.detach(), *(loss.parts[name] for name in self.task.parts)]
        return torch.stack([value.to(self.sums.objective) for value in values])

    def _backward(self, batches: Sequence[Batch], *, step: int, parts: int) -> "Gradient":
        """Runs the forward and backward passes over this rank's rows; each batch is split into `parts` smaller ones."""
        rank = f" rank {self.ranks.rank}" if self.ranks.rank else ""
        torch.manual_seed(stream_seed(self.seed, f"step {step}{rank}"))
        weight = sum(batch.shared_weight for batch in batches) / self.averaged
        losses = self.sums.objective.new_zeros(1 + len(self.task.parts))
        statistics: Tensor | None = None
        carry = self.carry
        captured = self.captured if parts == 1 else None
        if captured is not None:
            captured.begin()
        with matmul_precision(self.config.precision), use_arithmetic(self.config.arithmetic):
            for batch in batches:
                replayed = None if captured is None else captured(batch, factor=1 / weight)
                if replayed is not None:
                    losses += replayed
                    continue
                if carry is not None and len(carry[0]) != batch.rows:  # the number of ranks has changed
                    carry = None
                carries = []
                divided = batch.split(parts)
                befores = [None] * len(divided) if carry is None else split_carry(carry, batch.rows, parts)
                for part, before in zip(divided, befores, strict=True):
                    loss = self._forward(part.to(self.device), step=step, carry=before)
                    torch.autograd.backward(self.scaler.scale(loss.objective / weight))
                    losses += self._losses(loss)
                    if loss.statistics is not None:
                        statistics = loss.statistics if statistics is None else statistics + loss.statistics
                    carries.append(loss.carry)
                carry = join_carries(carries)
        return Gradient(losses, statistics, carry)

    def _refuse_unsplittable(self, step: int) -> None:
        """After memory has run out: raises a RankError if batches of this run cannot be split into smaller ones."""
        if not self.task.divisible and not getattr(self.task, "recomputes", False):
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
        """Sums gradients, losses and statistics over all ranks. A gradient that is missing on a rank counts as zero."""
        sums = [gradient.losses] if gradient.statistics is None else [gradient.losses, gradient.statistics]
        if self.is_sharded:
            self.ranks.all_reduce(sums)
        else:
            for parameter in self.trained:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
            self.ranks.all_reduce([*gradients, *sums])

    def _clip(self) -> tuple[Tensor, Tensor]:
        """Clips the gradient by value, then by norm; returns its norm before clipping and whether it was changed."""
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        norm = total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip_value:
            torch.nn.utils.clip_grad_value_(self.trained, self.config.clip_value)
            total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.trained, self.config.clip, total)
        whole = full_tensor(norm)
        limited = whole if total is norm else full_tensor(total)
        is_clipped = limited < whole
        return whole, is_clipped | (limited > self.config.clip) if self.config.clip else is_clipped

    def _apply(self, *, rate: float, finite: Tensor) -> None:
        """Updates the weights if loss and gradient are `finite`. On a GPU, Adam's kernel checks it without the host."""
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
        """Adds a step's losses and gradient norm to the running sums, or counts it as skipped if not `finite`."""
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
    """The results of a forward and backward pass besides the gradients in the parameters."""

    losses: Tensor  # [1 + parts], the objective and the loss's parts
    statistics: Tensor | None
    carry: Carry | None


def split_carry(carry: Carry | None, rows: int, parts: int) -> list[Carry | None]:
    """Splits the state carried over from the previous batch at the rows where a batch of `rows` rows is split."""
    slices = row_slices(rows, parts=parts)
    if carry is None:
        return [None] * len(slices)
    return [tuple(state[part] for state in carry) for part in slices]


def join_carries(carries: Sequence[Carry | None]) -> Carry | None:
    """The state of a whole batch, from the states of its parts."""
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
    """A context in which float32 matrix products, forward and backward, use TF32 if `precision` is "tf32"."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
