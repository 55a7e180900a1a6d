"""Recommendation: predicting the next item of a user's history."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.sequence_batch import SequenceBatch, collate_sequences, history_widths
from calque.data.sequence_files import BEHAVIOURS, ITEMS, TIMES
from calque.data.store import ColumnKind, Store
from calque.models.recommender import ItemHistory, RecommenderConfig, RecommenderModel
from calque.tasks.interfaces import Carry, Loss


class RecommendationConfig(Config):
    """Recommendation: a model ranks all items by how likely each is to be the next in a user's history."""

    kind: Literal["recommendation"] = "recommendation"
    history: int = Field(default=50, ge=1, le=1 << 16)
    """The number of a user's latest items that the model reads."""
    exclude_seen: bool = True
    """Never recommend items that are already in the user's history. Validation leaves them out of the ranking too."""
    minimum_count: int = Field(default=1, ge=1)
    """Items that occur less often than this are not in the catalogue: they are not read and not recommended."""


class Recommendation:
    """The task of a recommender: minimises the loss of predicting each item of a history from the items before it."""

    parts = ("loss",)
    divisible = True

    def __init__(self, config: RecommendationConfig, *, model: RecommenderConfig, smoothing: float = 0.0) -> None:
        names = (ITEMS, *(BEHAVIOURS,) * model.reads_behaviours)
        self.reads: Mapping[str, ColumnKind] = {name: ColumnKind() for name in names}
        if model.reads_times:
            self.reads = {**self.reads, TIMES: ColumnKind("<u8")}
        self.config = config
        self.smoothing = smoothing

    @property
    def order_settings(self) -> Mapping[str, int]:
        return {"task.history": self.config.history}

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        widths = history_widths(store, history=self.config.history)
        return Bucketed([widths], spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> SequenceBatch:
        return collate_sequences(store, planned, history=self.config.history, shard=shard)

    def loss(self, model: nn.Module, batch: SequenceBatch, *, step: int, carry: Carry | None = None) -> Loss:
        assert isinstance(model, RecommenderModel)
        history = history_of(batch)
        total = model.total_loss(model(history), history, batch.targets, smoothing=self.smoothing)
        return Loss(total, {"loss": total.detach()})

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Does nothing: recommenders have no running statistics to update."""


def history_of(batch: SequenceBatch) -> ItemHistory:
    """The inputs of a recommender, from a batch."""
    return ItemHistory(batch.items, batch.lengths, batch.times, batch.asked, batch.behaviours)
