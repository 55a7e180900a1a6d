"""Faults inside a step: a loss that is no number, and memory that runs out. For forks, as they stay."""

from typing import Any, Literal, NamedTuple

Kind = Literal["nan", "memory"]


class BadSteps(NamedTuple):
    """What happens in these steps.

    nan: the loss and its gradient are no number. memory: there is none for batches of more than `rows` sentences.
    """

    kind: Kind
    steps: list[int]
    rows: int = 0


def install(bad: BadSteps) -> None:
    """From now on every step of this process is seen."""
    import torch

    from calque.objectives.cross_entropy import TokenLoss
    from calque.objectives.objective import Objective

    compute = Objective.__call__

    def faulty(objective: Objective, model: Any, batch: Any, *, step: int) -> TokenLoss:
        loss = compute(objective, model, batch, step=step)
        if step not in bad.steps:
            return loss
        if bad.kind == "memory":
            if batch.rows > bad.rows:
                raise torch.OutOfMemoryError("CUDA out of memory: injected")
            return loss
        return loss._replace(objective=loss.objective * float("nan"), cross_entropy=loss.cross_entropy * float("nan"))

    Objective.__call__ = faulty  # type: ignore[method-assign]
