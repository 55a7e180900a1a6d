"""What an experiment needs from each task: preparing data, and building, validating and saving a model."""

import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import nn

from calque import __version__
from calque.data.batching import BatchConfig
from calque.data.numericalise import Preparation
from calque.data.prepare import Prepared
from calque.devices import choose_device, multiplies_bfloat16
from calque.errors import ConfigError
from calque.experiment.settings import Experiment
from calque.layers.recurrent import Recurrence
from calque.tasks.interfaces import Judge, Judgement, Metric, Task
from calque.training.auto_settings import Corpus
from calque.training.job import SaveModel
from calque.training.settings import TrainingConfig
from calque.training.update import autocast_to


class ChosenMetric(NamedTuple):
    """The metric that selects models, with the reason if it is not the usual metric of the task."""

    name: str
    reason: str = ""


class Watch(NamedTuple):
    """The functions with which the estimation of a model from counts reports progress and checks whether to stop."""

    say: Callable[[str], None]  # writes a line to the terminal and the log
    check_stop: Callable[[], None]  # raises StoppedError if a stop was requested; to be called every few seconds


Estimator = Callable[[Prepared, Watch], nn.Module]
"""Estimates a model from prepared data; any random numbers depend only on the seed."""


class Assembly(Protocol):
    """What an experiment needs from its task: preparing data, and building, validating and saving a model."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by which models can be selected."""
        ...

    def selects(self, prepared: Prepared) -> ChosenMetric:
        """The metric that selects models unless the config names another."""
        ...

    @property
    def preparation(self) -> Preparation:
        """How the task prepares corpora: which columns it reads, which vocabularies it learns, and what it stores."""
        ...

    def refuse_unbuildable(self) -> None:
        """Raises an error if settings of model, text and training do not fit together, before a long corpus is read."""
        ...

    def build(self, prepared: Prepared) -> nn.Module:
        """The initial model on the CPU, with random weights that the seed determines."""
        ...

    def estimator(self) -> Estimator | None:
        """The function that estimates the model from counts; None if the model is trained step by step."""
        ...

    def warm_start(self, model: nn.Module, prepared: Prepared, *, path: Path) -> list[str]:
        """Initialises the model with the weights of another run; returns lines for the log that say what was copied."""
        ...

    def task(self, prepared: Prepared) -> Task:
        """The task object of the training loop, which collates batches and computes the loss."""
        ...

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> Judge:
        """The judge, which validates the model on held-out data."""
        ...

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        """The function that writes the model to a model folder."""
        ...

    def corpus(self, prepared: Prepared) -> Corpus:
        """The properties of the corpus on which the choice of open settings depends."""
        ...

    def describe(self, prepared: Prepared) -> list[str]:
        """Lines for the log that describe the vocabularies."""
        ...

    def draw(self, run: Path) -> None:
        """Draws further plots of a finished run, besides its curves."""
        ...

    def remarks(self) -> list[str]:
        """Warnings about settings that are valid but unusual."""
        ...


class BaseAssembly:
    """The base of all assemblies; by default, models start with random weights and are trained step by step."""

    experiment: Experiment

    def estimator(self) -> Estimator | None:
        """Returns None: the model is trained step by step."""
        return None

    def warm_start(self, model: nn.Module, prepared: Prepared, *, path: Path) -> list[str]:
        """Raises a ConfigError: only translation models can start with the weights of another run."""
        raise _warm_start_error("this model")

    def draw(self, run: Path) -> None:
        """Does nothing: there are no further plots."""

    def remarks(self) -> list[str]:
        """Returns no warnings."""
        return []

    def validation_batch(self, *, ranks: int) -> BatchConfig:
        """The batch settings of validation: those of training, with the token budget divided by the number of ranks.

        Only one rank validates, but it may share its memory with all other ranks.
        """
        batch = self.experiment.training.batch
        return batch.model_copy(update={"tokens": max(2, batch.budget // ranks)})

    def model_card(self, title: str, *facts: str, prepared: Prepared, command: str, method: str) -> str:
        """The model card: what the model is, its data, and how to use it on the command line and in Python."""
        return "\n".join(
            [
                f"# {title}",
                "",
                *(f"- {fact}" for fact in facts),
                f"- data fingerprint: {prepared.digest}",
                "",
                f"Use it: `calque {command}`, or in Python",
                f'`calque.load("FOLDER").{method}`. `manifest.json` holds the SHA-256 of every file here.',
                "",
            ]
        )

    def trained_on(self, prepared: Prepared, rows: str) -> str:
        """The line of the model card about the training data; `rows` names its rows, e.g. sentences."""
        return f"trained on {len(prepared.train):,} {rows} with Calque {__version__}, seed {self.experiment.seed}"


def refuse_warm_start(training: TrainingConfig, *, models: str) -> None:
    """Raises a ConfigError if training.warm_start is set for a task that does not support it."""
    if training.warm_start is not None:
        raise _warm_start_error(models)


def _warm_start_error(models: str) -> ConfigError:
    return ConfigError(f"training.warm_start is not supported for {models}, only for translation models; leave it out")


def completed_card(card: str, judgement: Judgement) -> str:
    """A model card, with a note if the model was never validated."""
    if all(map(math.isnan, judgement.values.values())):
        return f"{card}\nThis model was never validated: its run was stopped before the first validation.\n"
    return card


def refuse_unknown_metrics(training: TrainingConfig, *, metrics: Collection[str]) -> None:
    """Raises a ConfigError if the config selects models by a metric that validation does not measure."""
    for key, allowed in (("metric", ("auto", *metrics)), ("tie_breaker", ("auto", "loss", *metrics))):
        if (name := getattr(training, key)) not in allowed:
            raise ConfigError(f"training.{key} = {name!r} is not one of {', '.join(metrics)}")


def refuse_uncomputable(model: nn.Module, training: TrainingConfig) -> None:
    """Raises an error for float64 on mps, and for float16 LSTMs on a CPU that has no kernel for them."""
    device = choose_device(training.device).type
    if training.precision == "float64" and device == "mps":
        raise ConfigError(
            'training.precision = "float64": mps does not support it; use float32, or training.device = "cpu"'
        )
    if training.precision != "float16" or device != "cpu":
        return
    layers = [module for module in model.modules() if isinstance(module, Recurrence)]
    if any(layer.cell == "lstm" and layer.is_fused(None) for layer in layers) and not _has_half_lstm():
        raise ConfigError(
            'training.precision = "float16": this CPU has no kernel for the LSTMs of this model; use float32 '
            "or bfloat16, or a GPU"
        )


def precision_warnings(training: TrainingConfig) -> list[str]:
    """A warning if bfloat16 would be slow on this CPU. It is not an error, so that runs can move between machines."""
    is_on_cpu = choose_device(training.device).type == "cpu"
    if training.precision != "bfloat16" or not is_on_cpu or multiplies_bfloat16():
        return []
    return [
        'warning: training.precision = "bfloat16": this CPU has no instructions for it (AVX512_BF16 or AMX), so a step '
        "can take 20 times as long as in float32; start the run with float32, or on a GPU"
    ]


def _has_half_lstm() -> bool:
    try:
        with autocast_to("float16", "cpu"):
            torch.nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True
