"""Several processes that train one model together, as torchrun starts them.

Each rank computes the gradient of its rows of every batch. What they must agree on (that memory ran out somewhere,
that a stop was asked for) goes through the CPU before any gradient does, so that no rank waits for one that gave up.
"""

import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from calque.errors import CalqueError, ConfigError, Interrupted, RankError, ReportedByPeer, TrainingError, exit_code
from calque.layers.transformer import DecoderBlock, EncoderBlock

PATIENCE = timedelta(minutes=60)  # rank 0 validates while the others wait
BUCKET = 1 << 25  # bytes of gradients that travel together

Result = TypeVar("Result")


class Ranks:
    """This process among `count`; with one of them nothing is sent."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count

    @property
    def leads(self) -> bool:
        """Whether this rank is the one that writes and speaks."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether it is true on any rank."""
        if self.count == 1:
            return flag
        flags = torch.tensor([float(flag)])
        with _told_elsewhere():
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return bool(flags.item())

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Each tensor becomes its sum over all ranks; they travel in buckets."""
        if self.count == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([one.reshape(-1) for one in bucket])
            dist.all_reduce(flat)
            parts = torch.split(flat, [one.numel() for one in bucket])
            for one, part in zip(bucket, parts, strict=True):
                one.copy_(part.view_as(one))

    def first(self, values: Sequence[float]) -> list[float]:
        """Rank 0's numbers, on every rank."""
        if self.count == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64)
        with _told_elsewhere():
            dist.broadcast(numbers, src=0)
        return [float(one) for one in numbers]

    def each(self, values: Sequence[float]) -> list[list[float]]:
        """Every rank's numbers, as many of each, on every rank."""
        table = torch.zeros(self.count, len(values), dtype=torch.float64)
        table[self.rank] = torch.tensor(values, dtype=torch.float64)
        if self.count > 1:
            with _told_elsewhere():
                dist.all_reduce(table)
        return [[float(value) for value in row] for row in table]

    def first_text(self, text: str) -> str:
        """Rank 0's text, on every rank."""
        if self.count == 1:
            return text
        content = text.encode()
        size = int(self.first([len(content)])[0])
        data = torch.tensor(list(content) if self.leads else [0] * size, dtype=torch.uint8)
        dist.broadcast(data, src=0)
        return bytes(data.tolist()).decode()

    def led(self, work: Callable[[], str]) -> str:
        """What the leading rank's work gives, on every rank; the others wait, and end where it could not do it."""
        text, problem = "", None
        if self.leads:
            try:
                text = work()
            except Exception as error:
                problem = error
        code = int(self.first([exit_code(problem) if problem else 0])[0])
        if code:
            raise problem or ReportedByPeer("the leading rank could not begin", code=code)
        return self.first_text(text)

    def together(self, work: Callable[[], Result]) -> Result:
        """What the work that every rank does gives on this one.

        Where it fails on some, all end; what several of them would say is said by the first of them.
        """
        problem: CalqueError | None = None
        try:
            result = work()
        except CalqueError as error:
            problem = error
        ends = self.each([problem.code if problem else 0, zlib.crc32(str(problem).encode())])
        if not any(code for code, _ in ends):
            return result
        if problem is None or ends.index(ends[self.rank]) < self.rank:
            raise ReportedByPeer("another rank could not go on", code=int(max(code for code, _ in ends)))
        raise problem

    def shared(self, error: CalqueError) -> CalqueError:
        """What to raise on each rank for an error that all of them have: the leading one says it."""
        return error if self.leads else ReportedByPeer(str(error), code=error.code)

    def wait(self) -> None:
        """Returns when every rank has come here."""
        self.any(False)


def is_broken_connection(error: BaseException) -> bool:
    """Whether another rank went away in the middle of what it was to send."""
    return isinstance(error, dist.DistError) or "gloo/transport" in str(error)


@contextmanager
def _told_elsewhere() -> Iterator[None]:
    """A connection that breaks means that another rank has ended, and said why."""
    try:
        yield
    except RuntimeError as error:
        raise ReportedByPeer(f"another rank has ended: {error}") from error


def started_ranks() -> Ranks:
    """This process among those that torchrun started, as the environment has it; they have not joined yet."""
    told = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    rank, count = told["RANK"], told["WORLD_SIZE"]
    if rank in ("", "0") and count in ("", "1"):
        return Ranks()
    missing = [name for name, value in told.items() if not value]
    if missing:
        problem = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
    elif not (rank.isdecimal() and count.isdecimal() and int(rank) < int(count)):
        problem = "RANK must be a number from 0 on that is less than WORLD_SIZE"
    else:
        return Ranks(int(rank), int(count))
    found = ", ".join(f"{name}={value}" for name, value in told.items() if value)
    raise ConfigError(
        f"the environment ({found}) says that this process is one of several that train together, but {problem}; "
        "torchrun sets all of it for the processes that it starts; to train with one process, unset RANK and WORLD_SIZE"
    )


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """The ranks that torchrun started with this process; one where nobody did."""
    ranks = started_ranks()
    if ranks.count == 1:
        yield ranks
        return
    on_gpu = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if on_gpu:
        torch.cuda.set_device(local % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=PATIENCE)
    try:
        yield ranks
    except (TrainingError, Interrupted) as error:
        if ranks.leads or isinstance(error, RankError | ReportedByPeer):
            raise
        raise ReportedByPeer(str(error), code=error.code) from error  # the leading rank has the same, and says it
    dist.destroy_process_group()  # not after an error: it would wait for ranks that wait for this one


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in their order, in runs of one kind and of about BUCKET bytes."""
    bucket: list[Tensor] = []
    size = 0
    for one in tensors:
        if bucket and (one.dtype, one.device) != (bucket[0].dtype, bucket[0].device):
            yield bucket
            bucket, size = [], 0
        bucket.append(one)
        size += one.numel() * one.element_size()
        if size >= BUCKET:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


METHODS = ("encode", "prepare", "start", "read", "logits", "log_probs", "losses")


def shard(model: nn.Module, *, device: torch.device, ranks: int) -> None:
    """Leaves each rank its part of the weights; they come together while a layer, or the model's methods, compute."""
    warnings.filterwarnings("ignore", message=".*returned a view tensor.*", category=UserWarning)
    mesh = init_device_mesh(device.type, (ranks,))
    single = {one for one in model.parameters() if one.dim() == 0}  # cannot be divided
    for one in single:
        one.data = one.data.to(device)
    for module in model.modules():
        if isinstance(module, EncoderBlock):
            fully_shard(module, mesh=mesh)
        elif isinstance(module, DecoderBlock):  # its attention is also used outside of it, once a sentence
            fully_shard(module.feed_forward, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=single)
    for name in METHODS:
        if hasattr(model, name):
            register_fsdp_forward_method(model, name)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor; where ranks hold parts of it, all of them must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by its first name, whole and on the CPU."""
    return {name: whole(value.detach()).cpu().contiguous() for name, value in model.named_parameters()}


@torch.no_grad()
def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Whole weights into a model that may be in parts."""
    for name, value in model.named_parameters():
        value.copy_(part_of(weights[name], like=value))


def part_of(tensor: Tensor, *, like: Tensor) -> Tensor:
    """A whole tensor as `like` is held: its part, or itself, on the same device."""
    placed = tensor.to(like.device)
    if isinstance(like, DTensor) and placed.dim():
        return distribute_tensor(placed, like.device_mesh, like.placements, src_data_rank=None)
    return placed.clone()
