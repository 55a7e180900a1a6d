"""Gradients of a layer against finite differences, and which layers have no such test."""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from tests.laws.models import loud

Shape = tuple[int, ...]
SUMS = 5


class Case(NamedTuple):
    """A layer, how it is called, and the shapes of its inputs."""

    build: Callable[[], nn.Module]
    call: Callable[..., Any]  # from the layer and its inputs to a tree of tensors, all of which are checked
    shapes: Collection[Shape]


def forward(build: Callable[[], nn.Module], *shapes: Shape) -> Case:
    """The layer called with inputs of these shapes."""
    return Case(build, lambda layer, *inputs: layer(*inputs), shapes)


def check(case: Case, *, fast: bool = False) -> None:
    """In training mode and float64, with the same random numbers each time.

    The derivatives of a few random sums of all outputs with respect to each element of the inputs and weights; fast:
    with respect to each tensor along a random direction.
    """
    layer = loud(case.build()).train()
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    inputs = [random(*shape).requires_grad_() for shape in case.shapes]
    weights = {name: weight for name, weight in layer.named_parameters() if weight.requires_grad}

    def outputs() -> Tensor:
        torch.default_generator.manual_seed(2)  # torch.manual_seed is slower than most layers
        return torch.cat(list(numbers(case.call(layer, *inputs))))

    sums = random(SUMS, len(outputs()))
    (sums @ outputs()).sum().backward()
    idle = [name for name, weight in weights.items() if weight.grad is None or not weight.grad.any()]
    assert not idle, f"weights without effect: {idle}"
    # gradcheck perturbs inputs and weights in place
    assert gradcheck(lambda *_tensors: sums @ outputs(), (*inputs, *weights.values()), fast_mode=fast)


def numbers(tree: Any) -> Iterator[Tensor]:
    """The floating-point tensors of a tree, flattened."""
    match tree:
        case Tensor() if tree.is_floating_point():
            yield tree.flatten()
        case Mapping():
            yield from numbers(tuple(tree.values()))
        case tuple() | list():
            for part in tree:
                yield from numbers(part)


def unchecked(package: ModuleType, *, cases: Iterable[Case], without: Collection[type[nn.Module]]) -> set[str]:
    """The layers defined in a package that are neither in a case nor in `without`."""
    names = pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    # kernels have no layers, and need packages that are not on every machine
    modules = [importlib.import_module(name.name) for name in names if not name.name.endswith("_kernel")]
    defined = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__ == module.__name__
    }
    return {kind.__qualname__ for kind in defined - {type(case.build()) for case in cases} - set(without)}


def slopes_in_a_direction(
    loss: Callable[[], Tensor], parameters: Collection[Tensor], *, step: float
) -> tuple[float, float]:
    """The slope of a loss in a random direction of its parameters: by central differences, and by its gradients."""
    generator = torch.Generator().manual_seed(5)
    direction = [torch.randn(value.shape, generator=generator, dtype=value.dtype) for value in parameters]
    gradients = torch.autograd.grad(loss(), list(parameters))
    slope = sum(float((gradient * way).sum()) for gradient, way in zip(gradients, direction, strict=True))
    values = []
    with torch.no_grad():
        for change in (step, -2 * step):
            for value, way in zip(parameters, direction, strict=True):
                value += change * way
            values.append(float(loss()))
    return (values[0] - values[1]) / (2 * step), slope
