"""Means of weights over time: of checkpoints, and the moving one."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from calque.config import read_toml
from calque.engine import load, load_weights_into, save_model
from calque.errors import FolderError
from calque.folders import MANIFEST
from calque.training.checkpoints import load_weights, scheduled_steps
from calque.training.distributed import part_of, whole
from calque.training.journal import read_journal
from calque.training.lock import owner
from calque.training.progress import rank
from calque.training.runs import CONFIG
from calque.training.selection_metric import deciding_metric_of
from calque.training.validation import worth


def average_run(run: Path, *, of: Literal["last", "best"], count: int | None, output: Path) -> list[int]:
    """Writes the mean of a run's checkpoints as a model folder; the steps it is of.

    `count` checkpoints, or all there are: the last ones, or those that validated best. What the run's own model knew of
    its confidence is left out, as it was measured with other weights.
    """
    if not (run / CONFIG).is_file() or (run / MANIFEST).exists():
        raise FolderError(f"{run}: not a run folder; checkpoints are in the folder that `calque train` made")
    if owner(run) is not None:
        raise FolderError(f"{run} is being trained: wait for it or stop it, as checkpoints come and go")
    folder = run / "checkpoints"
    there = scheduled_steps(folder)
    steps = there if of == "last" else _best_first(run, steps=there)[::-1]
    if not steps or len(steps) < (count or 1):
        validated = "validated " if of == "best" else ""
        listed = f", of steps {', '.join(map(str, sorted(steps)))}" if steps else ""
        raise FolderError(
            f"{run}: it has {len(steps)} {validated}checkpoints{listed}; {count or 'at least 1'} are needed. "
            "training.keep says how many stay on disk; training.average_of = 'best' keeps the best ones"
        )
    chosen = sorted(steps[-count:] if count else steps)
    translator = load(run / "model", device="cpu")
    mean = mean_weights([load_weights(folder / f"step-{step}") for step in chosen])
    load_weights_into(translator.model, mean, origin=f"the mean of checkpoints in {folder}")
    translator.confidence = None
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    said = f"\nThe weights are the mean of the checkpoints of steps {', '.join(map(str, chosen))}.\n"
    save_model(output, translator, card=card + said)
    return chosen


def _best_first(run: Path, *, steps: Sequence[int]) -> list[int]:
    """Those of the steps that were validated."""
    metric = deciding_metric_of(read_toml(run / CONFIG))
    values = {
        line["step"]: (worth(line[metric], metric=metric) if metric in line else -math.inf, line["loss"])
        for line in read_journal(run / "metrics.jsonl")
        if line["kind"] == "valid" and "averaged" not in line and line["step"] in steps
    }
    return sorted(values, key=lambda step: rank(values[step][0], loss=values[step][1], step=step))


def mean_weights(checkpoints: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, taken in float64; whole numbers, such as ranks, are those of the first."""
    return {
        name: torch.stack([one[name].double() for one in checkpoints]).mean(dim=0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in checkpoints[0].items()
    }


class MovingAverage:
    """w̄ ← d w̄ + (1 − d) w after each step, with d = min(decay, (1 + step) / (10 + step)), which forgets the start."""

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self._learnt = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.weights = {name: one.detach().clone() for name, one in self._learnt.items()}

    @torch.no_grad()
    def follow(self, *, step: int) -> None:
        """Moves towards the weights as they are after a step."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self._learnt.values()), share)

    def whole_weights(self) -> dict[str, Tensor]:
        """The average, whole and on the CPU."""
        return {name: whole(value).cpu() for name, value in self.weights.items()}

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Puts whole weights of a checkpoint back."""
        for name, value in self.weights.items():
            value.copy_(part_of(weights[name], like=value))
