"""The contract between training and a task, and between training and the judge of a run.

Training knows nothing else: not what a source is, nor what a translation is worth.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from calque.data.batch import Batch
from calque.data.batching import BatchConfig, Order, Planned, Shard
from calque.data.store import ColumnKind, Store
from calque.tasks.metric import Metric as Metric

Carry = tuple[Tensor, ...]
"""State that running text hands from batch to batch: tensors with rows first, detached."""


class Loss(NamedTuple):
    """The loss of a batch, summed over its `weight`."""

    objective: Tensor  # what is minimised
    parts: Mapping[str, Tensor]  # detached sums under the task's fixed names: logged, and summed over ranks
    statistics: Tensor | None = None  # such as the rewards that a baseline follows; summed over ranks
    carry: Carry | None = None  # what the next batch starts from; saved by the checkpoint


class Task(Protocol):
    """What a model is trained for."""

    @property
    def reads(self) -> Mapping[str, ColumnKind]:
        """The columns of a store that batches are made of."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the loss's parts; the first, `loss`, is what progress shows."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether the loss is a sum over rows, so that a batch can be taken in parts when memory runs out."""
        ...

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Order:
        """The batches of every epoch."""
        ...

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> Batch:
        """A batch, or one rank's rows of it. Pure and thread-safe."""
        ...

    def loss(self, model: nn.Module, batch: Any, *, step: int, carry: Carry | None = None) -> Loss:
        """The loss of a batch on the model's device; draws from torch's generator alone."""
        ...

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Takes in a step's statistics, of all its batches and ranks."""
        ...


class Judgement(NamedTuple):
    """What one validation measured."""

    values: Mapping[str, float]  # under the judge's names; `loss` is always among them
    samples: Sequence[str] = ()  # blocks of lines to read in samples.txt
    artefacts: Mapping[str, bytes] = {}  # files for the model folder
    summary: str = ""  # for a person, in one line

    @property
    def loss(self) -> float:
        return self.values["loss"]


class StoppedError(Exception):
    """A validation ended before it knew anything, as a stop was asked for."""


class Judge(Protocol):
    """Measures a model on held-out data."""

    @property
    def reports(self) -> tuple[str, ...]:
        """The names of all values of a judgement, in their order."""
        ...

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Those that a model can be selected by."""
        ...

    @property
    def selects(self) -> str:
        """The metric that selects models unless the config names another."""
        ...

    @property
    def positions(self) -> int:
        """How many positions its batches have at most."""
        ...

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        """A judgement of the model in evaluation mode, with batches 1/`parts` as large as usual.

        Between batches it asks `stop`, and raises StoppedError where that is true.
        """
        ...
