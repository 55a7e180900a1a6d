"""The contracts between training and a task, and between training and the judge of a run.

Training knows nothing else: neither sources and targets nor metrics of translations.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from calque.data.batch import Batch
from calque.data.batching import BatchConfig, Order, Planned, Shard
from calque.data.store import ColumnKind, Store
from calque.tasks.metric import Metric as Metric
from calque.tasks.metric import Selection as Selection

Carry = tuple[Tensor, ...]
"""The state that running text carries from batch to batch: tensors with rows first, detached."""


class Loss(NamedTuple):
    """The loss of a batch, summed over its `weight`."""

    objective: Tensor  # what training minimises
    parts: Mapping[str, Tensor]  # detached sums under the task's fixed names: logged, and summed over ranks
    statistics: Tensor | None = None  # for `Task.follow`, such as rewards for a baseline; summed over ranks
    carry: Carry | None = None  # the initial state of the next batch; saved in checkpoints


class Task(Protocol):
    """What a model is trained to do.

    A task may also have `order_settings`, a mapping of its own settings that the order of batches depends on: a run
    that is resumed with others starts a new epoch.
    """

    @property
    def reads(self) -> Mapping[str, ColumnKind]:
        """The columns of a store that the task reads."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the loss; the progress bar shows the first, `loss`."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether the loss is a sum over rows, so that a batch can be split when memory runs out."""
        ...

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Order:
        """The batches of every epoch."""
        ...

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> Batch:
        """A batch, or one rank's rows of it. Pure and thread-safe."""
        ...

    def loss(self, model: nn.Module, batch: Any, *, step: int, carry: Carry | None = None) -> Loss:
        """The loss of a batch on the model's device; random numbers come from torch's generator only."""
        ...

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Updates the model's running statistics with those of a step, summed over its batches and ranks."""
        ...


class Judgement(NamedTuple):
    """The result of a validation."""

    values: Mapping[str, float]  # under the judge's names; `loss` is always among them
    samples: Sequence[str] = ()  # blocks of lines for samples.txt
    artefacts: Mapping[str, bytes] = {}  # files for the model folder
    summary: str = ""  # one line for the log

    @property
    def loss(self) -> float:
        return self.values["loss"]


class StoppedError(Exception):
    """A validation was ended early because a stop was requested."""


class Judge(Protocol):
    """Measures a model on held-out data."""

    @property
    def reports(self) -> tuple[str, ...]:
        """The names of all values of a judgement, in order."""
        ...

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The values that models can be selected by."""
        ...

    @property
    def selects(self) -> str:
        """The metric that selects models unless the config names another."""
        ...

    @property
    def positions(self) -> int:
        """The largest number of positions of its batches."""
        ...

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        """The judgement of a model in evaluation mode, with batches 1/`parts` as large as usual.

        It calls `stop` between batches and raises StoppedError if that returns True.
        """
        ...
