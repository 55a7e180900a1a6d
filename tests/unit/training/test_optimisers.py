"""Optimisers against their papers' equations, and their state on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.unit.training.objects import assert_accepted_or_rejected
from torch import Tensor, nn

from calque.config import check, to_values
from calque.training.optimisers import (
    OPTIMISERS_THAT_READ,
    OptimiserConfig,
    build_optimiser,
    optimiser_tensors,
    restore_optimiser,
    set_learning_rate,
)
from calque.training.settings import TrainingConfig

KINDS = ["adam", "adamw"]
ALL_KINDS = get_args(OptimiserConfig.model_fields["kind"].annotation)
SMALL = 1e-3  # with which SGD does not diverge
NOT_DEFAULT = {
    "learning_rate": 0.5,
    "beta1": 0.8,
    "beta2": 0.9,
    "rho": 0.8,
    "momentum": 0.9,
    "epsilon": 1e-3,
    "weight_decay": 0.1,
}


class Small(nn.Module):
    """A matrix that is used twice (tied), a vector, an unused parameter, and one without gradients."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.matrix = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))
        self.tied = self.matrix
        self.vector = nn.Parameter(torch.randn(3, dtype=torch.float64))
        self.unused = nn.Parameter(torch.randn(4, dtype=torch.float64))
        self.fixed = nn.Parameter(torch.arange(6).view(2, 3), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return (self.matrix @ inputs + self.vector + (self.tied**2).sum()).square().sum()


def config(kind: str, **values: Any) -> OptimiserConfig:
    return OptimiserConfig(kind=kind, learning_rate=0.1, weight_decay=0.01, **values)


def take_steps(model: Small, optimiser: torch.optim.Optimizer, numbers: range, *, rate: float = 0.1) -> None:
    for number in numbers:
        model(torch.tensor([1.0, number], dtype=torch.float64)).backward()
        set_learning_rate(optimiser, rate / number)
        optimiser.step()
        optimiser.zero_grad()


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_the_papers(kind: str) -> None:
    """Kingma and Ba 2015, algorithm 1; L2 adds to the gradient, decoupled decay to the weight; vectors have none."""
    model, mirror = Small(), Small()
    optimiser = build_optimiser(config(kind), model)
    take_steps(model, optimiser, range(1, 6))
    values = {name: parameter.detach().clone() for name, parameter in mirror.named_parameters()}
    first = {name: torch.zeros_like(value) for name, value in values.items()}
    second = {name: torch.zeros_like(value) for name, value in values.items()}
    for number in range(1, 6):
        with torch.no_grad():
            for name, parameter in mirror.named_parameters():
                parameter.copy_(values[name])
        used = [mirror.matrix, mirror.vector]
        gradients = torch.autograd.grad(mirror(torch.tensor([1.0, number], dtype=torch.float64)), used)
        for name, gradient in zip(("matrix", "vector"), gradients, strict=True):
            decay = 0.01 if name == "matrix" else 0.0
            rate = 0.1 / number
            if kind == "adamw":
                values[name] = values[name] * (1 - rate * decay)
            else:
                gradient = gradient + decay * values[name]
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.98 * second[name] + 0.02 * gradient**2
            mean, variance = first[name] / (1 - 0.9**number), second[name] / (1 - 0.98**number)
            values[name] = values[name] - rate * mean / (variance.sqrt() + 1e-9)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), values[name], rtol=0, atol=1e-12)


def with_momentum(gradient: Tensor, state: dict[str, Tensor]) -> Tensor:
    """Polyak's heavy ball, as in torch: the first step is along its gradient."""
    state["speed"] = 0.9 * state["speed"] + gradient if "speed" in state else gradient
    return state["speed"]


