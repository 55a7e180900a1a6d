"""One update of the weights, whatever happens: memory that runs out, numbers that are not finite, several ranks.

The gradient is that of the mean loss a target token over all batches and ranks of the step. It depends on the seed,
the step and the rank only, so that a step can be taken again.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calque.data.batch import Batch
from calque.errors import RankError, ReportedByPeer, TrainingError
from calque.models.model import Model
from calque.objectives.cross_entropy import Loss
from calque.training.distributed import Ranks, is_broken_connection, whole
from calque.training.journal import Journal, read_journal
from calque.training.optimisers import build_optimiser, set_learning_rate
from calque.training.settings import Precision, TrainingConfig

LossOf = Callable[[Batch, int], Loss]
"""The loss of a batch at a step."""


WITHOUT_MEMORY = (  # oneDNN and C++, word for word: "could not create a primitive descriptor" is another matter
    "could not create a primitive",
    "could not execute a primitive",
    "std::bad_alloc",
)


PARTS_WITHOUT_MEMORY = ("can't allocate memory", "not enough memory", "STATUS_ALLOC_FAILED")  # the last: cuBLAS, cuDNN


@dataclass
class Sums:
    """What has been summed since the last line of metrics; it stays on the device until a line is written."""

    loss: Tensor  # cross-entropy
    objective: Tensor  # what is made small
    tokens: Tensor  # that both are of
    norm: Tensor
    steps: Tensor  # that the norm is of
    skipped: Tensor  # updates left out, since the run began
    in_a_row: Tensor  # of them, up to now

    @classmethod
    def zeros(cls, device: torch.device, dtype: torch.dtype) -> "Sums":
        return cls(**{each.name: torch.zeros((), device=device, dtype=dtype) for each in fields(cls)})

    def clear(self) -> None:
        """Begins anew after a line was written."""
        for one in (self.loss, self.objective, self.tokens, self.norm, self.steps):
            one.zero_()


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
    """Takes one step after the other; `sums` tells how they went."""

    def __init__(
        self, model: Model, *, config: TrainingConfig, seed: int, loss_of: LossOf, ranks: Ranks, history: MemorySplits
    ) -> None:
        self.model = model
        self.config = config
        self.seed = seed
        self.loss_of = loss_of
        self.ranks = ranks
        self.history = history
        self.is_sharded = config.divides(ranks.count)
        self.averaged = ranks.count if self.is_sharded else 1  # sharded gradients come as the ranks' mean
        first = next(model.parameters())
        self.device = first.device
        self.learning = [one for one in model.parameters() if one.requires_grad]
        self.optimiser = build_optimiser(config.optimiser, model)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "float16")
        self.sums = Sums.zeros(self.device, torch.float64 if first.dtype == torch.float64 else torch.float32)

    def update(self, batches: Sequence[Batch], *, step: int, rate: float) -> None:
        """Takes step number `step`; where it does not fit into memory, in more and smaller parts."""
        parts = self.history.parts(step)
        while (losses := self._gradient(batches, step=step, parts=parts)) is None:
            parts *= 2
            if not self.ranks.any(parts < 2 * max(len(batch.target_lengths) for batch in batches)):
                raise TrainingError(
                    f"out of memory in step {step} even with one sentence at a time; the last checkpoint is intact; "
                    "begin another run with a smaller data.maximum_length, or with a smaller model"
                )
            self.history.record(step, parts=parts)
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimiser)
        norm = self._clip()
        self._apply(rate=rate, finite=norm.isfinite() & losses.isfinite().all())
        self._count(losses, norm, tokens=sum(batch.shared_tokens for batch in batches))

    def _gradient(self, batches: Sequence[Batch], *, step: int, parts: int) -> Tensor | None:
        """Leaves the gradient with the weights; [2], cross-entropy and objective of all ranks, None without memory."""
        rank = f" rank {self.ranks.rank}" if self.ranks.rank else ""
        torch.manual_seed(stream_seed(self.seed, f"step {step}{rank}"))
        tokens = sum(batch.shared_tokens for batch in batches) / self.averaged
        losses, rewards = self.sums.loss.new_zeros(2), self.sums.loss.new_zeros(2)
        ran_out = False
        try:
            with multiplying(self.config.precision):
                for batch in batches:
                    for part in batch.split(parts):
                        with computing(self.config.precision, self.device.type):
                            found = self.loss_of(part.to(self.device), step)
                        torch.autograd.backward(self.scaler.scale(found.objective / tokens))
                        losses[0] += found.cross_entropy.detach()
                        losses[1] += found.objective.detach()
                        rewards += 0 if found.rewards is None else found.rewards
        except (RuntimeError, MemoryError) as error:
            if self.is_sharded and is_broken_connection(error):
                raise ReportedByPeer(f"another rank has ended: {error}") from error
            if not is_out_of_memory(error):
                raise
            ran_out = True
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
            self._add_up(losses, rewards)
        if self.model.baseline is not None:  # once for all ranks, batches and parts, however they are cut
            self.model.baseline.follow(*rewards)
        return losses

    def _add_up(self, losses: Tensor, rewards: Tensor) -> None:
        """Gradients, losses and rewards of all ranks; what one rank did not use has a gradient of zero there."""
        if self.is_sharded:
            self.ranks.add_up([losses, rewards])
        else:
            for one in self.learning:
                if one.grad is None:
                    one.grad = torch.zeros_like(one)
            self.ranks.add_up([*(one.grad for one in self.learning if one.grad is not None), losses, rewards])

    def _clip(self) -> Tensor:
        """The norm that the gradient had; it is clipped by value, then by norm."""
        gradients = [one.grad for one in self.learning if one.grad is not None]
        norm = total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip_value:
            torch.nn.utils.clip_grad_value_(self.learning, self.config.clip_value)
            total = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.learning, self.config.clip, total)
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

    def _count(self, losses: Tensor, norm: Tensor, *, tokens: int) -> None:
        sums = self.sums
        finite = (norm.isfinite() & losses.isfinite().all()).to(sums.loss.dtype)
        loss, objective = torch.nan_to_num(losses, nan=0.0, posinf=0.0, neginf=0.0) * finite
        sums.loss += loss
        sums.objective += objective
        sums.norm += torch.nan_to_num(norm, nan=0.0, posinf=0.0, neginf=0.0) * finite
        sums.tokens += tokens * finite
        sums.steps += finite
        sums.skipped += 1 - finite
        sums.in_a_row.copy_((sums.in_a_row + 1) * (1 - finite))


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
