"""Training shows its gradients to an observer, and is the same as without one."""

from pathlib import Path

import pytest
import torch
from tests.conftest import toy_values
from tests.unit.training.objects import digests
from torch import Tensor, nn

from calque.experiment import resume, train
from calque.training.journal import read_journal


class Norms:
    """Keeps the norm of the gradient at every step."""

    def __init__(self) -> None:
        self.norms: dict[int, float] = {}
        self.names: set[str] = set()

    def gradients(self, step: int, model: nn.Module) -> None:
        gradients: list[Tensor] = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        self.norms[step] = float(torch.cat([gradient.flatten() for gradient in gradients]).norm())
        self.names |= {name for name, parameter in model.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("clip", [None, 0.05])
def test_an_observer_sees_the_gradient_before_clipping(
    clip: float | None, corpus: dict[str, Path], tmp_path: Path
) -> None:
    values = toy_values(corpus, "plain")
    changed = {**values, "training": {**values["training"], "log_every": 1, **({"clip": clip} if clip else {})}}
    watched, observer = tmp_path / "watched", Norms()
    run = train(changed, run=watched, quiet=True, observer=observer)
    assert list(observer.norms) == list(range(1, run.summary.step + 1))
    logged = [line for line in read_journal(watched / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["gradient_norm"] for line in logged] == pytest.approx(list(observer.norms.values()), rel=1e-4)
    assert {name.split(".")[0] for name in observer.names} == {"encoder", "decoder", "output"}
    alone = train(changed, run=tmp_path / "alone", quiet=True)
    assert digests(alone.folder) == digests(watched)


def test_a_resumed_run_can_be_observed(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain")
    run = train({**values, "training": {**values["training"], "steps": 6}}, run=tmp_path / "run", quiet=True)
    observer = Norms()
    resume(run.folder, settings=["training.steps=9"], quiet=True, observer=observer)
    assert list(observer.norms) == [7, 8, 9]
