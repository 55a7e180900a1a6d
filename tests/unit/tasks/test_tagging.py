"""The tagging task: its loss is a sum over words, of which parts, ranks and static shapes change nothing."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from calque.config import check
from calque.data.batching import WHOLE, BatchConfig, Shard
from calque.data.store import Store, pack, store_in_memory
from calque.errors import ConfigError
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.tagger import TaggerConfig, TaggerModel, TaggerSizes
from calque.tasks.tagging import Tagging, TaggingConfig


def store(rows: int = 40) -> Store:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 12, rows)
    return store_in_memory(
        {
            "words": pack([generator.integers(4, 20, length).tolist() for length in lengths]),
            "labels": pack([generator.integers(0, 5, length).tolist() for length in lengths]),
            "pos": pack([generator.integers(4, 9, length).tolist() for length in lengths]),
        }
    )


def model(head: str) -> TaggerModel:
    torch.manual_seed(0)
    config = TaggerConfig(head=head, encoder=RecurrentEncoderConfig(layers=1, width=6, embedding=5), column_width=3)
    return TaggerModel(config, sizes=TaggerSizes(20, 5, 0, {"pos": 9})).double().eval()


TASK = Tagging(TaggingConfig(inputs=("pos",)), characters=False)


def total(head: str, *, config: BatchConfig, parts: int = 1, ranks: int = 1) -> torch.Tensor:
    """The loss of an epoch."""
    own, data, losses = model(head), store(), []
    for planned in TASK.order(data, config=config, seed=1).batches(0):
        for rank in range(ranks):
            batch = TASK.collate(data, planned, epoch=0, shard=Shard(rank, ranks))
            losses += [TASK.loss(own, part, step=1).objective for part in batch.split(parts)]
    return torch.stack(losses).sum()


@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_the_loss_of_an_epoch_is_the_same_however_rows_are_put_together(head) -> None:
    alone = total(head, config=BatchConfig(tokens=2))
    for config in (BatchConfig(tokens=64), BatchConfig(tokens=64, shapes="static")):
        for parts, ranks in ((1, 1), (3, 1), (1, 2), (2, 3)):
            assert_close(total(head, config=config, parts=parts, ranks=ranks), alone, rtol=1e-9, atol=0)


def test_a_batch_weighs_its_words() -> None:
    data = store()
    batches = [TASK.collate(data, planned, epoch=0, shard=WHOLE) for planned in
               TASK.order(data, config=BatchConfig(tokens=64), seed=1).batches(0)]  # fmt: skip
    assert sum(batch.weight for batch in batches) == data["words"].lengths.sum()


def test_it_reads_characters_only_where_the_model_does() -> None:
    assert set(TASK.reads) == {"words", "labels", "pos"}
    assert set(Tagging(TaggingConfig(), characters=True).reads) == {"words", "labels", "characters", "word_lengths"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": "form"}, "they must be different columns"),
        ({"inputs": ["upos"]}, "they must be different columns"),
        ({"inputs": ["characters"]}, "characters cannot be the name of an input column"),
    ],
)
def test_columns_that_are_named_twice_or_like_the_stores_own_are_refused(values, message) -> None:
    with pytest.raises(ConfigError, match=message):
        check(TaggingConfig, values, origin="test")


@pytest.mark.parametrize("value", ["pos,lemma", ["pos", "lemma"], ("pos", "lemma")])
def test_input_columns_are_named_by_a_list_or_with_commas(value: object) -> None:
    assert TaggingConfig.model_validate({"inputs": value}).inputs == ("pos", "lemma")
