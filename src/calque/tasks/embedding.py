"""Sentence embedding: an encoder learns from pairs by finding the partner of each sentence in the batch.

Letters: B rows of a rank, R ranks, N = B·R, W width of the vectors.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from calque.config import Config
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.pair_batch import pair_widths
from calque.data.sentence_pair_batch import SentencePairBatch, collate_sentence_pairs
from calque.data.store import ColumnKind, Store
from calque.devices import is_out_of_memory
from calque.errors import ReportedByPeer
from calque.models.sentence_encoder import SentenceEncoderModel, Side
from calque.objectives.contrastive import contrastive_losses
from calque.tasks.interfaces import Carry, Loss
from calque.tensors import Padded


class EmbeddingConfig(Config):
    """A model maps sentences to vectors, such that the two sentences of a pair have similar vectors."""

    kind: Literal["embedding"] = "embedding"
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.05
    """Similarities are divided by this before the softmax over the batch; lower values stress the hardest negatives."""
    margin: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Subtracted from the similarity of the two sentences of a pair, so that they must be closer by this margin."""


class Embedding:
    """The task of a sentence encoder: minimises the contrastive loss of the pairs of a batch, per pair.

    The negatives of a sentence are the other side's sentences in all other pairs of the batch, on all ranks. Pairs with
    the same source or the same target are not negatives of each other. The loss is not a sum over rows, since every row
    depends on the others. If memory runs out, the batch stays whole, but its rows are encoded in parts, whose
    activations are computed again in the backward pass.
    """

    reads: Mapping[str, ColumnKind] = {"source": ColumnKind(), "target": ColumnKind()}
    parts = ("loss",)
    divisible = False
    recomputes = True

    def __init__(self, config: EmbeddingConfig) -> None:
        self.config = config

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        return Bucketed(pair_widths(store), spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> SentencePairBatch:
        return collate_sentence_pairs(store, planned=planned, shard=shard)

    def loss(self, model: nn.Module, batch: SentencePairBatch, *, step: int, carry: Carry | None = None) -> Loss:
        """The loss of this rank's pairs. Its gradient is that of the whole batch's loss, through this rank's vectors.

        The sum of these gradients over the ranks is the gradient of the whole batch. Nothing is communicated in the
        backward pass, because a rank may run out of memory there while the others would wait for it.
        """
        assert isinstance(model, SentenceEncoderModel)
        vectors = _on_all_ranks(model, batch)
        source, target = gather_rows(vectors, shard=batch.shard).unbind(dim=1)
        losses = contrastive_losses(
            source,
            target,
            temperature=self.config.temperature,
            margin=self.config.margin,
            excluded=batch.excluded,
        ).masked_fill(batch.alike[0] < 0, 0)
        own = losses.detach()[batch.shard.rank :: batch.shard.ranks].sum()
        total = losses.sum()
        return Loss(total - total.detach() + own, {"loss": own})

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """Does nothing: sentence encoders have no running statistics to update."""


def encode_pairs(model: SentenceEncoderModel, batch: SentencePairBatch) -> Tensor:
    """The vectors [B,2,W] of the sentences of both sides; if the batch is split, they are encoded part by part."""
    sides: list[tuple[Side, Padded]] = [("source", batch.source), ("target", batch.target)]
    return torch.stack([_encode(model, padded, side=side, batch=batch) for side, padded in sides], dim=1)


def gather_rows(vectors: Tensor, *, shard: Shard) -> Tensor:
    """The rows [N,…] of all ranks in the order of the batch, given this rank's rows [B,…].

    Only this rank's rows have gradients. Rank r has the rows r, r + R, r + 2R, … of the batch (`Planned.shard`).
    """
    if shard.ranks == 1:
        return vectors
    others = [torch.empty_like(vectors) for _ in range(shard.ranks)]
    try:
        dist.all_gather(others, vectors.detach().contiguous())
    except RuntimeError as error:
        raise ReportedByPeer(f"another process of this distributed run has exited: {error}") from error
    others[shard.rank] = vectors
    return torch.stack(others, dim=1).flatten(0, 1)


def _on_all_ranks(model: SentenceEncoderModel, batch: SentencePairBatch) -> Tensor:
    """`encode_pairs` on every rank. If one rank runs out of memory, all ranks raise an error, and none waits for it."""
    vectors, problem = None, None
    try:
        vectors = encode_pairs(model, batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        problem = error
    if batch.shard.ranks > 1:
        failed = torch.tensor([float(vectors is None)])
        try:
            dist.all_reduce(failed, op=dist.ReduceOp.MAX)
        except RuntimeError as error:
            raise ReportedByPeer(f"another process of this distributed run has exited: {error}") from error
        if failed.item() and problem is None:
            problem = MemoryError("another rank ran out of memory")
    if problem is not None or vectors is None:
        raise problem or MemoryError
    return vectors


def _encode(model: SentenceEncoderModel, sentences: Padded, *, side: Side, batch: SentencePairBatch) -> Tensor:
    if batch.parts == 1:
        return model.encode(sentences, side)

    def encode(values: Tensor, lengths: Tensor) -> Tensor:
        return model.encode(Padded(values, lengths), side)

    vectors: list[Tensor] = [
        checkpoint(encode, sentences.values[at], sentences.lengths[at], use_reentrant=False) for at in batch.slices
    ]
    return torch.cat(vectors)
