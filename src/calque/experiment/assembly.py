"""What an experiment asks of each task: how its data is prepared, its model built, and its runs judged and kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from calque.data.numericalise import Preparation
from calque.data.prepare import Prepared
from calque.devices import choose_device
from calque.errors import ConfigError
from calque.layers.recurrent import Recurrence
from calque.tasks.interfaces import Judge, Metric, Task
from calque.training.auto_settings import Corpus
from calque.training.job import SaveModel
from calque.training.settings import TrainingConfig
from calque.training.update import autocast_to


class Assembly(Protocol):
    """One task of an experiment, put together from its parts."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """What models can be selected by."""
        ...

    def selects(self, prepared: Prepared) -> str:
        """The metric that does unless the config names another."""
        ...

    @property
    def preparation(self) -> Preparation:
        """How the corpora are read."""
        ...

    def refuse_unbuildable(self) -> None:
        """Raises an error for parts that do not fit each other, before a long corpus is read."""
        ...

    def build(self, prepared: Prepared) -> nn.Module:
        """The model as a run begins with it, drawn from the seed, on the CPU."""
        ...

    def warm_start(self, model: nn.Module, prepared: Prepared, *, path: Path) -> list[str]:
        """Puts another run's weights into the model; what was taken from where."""
        ...

    def task(self, prepared: Prepared) -> Task:
        """What the model is trained for."""
        ...

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> Judge:
        """What measures the model."""
        ...

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        """What writes the model as a folder."""
        ...

    def corpus(self, prepared: Prepared) -> Corpus:
        """What open settings are chosen by."""
        ...

    def describe(self, prepared: Prepared) -> list[str]:
        """The vocabularies, in words."""
        ...

    def draw(self, run: Path) -> None:
        """Draws what else there is to see of a run that has ended, beside its curves."""
        ...

    def remarks(self) -> list[str]:
        """What is odd about the settings, though it can be trained."""
        ...


def refuse_uncomputable(model: nn.Module, training: TrainingConfig) -> None:
    """Raises an error for float64 where there is none, and for an LSTM in float16 on a CPU without a kernel for it."""
    device = choose_device(training.device).type
    if training.precision == "float64" and device == "mps":
        raise ConfigError('training.precision = "float64": mps has none; use float32, or training.device = "cpu"')
    if training.precision != "float16" or device != "cpu":
        return
    layers = [module for module in model.modules() if isinstance(module, Recurrence)]
    if any(layer.cell == "lstm" and layer.is_fused(None) for layer in layers) and not _has_half_lstm():
        raise ConfigError(
            'training.precision = "float16": the LSTMs of this model cannot be computed in it on this CPU; use float32 '
            "or bfloat16, or a GPU"
        )


def _has_half_lstm() -> bool:
    try:
        with autocast_to("float16", "cpu"):
            torch.nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True