def by_accumulated_updates(gradient: Tensor, state: dict[str, Tensor]) -> Tensor:
    """Zeiler 2012, algorithm 1: steps have the unit of the weights."""
    nothing = torch.zeros_like(gradient)
    state["gradients"] = 0.95 * state.get("gradients", nothing) + 0.05 * gradient**2
    change = ((state.get("changes", nothing) + 1e-6) / (state["gradients"] + 1e-6)).sqrt() * gradient
    state["changes"] = 0.95 * state.get("changes", nothing) + 0.05 * change**2
    return change


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"kind": "sgd"}, lambda gradient, _: gradient),
        ({"kind": "sgd", "momentum": 0.9}, with_momentum),
        ({"kind": "adadelta"}, by_accumulated_updates),
    ],
    ids=["sgd", "momentum", "adadelta"],
)
def test_updates_of_sgd_and_adadelta_are_the_papers(
    options: dict[str, Any], change: Callable[[Tensor, dict[str, Tensor]], Tensor]
) -> None:
    """L2 adds to the gradient of matrices; vectors have none."""
    model, mirror = Small(), Small()
    take_steps(model, build_optimiser(config(**options), model), range(1, 6), rate=SMALL)
    states: list[dict[str, Tensor]] = [{}, {}]
    used = [mirror.matrix, mirror.vector]
    for number in range(1, 6):
        gradients = torch.autograd.grad(mirror(torch.tensor([1.0, number], dtype=torch.float64)), used)
        with torch.no_grad():
            for weight, gradient, state, decay in zip(used, gradients, states, (0.01, 0.0), strict=True):
                weight -= SMALL / number * change(gradient + decay * weight, state)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, dict(mirror.named_parameters())[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("stop", [1, 4])
def test_resuming_from_a_file_is_exact(kind: str, stop: int, tmp_path: Path) -> None:
    uninterrupted = Small()
    take_steps(uninterrupted, build_optimiser(config(kind), uninterrupted), range(1, 9), rate=SMALL)

    stopped = Small()
    optimiser = build_optimiser(config(kind), stopped)
    take_steps(stopped, optimiser, range(1, stop), rate=SMALL)
    save_file(optimiser_tensors(optimiser, stopped), tmp_path / "optimiser.safetensors")

    resumed = Small()
    resumed.load_state_dict(stopped.state_dict())
    restored = build_optimiser(config(kind), resumed)
    restore_optimiser(restored, resumed, load_file(tmp_path / "optimiser.safetensors"))
    take_steps(resumed, restored, range(stop, 9), rate=SMALL)
    for name, parameter in uninterrupted.named_parameters():
        assert torch.equal(parameter, dict(resumed.named_parameters())[name]), name


def test_the_state_is_named_after_parameters_and_tied_ones_come_once() -> None:
    model = Small()
    optimiser = build_optimiser(config("adam"), model)
    assert optimiser_tensors(optimiser, model) == {}
    take_steps(model, optimiser, range(1, 2))
    assert set(optimiser_tensors(optimiser, model)) == {
        f"{name}/{key}" for name in ("matrix", "vector") for key in ("step", "exp_avg", "exp_avg_sq")
    }


def test_only_trained_parameters_are_optimised() -> None:
    model = Small()
    optimiser = build_optimiser(config("adamw"), model)
    optimised = {id(parameter) for group in optimiser.param_groups for parameter in group["params"]}
    assert optimised == {id(parameter) for parameter in (model.matrix, model.vector, model.unused)}
    take_steps(model, optimiser, range(1, 3))
    restore_optimiser(optimiser, model, optimiser_tensors(optimiser, model))
    assert model.fixed not in optimiser.state
    assert model.fixed.flatten().tolist() == list(range(6))


def test_restored_state_is_independent_of_its_source() -> None:
    model = Small()
    optimiser = build_optimiser(config("adam"), model)
    take_steps(model, optimiser, range(1, 3))
    tensors = optimiser_tensors(optimiser, model)
    source = {name: tensor.clone() for name, tensor in tensors.items()}
    resumed = Small()
    restored = build_optimiser(config("adam"), resumed)
    restore_optimiser(restored, resumed, source)
    take_steps(resumed, restored, range(1, 3))
    assert all(torch.equal(tensors[name], source[name]) for name in source)


def test_the_rate_that_is_set_is_the_rate_of_every_group() -> None:
    optimiser = build_optimiser(config("adam"), Small())
    set_learning_rate(optimiser, 0.25)
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.25]


def groups_of(config: OptimiserConfig) -> list[dict[str, Any]]:
    """All options of an optimiser."""
    groups = build_optimiser(config, Small()).param_groups
    return [{key: value for key, value in group.items() if key != "params"} for group in groups]


@pytest.mark.parametrize("key", NOT_DEFAULT)
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_key_that_a_kind_does_not_use_is_rejected_unless_it_is_the_default(kind: str, key: str) -> None:
    """A key is used if it changes the options of the optimiser."""
    default = OptimiserConfig(kind=kind)
    is_read = groups_of(default) != groups_of(default.model_copy(update={key: NOT_DEFAULT[key]}))
    readers = None if is_read else OPTIMISERS_THAT_READ[key]
    assert_accepted_or_rejected("optimiser", kind, key, NOT_DEFAULT[key], readers=readers)


def test_every_key_of_an_optimiser_is_tested() -> None:
    assert {*NOT_DEFAULT, "kind"} == {*OptimiserConfig.model_fields}
    assert all(value != OptimiserConfig.model_fields[key].default for key, value in NOT_DEFAULT.items())


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_config_written_with_all_its_keys_is_read_again(kind: str) -> None:
    config = check(TrainingConfig, {"optimiser": {"kind": kind}}, origin="x")
    assert check(TrainingConfig, to_values(config), origin="x") == config
