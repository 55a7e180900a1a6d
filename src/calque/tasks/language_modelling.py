"""Language modelling of separate lines, or of running text with the state carried from batch to batch.

Letters: B rows, T tokens, E width.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Order, Planned, Shard, Streams
from calque.data.store import ColumnKind, Store
from calque.data.text_batch import COLUMN, TextBatch, collate_lines, collate_streams
from calque.models.language_model import LanguageModel, RecurrentLanguageState
from calque.objectives.language_model import token_loss
from calque.tasks.interfaces import Carry, Loss
from calque.text import PAD


class LanguageModellingConfig(Config):
    """A model predicts each token of a text from those before it."""

    kind: Literal["language-modelling"] = "language-modelling"
    reading: Literal["lines", "running"] = "lines"
    """lines: each line is modelled by itself. running: all lines form one text, and the state of a recurrent model is
    carried from batch to batch (truncated back-propagation through time)."""
    bptt: int = Field(default=35, ge=2, le=1 << 16)
    """For running text: the number of tokens per row of a batch, through which gradients are back-propagated."""
    jitter: bool = False
    """For running text: vary the number of tokens per row around `bptt` from batch to batch (Merity et al. 2018,
    §4.1)."""
    context: int = Field(default=256, ge=1, le=1 << 16)
    """For running text: the number of tokens that a Transformer sees in evaluation; a recurrent model sees all tokens
    so far."""
    stride: int = Field(default=128, ge=1, le=1 << 16)
    """For running text: the number of tokens predicted per window in evaluation; the window's other tokens are
    context."""


class LanguageModelling:
    """The task of a language model: minimises the cross-entropy per token, plus an RNN's activation penalties."""

    reads: Mapping[str, ColumnKind] = {COLUMN: ColumnKind()}
    parts = ("loss",)
    divisible = True
    order_settings: Mapping[str, object] = {}

    def __init__(self, config: LanguageModellingConfig, *, smoothing: float = 0.0) -> None:
        self.config = config
        self.smoothing = smoothing
        if config.reading == "running":
            self.order_settings = {"reading": "running", "bptt": config.bptt, "jitter": config.jitter}

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Order:
        if self.config.reading == "lines":
            return Bucketed([store.widths(COLUMN, marks=1)], spans=store.spans, config=config, seed=seed)
        rows = max(1, config.budget // self.config.bptt)
        length = len(store[COLUMN].values)
        return Streams(length, rows=rows, steps=self.config.bptt, seed=seed, jitter=self.config.jitter)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> TextBatch:
        if self.config.reading == "lines":
            return collate_lines(store, planned, shard=shard)
        return collate_streams(store, planned, shard=shard)

    def loss(self, model: nn.Module, batch: TextBatch, *, step: int, carry: Carry | None = None) -> Loss:
        assert isinstance(model, LanguageModel)
        state = model.start(batch.rows)
        if carry is not None and not batch.begins and isinstance(state, RecurrentLanguageState):
            *parts, last = carry
            state = state._replace(parts=tuple(parts), last=last)
        read, state = model.read(batch.inputs, state)
        total = token_loss(model, read.hidden, batch.outputs, smoothing=self.smoothing)
        objective = total
        if read.penalties is not None:
            objective = total + (read.penalties * (batch.outputs != PAD)).sum()
        if self.config.jitter:  # shorter batches have a lower learning rate (Merity et al. 2018, §4.1)
            objective = objective * (batch.inputs.shape[1] / self.config.bptt)
        carried = None
        if self.config.reading == "running" and isinstance(state, RecurrentLanguageState):
            carried = tuple(part.detach() for part in (*state.parts, state.last))
        return Loss(objective, {"loss": total.detach()}, carry=carried)

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Does nothing: language models have no running statistics to update."""
