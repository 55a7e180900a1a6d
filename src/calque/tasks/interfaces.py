"""The interfaces that training uses: a task, which forms batches and computes the loss, and a judge, which validates.

Training knows a task only through its interface: it depends neither on sources and targets nor on translation metrics.
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
    """The loss of a batch, summed over its terms, such as target tokens; `Batch.weight` is their number."""

    objective: Tensor  # what training minimises
    parts: Mapping[str, Tensor]  # detached sums under the task's fixed names: logged, and summed over ranks
    statistics: Tensor | None = None  # for `Task.follow`, such as rewards for a baseline; summed over ranks
    carry: Carry | None = None  # the initial state of the next batch; saved in checkpoints


class Task(Protocol):
    """What a model is trained to do: which columns it reads, how batches are formed, and the loss.

    A task may also have `order_settings`, a mapping of its settings that affect the order of batches. A run that is
    resumed with different values starts a new epoch. If a task has a method `capturable(model)` that returns True, its
    loss may be captured as a CUDA graph and replayed for other batches of the same shape. It must then read nothing but
    the tensors of the batch on the device, the model and torch's generator of the device. If the loss is not a sum over
    rows, a task may set `recomputes` to True. Its batches' `split` must then return the whole batch, marked to be
    computed with less memory.
    """

    @property
    def reads(self) -> Mapping[str, ColumnKind]:
        """The columns of a store that the task reads."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the logged components of the loss; the progress bar shows the first, `loss`."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether the loss is a sum over rows, so that a batch can be split when memory runs out."""
        ...

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Order:
        """The order of rows in training, which plans the batches of every epoch."""
        ...

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> Batch:
        """The padded batch of a plan, or one rank's rows of it. Must be thread-safe and have no side effects."""
        ...

    def loss(self, model: nn.Module, batch: Any, *, step: int, carry: Carry | None = None) -> Loss:
        """The loss of a batch on the model's device. Random numbers may come only from torch's generator."""
        ...

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Updates the model's running statistics, such as the reward baseline of hard attention.

        `statistics` are the sums over all batches and ranks of one training step.
        """
        ...


class Judgement(NamedTuple):
    """The result of validating a model: metric values, sample outputs and files for the model folder."""

    values: Mapping[str, float]  # by the names in `Judge.reports`; `loss` is always among them
    samples: Sequence[str] = ()  # blocks of lines for samples.txt
    artefacts: Mapping[str, bytes] = {}  # files for the model folder
    summary: str = ""  # one line for the log

    @property
    def loss(self) -> float:
        return self.values["loss"]


class StoppedError(Exception):
    """Raised by a validation that ends early because a stop was requested."""


class Judge(Protocol):
    """Validates models: measures them on held-out data."""

    @property
    def reports(self) -> tuple[str, ...]:
        """The names of all values that a validation measures, in the order in which they are reported."""
        ...

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that models can be selected by, by name."""
        ...

    @property
    def selects(self) -> str:
        """The name of the metric that selects models unless the config names another."""
        ...

    @property
    def positions(self) -> int:
        """The largest number of positions, padding included, in a validation batch."""
        ...

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        """Validates a model, which is in evaluation mode, with batches 1/`parts` of their usual size.

        It calls `stop` between batches and raises StoppedError if that returns True.
        """
        ...
