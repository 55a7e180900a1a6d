"""Tagging: predicting a label for every word of a sentence."""

import re
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import field_validator, model_validator
from torch import Tensor, nn

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.store import ColumnKind, Store
from calque.data.tag_batch import TagBatch, collate_tags
from calque.data.tagging_preparation import WORD_LENGTHS
from calque.models.inputs import Words
from calque.models.tagger import TaggerModel
from calque.tasks.interfaces import Carry, Loss
from calque.text.forms import CHARACTERS, LABELS, RESERVED, WORDS


class TaggingConfig(Config):
    """Tagging: a model predicts a label for each word of a sentence."""

    kind: Literal["tagging"] = "tagging"
    words: str = "form"
    """The name of the column with the words."""
    labels: str = "upos"
    """The name of the column to predict."""
    inputs: tuple[str, ...] = ()
    """The names of further input columns, such as parts of speech."""
    score: Literal["auto", "accuracy", "spans"] = "auto"
    """The measure that is reported and that selects models. accuracy: the share of words with the correct label. spans:
    the F1 of the spans that labels such as B-NP, I-NP and O describe (BIO, IOBES). auto: spans if all labels have this
    form, otherwise accuracy."""

    @field_validator("inputs", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        """Accepts a list and, from the command line, also `task.inputs=pos` or `task.inputs=pos,lemma`."""
        return value.split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = (self.words, self.labels, *self.inputs)
        if len(set(names)) < len(names):
            raise ValueError(
                f"the settings words, labels and inputs name the columns {', '.join(names)}: they must be different "
                "columns"
            )
        if reserved := sorted(set(self.inputs) & set(RESERVED)):
            raise ValueError(f"inputs: {', '.join(reserved)} cannot be the name of an input column; choose another")
        if unsafe := [name for name in self.inputs if not re.fullmatch(r"[\w.-]+", name) or name.startswith(".")]:
            raise ValueError(
                f"inputs: {', '.join(map(repr, unsafe))}: column names may contain only letters, digits, _, - and dots "
                "and must not begin with a dot"
            )
        return self


class Tagging:
    """The task of a tagger: minimises −log P(labels | words) of all sentences, divided by their number of words."""

    parts = ("loss",)
    divisible = True

    def __init__(self, config: TaggingConfig, *, characters: bool, smoothing: float = 0.0) -> None:
        names = (WORDS, LABELS, *config.inputs, *((CHARACTERS, WORD_LENGTHS) if characters else ()))
        self.reads: Mapping[str, ColumnKind] = {name: ColumnKind() for name in names}
        self.config = config
        self.smoothing = smoothing

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        return Bucketed([store.widths(WORDS)], spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> TagBatch:
        return collate_tags(store, planned, columns=self.config.inputs, shard=shard)

    def loss(self, model: nn.Module, batch: TagBatch, *, step: int, carry: Carry | None = None) -> Loss:
        assert isinstance(model, TaggerModel)
        scores = model(source_of(batch))
        total = model.losses(scores, batch.labels, batch.lengths, smoothing=self.smoothing).sum()
        return Loss(total, {"loss": total.detach()})

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Does nothing: taggers have no running statistics to update."""


def source_of(batch: TagBatch) -> Words:
    """The inputs of a tagger, from a batch."""
    return Words(batch.words, batch.lengths, batch.characters, batch.word_lengths, batch.columns)
