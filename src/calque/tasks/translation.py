"""Translation of a source into a target, for sentence pairs and any other pairs of texts."""

from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.pair_batch import PairBatch, collate_pairs, pair_widths
from calque.data.store import ColumnKind, Store
from calque.data.subword_regularisation import SubwordSampler, SubwordsConfig
from calque.layers.output import FullOutput
from calque.models.model import Model
from calque.objectives.objective import Objective, ObjectiveConfig
from calque.tasks.interfaces import Carry, Loss
from calque.text import Tokenizers


class TranslationConfig(Config):
    """A model reads the source of a pair of texts and generates its target."""

    kind: Literal["translation"] = "translation"


class Translation:
    """The task of an encoder-decoder: minimises a training objective over batches of sentence pairs."""

    reads: Mapping[str, ColumnKind] = {"source": ColumnKind(), "target": ColumnKind()}
    parts = ("loss",)
    divisible = True

    def __init__(
        self, objective: ObjectiveConfig, *, smoothing: float, tokenizers: Tokenizers, subwords: SubwordsConfig
    ) -> None:
        self.objective = Objective(objective, smoothing=smoothing, tokenizer=tokenizers.target)
        self.tokenizers = tokenizers
        self.subwords = subwords
        self._sampler: SubwordSampler | None = None

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        """Plans batches of pairs of similar length, with fewer pairs if subword sampling makes the pairs longer."""
        self._sampler = SubwordSampler.of(self.subwords, store=store, tokenizers=self.tokenizers, seed=seed)
        if self._sampler is not None:
            tokens = max(2, int(config.budget / self._sampler.growth()))
            config = config.model_copy(update={"tokens": tokens})
        return Bucketed(pair_widths(store), spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> PairBatch:
        if self._sampler is not None and self._sampler.store is store:
            return self._sampler.collate(planned, epoch=epoch, shard=shard)
        return collate_pairs(store, planned=planned, shard=shard)

    def loss(self, model: nn.Module, batch: PairBatch, *, step: int, carry: Carry | None = None) -> Loss:
        assert isinstance(model, Model)
        loss = self.objective(model, batch, step=step)
        return Loss(loss.objective, {"loss": loss.cross_entropy.detach()}, statistics=loss.rewards)

    def capturable(self, model: nn.Module) -> bool:
        """Whether the loss can be captured as a CUDA graph, because it depends neither on the step nor on the host."""
        assert isinstance(model, Model)
        return self.objective.is_constant and model.baseline is None and type(model.output) is FullOutput

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Updates the reward baseline of hard attention with the rewards of the sampled alignments."""
        assert isinstance(model, Model) and model.baseline is not None
        model.baseline.follow(*statistics)
