"""Captions are stored with their images, and an image with several captions is read with each of them in turn."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.captioned import SIZE, picture, write_images

from calque.data.batching import BatchConfig, Planned, Shard
from calque.data.buckets import Size
from calque.data.caption_batch import caption_widths, collate_captions
from calque.data.caption_preparation import CaptionPreparation
from calque.data.corpora import DataConfig
from calque.data.images import read_image
from calque.data.prepare import Prepared, prepare
from calque.data.store import Rows, pack, store_in_memory
from calque.errors import DataError
from calque.tasks.captioning import Captioning, CaptioningConfig
from calque.text import BOS, EOS, PAD, WordsConfig, load_tokenizer


def prepared_images(folder: Path, **data) -> Prepared:
    train, valid = folder / "train", folder / "valid"
    config = {
        "train": [{"kind": "images", "path": str(train / "manifest.jsonl")}],
        "valid": [{"kind": "images", "path": str(valid / "manifest.jsonl")}],
        **data,
    }
    return prepare(
        DataConfig.model_validate(config),
        preparation=CaptionPreparation(WordsConfig(), SIZE, config.get("maximum_length", 256)),
        folder=folder / "store",
    )


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """Images with one, two or three captions of different lengths."""
    write_images(tmp_path / "valid", images=3)
    train = tmp_path / "train"
    write_images(train, images=7)
    captions = [["a b"], ["c", "d e f"], ["g h", "i", "j k l m"]]
    lines = [{"image": f"{number}.png", "captions": captions[number % 3]} for number in range(7)]
    (train / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return prepared_images(tmp_path)


def test_pixels_are_those_of_the_files(prepared: Prepared, tmp_path: Path) -> None:
    for row in range(7):
        expected = read_image(tmp_path / "train" / f"{row}.png", size=SIZE).pixels
        assert np.array_equal(prepared.train["image"].row(row), expected)
    batch = collate_captions(prepared.train, Planned(np.array([4, 1]), Size(3, (16, 5))), turn=0)
    assert batch.source.values.shape == (3, SIZE, SIZE, 3)
    assert np.array_equal(batch.source.values[0].numpy(), prepared.train["image"].row(4))
    assert not batch.source.values[2].any() and batch.target_lengths.tolist()[2] == 0
    assert batch.positions == 3 * 16 + 3 * 5 and batch.filled == 48 + batch.weight


def test_each_epoch_reads_another_caption_and_all_of_them_in_turn(prepared: Prepared) -> None:
    tokenizer = load_tokenizer(prepared.vocabularies, column="text")
    seen = Counter()
    for epoch in range(6):
        batch = collate_captions(prepared.train, Planned(np.arange(7), Size(7, (16, 5))), turn=epoch)
        for row in range(7):
            length = int(batch.target_lengths[row])
            outputs = batch.target_output[row].tolist()
            assert outputs[length - 1 :] == [EOS, *[PAD] * (5 - length)]
            assert batch.target_input[row].tolist()[:length] == [BOS, *outputs[: length - 1]]
            seen[row, tokenizer.decode(outputs[: length - 1])] += 1
    assert {text: count for (row, text), count in seen.items() if row == 1} == {"c": 3, "d e f": 3}
    assert {text: count for (row, text), count in seen.items() if row == 5} == {"g h": 2, "i": 2, "j k l m": 2}


def test_captions_follow_each_other_in_turn() -> None:
    """Row i of a store has caption (i + turn) mod n, whatever the captions before it; a weight counts the ends."""
    captions = [[[5, 6], [7], [8, 9, 4]], [[10]], [[11, 12, 13, 14], [15, 16]]]
    store = store_in_memory(
        {
            "image": Rows(np.zeros((3 * 4, 4, 3), dtype=np.uint8), np.full(3, 4, dtype=np.uint32)),
            "caption": pack([[token for ids in row for token in ids] for row in captions]),
            "caption_lengths": pack([[len(ids) for ids in row] for row in captions]),
        }
    )
    for turn in range(7):
        indices = np.array([2, 0, 1])
        batch = collate_captions(store, Planned(indices, Size(4, (1, 6))), turn=turn)
        expected = [captions[index][(index + turn) % len(captions[index])] for index in indices.tolist()]
        assert [row[: row.index(EOS)] for row in batch.target_output.tolist()[:3]] == expected
        assert batch.weight == batch.shared_weight == sum(len(ids) + 1 for ids in expected)


def test_widths_are_those_of_the_longest_caption(prepared: Prepared) -> None:
    positions, captions = caption_widths(prepared.train, positions=16)
    assert positions[np.arange(7)].tolist() == [16] * 7
    assert captions[np.arange(7)].tolist() == [3, 4, 5, 3, 4, 5, 3]


@pytest.mark.parametrize("shapes", ["exact", "static"])
def test_ranks_share_an_epoch(prepared: Prepared, shapes) -> None:
    task = Captioning(CaptioningConfig(size=SIZE), positions=16)
    order = task.order(prepared.train, config=BatchConfig(tokens=64, shapes=shapes), seed=3)
    for planned in order.batches(1):
        whole = task.collate(prepared.train, planned, epoch=1, shard=Shard(0, 1))
        parts = [task.collate(prepared.train, planned, epoch=1, shard=Shard(rank, 2)) for rank in range(2)]
        assert sum(part.weight for part in parts) == whole.weight == whole.shared_weight
        assert {part.shared_weight for part in parts} == {whole.shared_weight}
        assert len({part.source.values.shape for part in parts}) == 1


def test_split_batches_have_the_same_rows(prepared: Prepared) -> None:
    batch = collate_captions(prepared.train, Planned(np.arange(7), Size(7, (16, 5))), turn=0)
    parts = batch.split(3)
    assert all(type(part) is type(batch) for part in parts)
    assert torch.equal(torch.cat([part.source.values for part in parts]), batch.source.values)
    assert sum(part.positions for part in parts) == batch.positions
    assert sum(part.weight for part in parts) == batch.weight


def test_long_captions_are_left_out_and_counted(tmp_path: Path) -> None:
    for role in ("train", "valid"):
        write_images(tmp_path / role, images=2)
    path = tmp_path / "train" / "manifest.jsonl"
    lines = [
        {"image": "0.png", "captions": ["a b c d e", "a b"]},
        {"image": "1.png", "caption": "a b c d e"},
        {"image": "0.png", "captions": []},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "valid" / "manifest.jsonl").write_text('{"image": "0.png", "caption": "a b"}\n')
    prepared = prepared_images(tmp_path, maximum_length=4)
    assert len(prepared.train) == 1 and prepared.train["caption_lengths"].row(0).tolist() == [2]
    assert (prepared.train_tally.long, prepared.train_tally.empty) == (1, 1)


def test_all_unusable_images_are_told_together_or_left_out(tmp_path: Path) -> None:
    for role in ("train", "valid"):
        write_images(tmp_path / role, images=8)
    (tmp_path / "train" / "2.png").write_bytes(b"no image")
    (tmp_path / "train" / "5.png").write_bytes((tmp_path / "train" / "6.png").read_bytes()[:60])
    with pytest.raises(DataError) as error:
        prepared_images(tmp_path)
    assert "manifest.jsonl: line 3: " in str(error.value) and "manifest.jsonl: line 6: " in str(error.value)
    assert "iconv" not in str(error.value)
    for choice in ("skip", "replace"):
        prepared = prepared_images(tmp_path, invalid=choice)
        assert len(prepared.train) == 6 and prepared.train_tally.invalid == 2
        shutil.rmtree(tmp_path / "store")


def test_an_image_changes_size_only_where_it_must(tmp_path: Path) -> None:
    picture("blue", "top right", size=64).save(tmp_path / "large.png")
    small = read_image(tmp_path / "large.png", size=SIZE).pixels
    own = np.array(picture("blue", "top right"))
    assert np.array_equal(read_image(own, size=SIZE).pixels, own)
    assert np.abs(small.astype(int) - own).mean() < 6  # but for the edges
