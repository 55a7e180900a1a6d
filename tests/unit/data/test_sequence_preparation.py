"""Histories as stores: the leave-one-out split, validation files, items that are not in the catalogue, batches."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.histories import write_sequences

from calque.data.batching import Planned, Shard
from calque.data.buckets import Size
from calque.data.corpora import DataConfig
from calque.data.prepare import Prepared, prepare
from calque.data.sequence_batch import collate_sequences
from calque.data.sequence_preparation import SequencePreparation
from calque.data.store import pack, store_in_memory
from calque.errors import TextError
from calque.text import UNK
from calque.text.catalogue import Catalogue


def stored(tmp_path: Path, text: str, *, valid: str | None = None, **settings: int) -> Prepared:
    (tmp_path / "users").write_text(text)
    corpora = {"train": ({"kind": "sequences", "path": tmp_path / "users"},)}
    if valid is not None:
        (tmp_path / "valid").write_text(valid)
        corpora["valid"] = ({"kind": "sequences", "path": tmp_path / "valid"},)
    preparation = SequencePreparation(splits_rows=valid is None, **settings)
    return prepare(DataConfig(**corpora), preparation=preparation, folder=tmp_path / "store")


def rows(prepared: Prepared, role: str) -> list[str]:
    """The stored items of every row, as text; an unknown item is ?."""
    catalogue, column = Catalogue.load(prepared.vocabularies), getattr(prepared, role)["items"]
    ids = [column.row(index).tolist() for index in range(len(column.lengths))]
    return [" ".join("?" if id == UNK else catalogue.names([id])[0] for id in row) for row in ids]


def test_the_last_item_is_for_testing_and_the_one_before_for_validation(tmp_path: Path) -> None:
    prepared = stored(tmp_path, "u1 a b c d\nu2 a b c\nu3 b c\nu4 e\nu5 <unk> b a c d\n")
    assert rows(prepared, "train") == ["a b", "b c", "<unk> b a"]
    assert rows(prepared, "valid") == ["a b c", "a b", "<unk> b a c"]
    assert prepared.valid_text == [("u1", "a\tb\tc\td"), ("u2", "a\tb\tc"), ("u5", "<unk>\tb\ta\tc\td")]
    catalogue = Catalogue.load(prepared.vocabularies)
    counts = {catalogue.names([id])[0]: catalogue.counts[id] for id in range(4, len(catalogue.items))}
    assert counts == {"a": 3, "b": 3, "c": 1, "d": 0, "e": 1, "<unk>": 1}  # the training parts alone
    assert prepared.train_tally.empty == 2  # u2 and u4 have a single item to train on


def test_validation_files_hold_nothing_of_the_training_file_out(tmp_path: Path) -> None:
    prepared = stored(tmp_path, "u1 a b c d\nu3 b c\n", valid="v1 a new d\nv2 new a other\n")
    assert rows(prepared, "train") == ["a b c d", "b c"]
    assert rows(prepared, "valid") == ["a ? d", "? a ?"]


def test_rare_items_are_left_out(tmp_path: Path) -> None:
    prepared = stored(tmp_path, "u1 a b rare a b a\nu2 a b a b\n", minimum_count=2)
    assert rows(prepared, "train") == ["a b a", "a b"] and rows(prepared, "valid") == ["a b ? a b", "a b a"]
    with pytest.raises(TextError, match="no item occurs that often"):
        stored(tmp_path / "store", "u1 a b c\n", minimum_count=5)


def test_times_are_stored_from_the_first_item_on(tmp_path: Path) -> None:
    record = {"user": "u", "items": list("abcd"), "times": [-5, 0, 1 << 40, 1 << 41], "behaviours": list("vvbv")}
    (tmp_path / "users").write_text(json.dumps(record) + "\n")
    keys = {"times_key": "times", "behaviours_key": "behaviours"}
    corpus = {"kind": "sequence-records", "path": tmp_path / "users", **keys}
    preparation = SequencePreparation(times=True, behaviours=True)
    prepared = prepare(DataConfig(train=(corpus,)), preparation=preparation, folder=tmp_path / "store")
    assert prepared.valid["times"].row(0).tolist() == [0, 5, (1 << 40) + 5]
    behaviours = Catalogue.load(prepared.vocabularies).behaviours
    assert behaviours is not None
    assert [behaviours.piece(id) for id in prepared.valid["behaviours"].row(0).tolist()] == list("vvb")


def test_a_store_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "users", users=60)
    data = DataConfig(train=({"kind": "sequences", "path": path},))
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, workers in zip(folders, (1, 2), strict=True):
        prepare(data, preparation=SequencePreparation(), folder=folder, workers=workers)
    files = [sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file()) for folder in folders]
    assert files[0] == files[1]
    assert all((folders[0] / name).read_bytes() == (folders[1] / name).read_bytes() for name in files[0])


def test_a_batch_has_the_last_items_and_what_follows_each() -> None:
    rows = [[4, 5, 6, 7, 8], [9, 4], [5, 6, 7]]
    store = store_in_memory({"items": pack(rows), "times": pack([[10 * id for id in row] for row in rows])})
    planned = Planned(np.array([0, 1, 2]), Size(4, (3,)))
    batch = collate_sequences(store, planned, history=3)
    assert batch.items.tolist() == [[5, 6, 7], [9, 0, 0], [5, 6, 0], [0, 0, 0]]
    assert batch.targets.tolist() == [[6, 7, 8], [4, 0, 0], [6, 7, 0], [0, 0, 0]]
    assert batch.lengths.tolist() == [3, 1, 2, 0] and batch.weight == batch.shared_weight == 6
    assert batch.times is not None and batch.asked is not None and batch.behaviours is None
    assert batch.times.tolist() == [[50, 60, 70], [90, 0, 0], [50, 60, 0], [0, 0, 0]]
    assert batch.asked[0].tolist() == [60, 70, 80]
    halves = batch.split(2)
    assert [half.weight for half in halves] == [4, 2] and {half.shared_weight for half in halves} == {6}
    shards = [collate_sequences(store, planned, history=3, shard=Shard(rank, 2)) for rank in range(2)]
    assert [shard.weight for shard in shards] == [5, 1] and {shard.shared_weight for shard in shards} == {6}
