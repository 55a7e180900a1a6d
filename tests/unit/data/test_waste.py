"""The padding of both orders on a real corpus, Multi30k, where it is at hand."""

import os
from pathlib import Path

import pytest

from calque.data.batching import BatchConfig, Bucketed, waste
from calque.data.corpora import DataConfig, FilesConfig
from calque.data.pair_batch import pair_widths
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import Prepared, prepare
from calque.text import SentencePieceConfig

CORPORA = os.environ.get("CALQUE_CORPORA")

pytestmark = pytest.mark.skipif(CORPORA is None, reason="CALQUE_CORPORA does not name the folder with multi30k/")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Prepared:
    folder = Path(CORPORA or "") / "multi30k"
    train = FilesConfig(source=folder / "train.en.gz", target=folder / "train.de.gz")
    valid = FilesConfig(source=folder / "val.en.gz", target=folder / "val.de.gz")
    text = SentencePieceConfig(vocabulary_size=8000)
    store = tmp_path_factory.mktemp("multi30k") / "store"
    return prepare(DataConfig(train=(train,), valid=(valid,)), preparation=PairPreparation(text), folder=store)


def test_all_pairs_are_there(prepared):
    assert (len(prepared.train), len(prepared.valid)) == (29_000, 1_014)


@pytest.mark.parametrize(("shapes", "most"), [("exact", 0.05), ("static", 0.15)])
def test_the_padding_is_within_its_bound(prepared, shapes, most):
    store, config = prepared.train, BatchConfig(tokens=4096, shapes=shapes)
    order = Bucketed(pair_widths(store), spans=store.spans, config=config, seed=1)
    assert len(order.sizes) <= 16
    assert all(waste(order, epoch=epoch) <= most for epoch in (0, 1))
