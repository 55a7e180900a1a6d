"""Data-parallel training by several processes that torchrun starts, with sharded weights if requested.

Each rank computes the gradient of its rows of every batch. Flags that ranks must agree on (a rank ran out of memory,
a stop was requested) are exchanged on the CPU before any gradient is, so that no rank waits for one that failed.
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

from calque.errors import CalqueError, ConfigError, Interrupted, RankError, ReportedByPeer, TrainingError, exit_code
from calque.layers.transformer import DecoderBlock, EncoderBlock

TIMEOUT = timedelta(minutes=60)  # rank 0 validates while the others wait
BUCKET = 1 << 25  # bytes of gradients per all-reduce

Result = TypeVar("Result")


class Ranks:
    """The rank of this process among `count` ranks, and its communication with the others, if there are any."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and messages."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank."""
        if self.count == 1:
            return flag
        flags = torch.tensor([float(flag)])
        with _peer_errors():
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return bool(flags.item())

    def all_reduce(self, tensors: Iterable[Tensor]) -> None:
        """Replaces each tensor with its sum over all ranks, in buckets."""
        if self.count == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def broadcast(self, values: Sequence[float]) -> list[float]:
        """Sends the numbers of rank 0 to all ranks; every rank returns them."""
        if self.count == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64)
        with _peer_errors():
            dist.broadcast(numbers, src=0)
        return numbers.tolist()

    def all_gather(self, values: Sequence[float]) -> list[list[float]]:
        """Exchanges numbers: every rank returns the numbers of all ranks. All ranks must pass equally many."""
        table = torch.zeros(self.count, len(values), dtype=torch.float64)
        table[self.rank] = torch.tensor(values, dtype=torch.float64)
        if self.count > 1:
            with _peer_errors():
                dist.all_reduce(table)
        return table.tolist()

    def broadcast_text(self, text: str) -> str:
        """Sends the text of rank 0 to all ranks; every rank returns it."""
        if self.count == 1:
            return text
        content = text.encode()
        size = int(self.broadcast([len(content)])[0])
        data = torch.tensor(list(content) if self.leads else [0] * size, dtype=torch.uint8)
        dist.broadcast(data, src=0)
        return bytes(data.tolist()).decode()

    def on_leader(self, work: Callable[[], str]) -> str:
        """Runs `work` on the leading rank and returns its result on all ranks. If it fails, all raise an error."""
        text, problem = "", None
        if self.leads:
            try:
                text = work()
            except Exception as error:
                problem = error
        code = int(self.broadcast([exit_code(problem) if problem else 0])[0])
        if code:
            raise problem or ReportedByPeer("the leading rank failed", code=code)
        return self.broadcast_text(text)

    def on_all(self, work: Callable[[], Result]) -> Result:
        """Runs `work` on every rank and returns the result of this rank.

        If it fails on some ranks, every rank raises an error. An error that several ranks have in common is reported by
        the first of them.
        """
        problem: CalqueError | None = None
        try:
            result = work()
        except CalqueError as error:
            problem = error
        outcomes = self.all_gather([problem.code if problem else 0, zlib.crc32(str(problem).encode())])
        if not any(code for code, _ in outcomes):
            return result
        if problem is None or outcomes.index(outcomes[self.rank]) < self.rank:
            raise ReportedByPeer("another rank failed", code=int(max(code for code, _ in outcomes)))
        raise problem

    def reported_by_leader(self, error: CalqueError) -> CalqueError:
        """The exception to raise for an error that all ranks have, so that only the leading rank reports it."""
        return error if self.leads else ReportedByPeer(str(error), code=error.code)

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self.any(False)


def is_broken_connection(error: BaseException) -> bool:
    """Whether an exception means that another rank ended while this one communicated with it."""
    return isinstance(error, dist.DistError) or "gloo/transport" in str(error)


@contextmanager
def _peer_errors() -> Iterator[None]:
    """A context that turns a broken connection into ReportedByPeer: another rank has exited and reports the reason."""
    try:
        yield
    except RuntimeError as error:
        raise ReportedByPeer(f"another process of this distributed run has exited: {error}") from error


def started_ranks() -> Ranks:
    """The rank of this process according to torchrun's environment variables, before the processes are connected."""
    variables = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    rank, count = variables["RANK"], variables["WORLD_SIZE"]
    if rank in ("", "0") and count in ("", "1"):
        return Ranks()
    missing = [name for name, value in variables.items() if not value]
    if missing:
        problem = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
    elif not (rank.isdecimal() and count.isdecimal() and int(rank) < int(count)):
        problem = "RANK must be an integer from 0 to WORLD_SIZE - 1"
    else:
        return Ranks(int(rank), int(count))
    present = ", ".join(f"{name}={value}" for name, value in variables.items() if value)
    raise ConfigError(
        f"the environment ({present}) makes this process one of several that train together, but {problem}; torchrun "
        "sets these variables for the processes it starts; to train with one process, unset RANK and WORLD_SIZE"
    )


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """Connects the processes that torchrun started; without torchrun, there is one rank."""
    ranks = started_ranks()
    if ranks.count == 1:
        yield ranks
        return
    on_gpu = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if on_gpu:
        torch.cuda.set_device(local % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    try:
        yield ranks
    except (TrainingError, Interrupted) as error:
        if ranks.leads or isinstance(error, RankError | ReportedByPeer):
            raise
        raise ReportedByPeer(str(error), code=error.code) from error  # the leading rank reports the same error
    dist.destroy_process_group()  # not after an error: it would wait for ranks that wait for this one


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Groups consecutive tensors of one dtype and device into buckets of about BUCKET bytes."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and (tensor.dtype, tensor.device) != (bucket[0].dtype, bucket[0].device):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel() * tensor.element_size()
        if size >= BUCKET:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


METHODS = ("encode", "prepare", "start", "read", "logits", "log_probs", "losses", "total_loss")


def shard(model: nn.Module, *, device: torch.device, ranks: int) -> None:
    """Shards the weights among the ranks (FSDP2). They are gathered while a layer or a method of the model computes.

    FSDP2 is imported only here: that takes half as long as importing the rest of torch, and most runs do not shard.
    """
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    warnings.filterwarnings("ignore", message=".*returned a view tensor.*", category=UserWarning)
    mesh = init_device_mesh(device.type, (ranks,))
    scalars = {parameter for parameter in model.parameters() if parameter.dim() == 0}  # cannot be sharded
    for scalar in scalars:
        scalar.data = scalar.data.to(device)
    for module in model.modules():
        if isinstance(module, EncoderBlock):
            fully_shard(module, mesh=mesh)
        elif isinstance(module, DecoderBlock):  # its attention is also used outside the block, once per sentence
            fully_shard(module.feed_forward, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=scalars)
    for name in METHODS:
        if hasattr(model, name):
            register_fsdp_forward_method(model, name)


def full_tensor(tensor: Tensor) -> Tensor:
    """The unsharded tensor. If the tensor is sharded, all ranks must call this."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def full_weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters of a model by name, unsharded and on the CPU. A shared parameter is listed once."""
    return {name: full_tensor(value.detach()).cpu().contiguous() for name, value in model.named_parameters()}


@torch.no_grad()
def copy_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies unsharded weights into a model that may be sharded."""
    for name, value in model.named_parameters():
        value.copy_(shard_like(weights[name], like=value))


def shard_like(tensor: Tensor, *, like: Tensor) -> Tensor:
    """A copy of an unsharded tensor, sharded as `like` is and on the same device."""
    placed = tensor.to(like.device)
    if _is_sharded(like) and placed.dim():
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(like, DTensor)
        return distribute_tensor(placed, like.device_mesh, like.placements, src_data_rank=None)
    return placed.clone()


def _is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor, recognised by its device mesh, without importing the class."""
    return hasattr(tensor, "device_mesh")
