"""Captioning: generating a text that describes an image."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.caption_batch import CaptionBatch, caption_widths, collate_captions
from calque.data.caption_preparation import CAPTION, CAPTION_LENGTHS, IMAGE
from calque.data.store import ColumnKind, Store
from calque.models.captioner import CaptionerModel, doubly_stochastic_term
from calque.objectives.cross_entropy import loss_of
from calque.tasks.interfaces import Carry, Loss
from calque.text import PAD


class CaptioningConfig(Config):
    """Captioning: a model reads an image and generates a text that describes it."""

    kind: Literal["captioning"] = "captioning"
    size: int = Field(default=64, ge=8, le=512)
    """The height and width, in pixels, of the images that the model reads. Images of other sizes are scaled to fit,
    and padded to a square with black."""


class Captioning:
    """The task of a captioner: minimises the cross-entropy of captions per token, plus loss terms of attention.

    Hard attention adds a REINFORCE term, doubly stochastic attention a regularisation term. If an image has several
    captions, each epoch reads one of them, in turn.
    """

    parts = ("loss",)
    divisible = True

    def __init__(self, config: CaptioningConfig, *, positions: int, smoothing: float = 0.0) -> None:
        self.reads: Mapping[str, ColumnKind] = {
            IMAGE: ColumnKind("<u1", (config.size, 3)),
            CAPTION: ColumnKind(),
            CAPTION_LENGTHS: ColumnKind(),
        }
        self.config = config
        self.positions = positions  # of an encoded image
        self.smoothing = smoothing

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        return Bucketed(caption_widths(store, positions=self.positions), spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> CaptionBatch:
        return collate_captions(store, planned, turn=epoch, shard=shard)

    def loss(self, model: nn.Module, batch: CaptionBatch, *, step: int, carry: Carry | None = None) -> Loss:
        assert isinstance(model, CaptionerModel)
        weight = model.doubly_stochastic
        output = model(batch.source, batch.target_input, attention=weight > 0)
        loss = loss_of(model, output, batch, smoothing=self.smoothing)
        objective = loss.objective
        if weight > 0:
            objective = objective + weight * doubly_stochastic_term(output.attention, batch.target_output != PAD)
        return Loss(objective, {"loss": loss.cross_entropy.detach()}, statistics=loss.rewards)

    def capturable(self, model: nn.Module) -> bool:
        """Whether the loss can be captured as a CUDA graph: hard attention has a baseline, which follows every step."""
        assert isinstance(model, CaptionerModel)
        return model.baseline is None

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Updates the reward baseline of hard attention with the rewards of the sampled positions."""
        assert isinstance(model, CaptionerModel) and model.baseline is not None
        model.baseline.follow(*statistics)
