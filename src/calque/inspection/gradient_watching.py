"""Gradient flow during training: what `calque train --watch-gradients` records at validations."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from calque.data.store import Store
from calque.inspection.gradient_flow import gradient_flow, recorded_flow
from calque.inspection.samples import TaskConfig, sample_store
from calque.training.job import GradientFlow

WATCHED = 16  # validation rows


def watched_gradient_flow(task: TaskConfig, valid: Store) -> GradientFlow:
    """A function that measures a model's gradient flow on a fixed sample of the validation data."""
    batches = sample_store(task, valid, sentences=WATCHED)

    def measure(model: nn.Module) -> Mapping[str, Any]:
        return recorded_flow(gradient_flow(model, batches))

    return measure
