"""Manifests: an image and its captions per line; every problem is reported with file and line."""

import json
import re
from pathlib import Path

import pytest
from tests.captioned import picture

from calque.data.corpora import DataConfig
from calque.data.image_manifests import Box, ImagesConfig, manifest_rows, read_entry

JSONL = ImagesConfig(path=Path("folder/manifest.jsonl"))
TSV = ImagesConfig(path=Path("folder/manifest.tsv"))


def test_captions_are_one_text_or_several() -> None:
    one = read_entry('{"image": "a.png", "caption": "a  dog"}', corpus=JSONL)
    assert one.image == Path("folder/a.png") and one.captions == ("a dog",)
    two = read_entry('{"image": "/b.png", "captions": ["a dog", "a\\tcat", " "]}', corpus=JSONL)
    assert two.image == Path("/b.png") and two.captions == ("a dog", "a cat")
    table = read_entry("sub/c.png\ta dog\ta cat", corpus=TSV)
    assert table.image == Path("folder/sub/c.png") and table.captions == ("a dog", "a cat")
    assert ImagesConfig(path=Path("m.tsv.gz")).is_table and not ImagesConfig(path=Path("m.jsonl.gz")).is_table


def test_boxes_name_characters_of_the_caption() -> None:
    line = {"image": "a", "caption": "a dog", "boxes": [{"box": [1, 2, 3.5, 4], "span": [2, 5]}]}
    assert read_entry(json.dumps(line), corpus=JSONL).boxes == (Box(1, 2, 3.5, 4, (2, 5)),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a.png", "not JSON"),
        ("[1]", "expected a JSON object, found list"),
        ('{"image": "a", "text": "b"}', "unknown key 'text'"),
        ('{"image": 1, "caption": "b"}', "expected {"),
        ('{"image": "a", "captions": [1]}', "expected {"),
        ('{"image": " ", "caption": "b"}', "the path of the image is empty"),
        ('{"image": "a", "caption": "\\ud800"}', "lone surrogate"),
        ('{"image": "a", "caption": "b", "boxes": [1]}', "boxes: expected"),
        (
            '{"image": "a", "caption": "b", "boxes": [{"box": [3, 0, 1, 2], "span": [0, 1]}]}',
            "has no area; expected left < right",
        ),
        ('{"image": "a", "caption": "b", "boxes": [{"box": [0, 0, 1, 2], "span": [0, 9]}]}', "the span [0, 9] is not"),
        ('{"image": "a", "caption": "a  b", "boxes": [{"box": [0, 0, 1, 2], "span": [3, 4]}]}', "superfluous white"),
    ],
)
def test_malformed_lines_are_told(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_entry(line, corpus=JSONL)


def test_a_line_of_a_table_needs_a_tab() -> None:
    with pytest.raises(ValueError, match="no tab"):
        read_entry("a.png", corpus=TSV)


def test_rows_keep_their_places_and_unusable_images_are_apart_from_malformed_lines(tmp_path: Path) -> None:
    picture("red", "top left").save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    corpus = ImagesConfig(path=tmp_path / "m.tsv")
    rows = manifest_rows(["good.png\ta\tb", "", "bad.png\tc", "none"], corpus=corpus, first=7)
    assert rows.columns[0][0] == str(tmp_path / "good.png") and rows.columns[1] == ["a\tb", "", "c", ""]
    assert list(rows.invalid) == [2] and f"m.tsv: line 9: {tmp_path / 'bad.png'}: " in rows.invalid[2]
    assert list(rows.malformed) == [3] and "m.tsv: line 10: found no tab" in rows.malformed[3]


def test_images_are_a_kind_of_corpus() -> None:
    data = DataConfig.model_validate({"train": [{"kind": "images", "path": "m.jsonl"}]})
    assert isinstance(data.train[0], ImagesConfig)
    assert data.longest_row(running=False) > 1 << 20  # many captions
