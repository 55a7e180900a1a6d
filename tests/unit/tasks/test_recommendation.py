"""The recommendation task: its loss is a sum over items, of which parts, ranks and static shapes change nothing."""

import numpy as np
import torch
from torch.testing import assert_close

from calque.data.batching import WHOLE, BatchConfig, Shard
from calque.data.store import Store, pack, store_in_memory
from calque.models.recommender import RecommenderConfig, RecommenderModel
from calque.models.time_aware import TimeAwareConfig
from calque.tasks.recommendation import Recommendation, RecommendationConfig

MODEL = RecommenderConfig(network=TimeAwareConfig(layers=1, width=8, heads=2, feed_forward=8))
TASK = Recommendation(RecommendationConfig(history=6), model=MODEL)


def store(rows: int = 40) -> Store:
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, 12, rows)
    return store_in_memory(
        {
            "items": pack([generator.integers(4, 20, length).tolist() for length in lengths]),
            "times": pack([np.sort(generator.integers(0, 5000, length)).tolist() for length in lengths]),
            "behaviours": pack([generator.integers(4, 6, length).tolist() for length in lengths]),
        }
    )


def total(*, config: BatchConfig, parts: int = 1, ranks: int = 1) -> torch.Tensor:
    """The loss of an epoch."""
    torch.manual_seed(0)
    model = RecommenderModel(MODEL, vocabulary_size=20, behaviours=6).double().eval()
    data, losses = store(), []
    for planned in TASK.order(data, config=config, seed=1).batches(0):
        for rank in range(ranks):
            batch = TASK.collate(data, planned, epoch=0, shard=Shard(rank, ranks))
            losses += [TASK.loss(model, part, step=1).objective for part in batch.split(parts)]
    return torch.stack(losses).sum()


def test_the_loss_of_an_epoch_is_the_same_however_rows_are_put_together() -> None:
    alone = total(config=BatchConfig(tokens=2))
    for config in (BatchConfig(tokens=64), BatchConfig(tokens=64, shapes="static")):
        for parts, ranks in ((1, 1), (3, 1), (1, 2), (2, 3)):
            assert_close(total(config=config, parts=parts, ranks=ranks), alone, rtol=1e-9, atol=0)


def test_a_batch_weighs_its_predicted_items() -> None:
    data = store()
    orders = TASK.order(data, config=BatchConfig(tokens=64), seed=1).batches(0)
    batches = [TASK.collate(data, planned, epoch=0, shard=WHOLE) for planned in orders]
    assert sum(batch.weight for batch in batches) == np.minimum(data["items"].lengths - 1, 6).sum()


def test_it_reads_times_and_behaviours_only_where_the_model_does() -> None:
    assert set(TASK.reads) == {"items", "times", "behaviours"}
    assert set(Recommendation(RecommendationConfig(), model=RecommenderConfig()).reads) == {"items"}
