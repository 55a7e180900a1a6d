"""Reading weights from files and loading them into models. A shared parameter is listed once, by its first name."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file
from torch import Tensor, nn

from calque.errors import FolderError, first_few


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, on the CPU. A shared parameter is listed once, by its first name."""
    return {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a safetensors file. Raises an OSError or a SafetensorError if they cannot be read.

    The library opens only paths that are UTF-8. A file with any other path is read here and passed to it as bytes.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return load(path.read_bytes())
    return load_file(path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a file. Raises a FolderError that names the tensors with values that are not finite."""
    try:
        weights = read_tensors(path)
    except SafetensorError as error:
        raise FolderError(f"{path}: not a safetensors file: {error}") from None
    broken = [name for name, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        listed = "\n  ".join(first_few(sorted(broken)))
        raise FolderError(f"{path}: training diverged: these tensors contain values that are not finite:\n  {listed}")
    return weights


def load_weights_into(model: nn.Module, weights: Mapping[str, Tensor], *, origin: str) -> None:
    """Copies weights into a model. Raises a FolderError that lists all differences if names or shapes do not match."""
    _take_sizes(model, weights)
    refuse_unfit(model, weights, origin=origin)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(weights[name])
    _refuse_faults(model, origin=origin)


def give_weights_to(model: nn.Module, weights: Mapping[str, Tensor], *, origin: str) -> None:
    """`load_weights_into` for a model built without storage (see `weightless`). The weights become its parameters."""
    _take_sizes(model, weights)
    refuse_unfit(model, weights, origin=origin)
    parameters = {
        id(parameter): nn.Parameter(weights[name].to(parameter.dtype, copy=True), parameter.requires_grad)
        for name, parameter in model.named_parameters()
    }
    shared = model.named_parameters(remove_duplicate=False)  # tied parameters under all of their names
    model.load_state_dict({name: parameters[id(parameter)] for name, parameter in shared}, assign=True, strict=False)
    _refuse_faults(model, origin=origin)


def _take_sizes(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Gives modules whose parameter sizes depend on their training corpus the shapes of `weights` (`take_sizes`)."""
    for name, module in model.named_modules():
        if hasattr(module, "take_sizes"):
            prefix = f"{name}." if name else ""
            own = {key: value for key, value in weights.items() if key.startswith(prefix)}
            module.take_sizes({key.removeprefix(prefix): value.shape for key, value in own.items()})


def _refuse_faults(model: nn.Module, *, origin: str) -> None:
    """Raises a FolderError if a module's `fault` reports that its weights are invalid."""
    for name, module in model.named_modules():
        fault = module.fault() if hasattr(module, "fault") else None
        if fault:
            place = f"{name}." if name else ""
            raise FolderError(f"{origin}: the weights do not fit the model: {place}{fault}")


def refuse_unfit(model: nn.Module, weights: Mapping[str, Tensor], *, origin: str) -> None:
    """Raises a FolderError that lists the differences between a model's parameters and the weights."""
    expected = dict(model.named_parameters())
    problems = [f"{name} is missing" for name in expected.keys() - weights.keys()]
    problems += [f"{name} is unknown" for name in weights.keys() - expected.keys()]
    problems += [
        f"{name} has shape {tuple(weights[name].shape)}, expected {tuple(value.shape)}"
        for name, value in expected.items()
        if name in weights and weights[name].shape != value.shape
    ]
    problems += [
        f"{name} has dtype {weights[name].dtype}, expected {value.dtype}"
        for name, value in expected.items()
        if name in weights and weights[name].is_floating_point() != value.is_floating_point()
    ]
    if problems:
        listed = "\n  ".join(first_few(sorted(problems)))
        raise FolderError(f"{origin}: the weights do not fit the model:\n  {listed}")
