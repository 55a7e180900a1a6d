"""Models that do not fit: each rank holds a part of every weight, gradient and optimiser state (FSDP2).

Checkpoints and model folders hold whole tensors, so a run can go on with another number of ranks, or with one.
"""

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from calque.layers.transformer import DecoderBlock, EncoderBlock
from calque.models.model import Model

METHODS = ("encode", "prepare", "start", "read", "logits", "log_probs", "losses")


def shard(model: Model, *, device: torch.device, ranks: int) -> None:
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
