"""The contrastive task: its batches, its loss over ranks, and encoding in parts."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from calque.data.batching import WHOLE, Planned, Shard
from calque.data.buckets import Size
from calque.data.sentence_pair_batch import SentencePairBatch, collate_sentence_pairs
from calque.data.store import store_of_pairs
from calque.models.model import Sizes
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel
from calque.objectives.contrastive import contrastive_losses
from calque.tasks import embedding
from calque.tasks.embedding import Embedding, EmbeddingConfig
from calque.text import EOS, PAD

PAIRS = [([5, 6], [7]), ([5], [8, 9, 7]), ([6, 6, 6], [5]), ([9], [7]), ([5], [6, 5]), ([7, 8], [9, 9])]
TASK = Embedding(EmbeddingConfig(temperature=0.2, margin=0.05))


def planned(rows: int = len(PAIRS)) -> Planned:
    """All pairs, in a shape of `rows` rows."""
    return Planned(np.arange(len(PAIRS)), Size(rows, (4, 4)))


def collated(*, rows: int = len(PAIRS), shard: Shard = WHOLE) -> SentencePairBatch:
    return collate_sentence_pairs(store_of_pairs(PAIRS), planned=planned(rows), shard=shard)


def build(*, dropout: float = 0.0) -> SentenceEncoderModel:
    torch.manual_seed(3)
    encoder = RecurrentEncoderConfig(layers=1, width=6, embedding=5, dropout=dropout)
    config = SentenceEncoderConfig(encoder=encoder, projection=4, dropout=dropout)
    return SentenceEncoderModel(config, sizes=Sizes(10, 10, joint=False)).double()


def gradients(model: SentenceEncoderModel, batch: SentencePairBatch, *, seed: int = 0) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    TASK.loss(model, batch, step=1).objective.backward()
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def test_a_batch_has_both_sides_with_their_end_marks() -> None:
    batch = collated(rows=7)
    assert batch.source.values[2].tolist() == [6, 6, 6, EOS]
    assert batch.target.values[1].tolist() == [8, 9, 7, EOS]
    assert batch.source.values[6].tolist() == [EOS, PAD, PAD, PAD]
    assert (batch.rows, batch.weight, batch.shared_weight, batch.positions) == (7, 6, 6, 2 * 7 * 4)
    assert batch.filled == sum(len(source) + len(target) + 2 for source, target in PAIRS)


def test_equal_sentences_and_fillers_are_no_negatives() -> None:
    """Pairs 1 and 4 have the same source, pairs 0 and 3 the same target; row 6 only fills the shape."""
    excluded = collated(rows=7).excluded.tolist()
    same = {(1, 4), (4, 1), (0, 3), (3, 0)}
    for row in range(7):
        for column in range(7):
            expected = row == column or (row, column) in same or 6 in (row, column)
            assert excluded[row][column] == expected, (row, column)


def test_the_loss_is_that_of_the_real_pairs() -> None:
    model, batch = build(), collated()
    source, target = (model.encode(side, name) for side, name in ((batch.source, "source"), (batch.target, "target")))
    expected = contrastive_losses(source, target, temperature=0.2, margin=0.05, excluded=batch.excluded).sum()
    for rows in (6, 7, 9):
        loss = TASK.loss(model, collated(rows=rows), step=1)
        assert_close(loss.objective, expected)
        assert_close(loss.parts["loss"], expected.detach())


@pytest.mark.parametrize("parts", [2, 3, 50])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_encoding_in_parts_gives_the_same_gradient(parts: int, dropout: float) -> None:
    """With dropout, the masks of the backward pass are those of the forward pass: finite and repeatable."""
    model, batch = build(dropout=dropout).train(), collated()
    (split,) = batch.split(parts)
    assert split.rows == 6 and split.rows_together == -(-6 // min(parts, 6))
    if dropout:
        assert gradients(model, split).keys() == gradients(model, batch).keys()
        assert_close(gradients(model, split), gradients(model, split), rtol=0, atol=0)
        with pytest.raises(AssertionError):
            assert_close(gradients(model, split), gradients(model, split, seed=1))
    else:
        assert_close(gradients(model, split), gradients(model, batch), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_gradients_of_all_ranks_add_up_to_that_of_the_batch(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank's vectors are passed to the others by hand, in place of the processes' communication."""
    model = build()
    expected = gradients(model, collated())
    whole = float(TASK.loss(model, collated(), step=1).parts["loss"])
    batches = [collated(shard=Shard(rank, ranks)) for rank in range(ranks)]
    vectors = [embedding.encode_pairs(model, batch).detach() for batch in batches]

    def all_gather(received: list[torch.Tensor], _: torch.Tensor) -> None:
        for place, rows in zip(received, vectors, strict=True):
            place.copy_(rows)

    monkeypatch.setattr(embedding.dist, "all_gather", all_gather)
    monkeypatch.setattr(embedding.dist, "all_reduce", lambda *_, **__: None)
    parts = [gradients(model, batch) for batch in batches]
    summed = {name: torch.stack([part[name] for part in parts]).sum(dim=0) for name in expected}
    assert_close(summed, expected, rtol=0, atol=1e-12)
    losses = [float(TASK.loss(model, batch, step=1).parts["loss"]) for batch in batches]
    assert sum(losses) == pytest.approx(whole) and sum(batch.weight for batch in batches) == batches[0].shared_weight


def test_a_rank_without_memory_stops_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def another_failed(flags: torch.Tensor, **_: object) -> None:
        flags.fill_(1.0)

    monkeypatch.setattr(embedding.dist, "all_reduce", another_failed)
    with pytest.raises(MemoryError, match="another rank"):
        TASK.loss(build(), collated(shard=Shard(0, 2)), step=1)
