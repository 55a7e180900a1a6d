"""Files of histories: what is read of them, and what is said of lines that cannot be used, by file and line."""

import gzip
import json
from pathlib import Path

import pytest

from calque.data.corpora import DataConfig, read_blocks
from calque.data.prepare import prepare
from calque.data.rows import parse
from calque.data.sequence_files import LINE_BYTES, SequenceCorpus, SequenceRecordsConfig, SequencesConfig
from calque.data.sequence_preparation import SequencePreparation
from calque.errors import DataError


def parsed(corpus: SequenceCorpus) -> tuple[list[tuple[str, ...]], list[str]]:
    """The texts of all rows, and the problems of the other lines."""
    blocks = [
        parse(block, corpus=corpus, invalid="fail", limit=LINE_BYTES) for block in read_blocks(corpus, limit=LINE_BYTES)
    ]
    return [row.texts for block in blocks for row in block.rows], [line for block in blocks for line in block.malformed]


def test_a_line_is_a_user_and_items(tmp_path: Path) -> None:
    path = tmp_path / "users.txt.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfu1 a  b\tc\r\n\n  u2 d\n"))
    assert parsed(SequencesConfig(path=path)) == ([("u1", "a\tb\tc"), ("u2", "d")], [])


def test_a_record_has_times_and_behaviours(tmp_path: Path) -> None:
    path = tmp_path / "users.jsonl"
    record = {"user": 7, "items": ["red shoes", 12], "times": [-3, 4.9], "behaviours": ["view", "buy"], "other": None}
    path.write_text(json.dumps(record) + "\n")
    corpus = SequenceRecordsConfig(path=path, times_key="times", behaviours_key="behaviours")
    assert parsed(corpus) == ([("7", "red shoes\t12", "-3\t4", "view\tbuy")], [])
    assert parsed(SequenceRecordsConfig(path=path)) == ([("7", "red shoes\t12")], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("u1", "the user 'u1' has no items"),
        ('{"user": "u", "items": []}', "the user 'u' has no items"),
        ('{"user": "u", "items": ["a", "b"], "times": [5, 4]}', "item 2 has time 4, before item 1 with 5"),
        ('{"user": "u", "items": ["a", "b"], "times": [5]}', "2 items, but 1 times"),
        ('{"user": "u", "items": ["a"], "times": ["5"]}', 'expected a number of seconds, found "5"'),
        ('{"user": "u", "items": ["a"], "times": [1e300]}', "is out of range"),
        ('{"user": "u", "items": ["a"], "times": [NaN]}', ""),
        (
            '{"user": "u", "items": ["a"], "time": [1]}',
            "no key 'times' in the JSON object; its keys: 'user', 'items', 'time'",
        ),
        ('{"user": "u", "items": "a b", "times": []}', 'items: expected a list, found "a b"'),
        ('{"user": "u", "items": ["a\\tb"], "times": [1]}', "without tabs and line breaks"),
        ('{"user": "u", "items": ["\\ud800"], "times": [1]}', "without tabs and line breaks"),
        ('{"user": "u", "items": [null], "times": [1]}', "found null"),
        ('{"user": true, "items": ["a"], "times": [1]}', "found true"),
        ("[1]", "expected a JSON object, found list"),
        ("{", "not JSON"),
    ],
)
def test_lines_that_cannot_be_used_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "users"
    is_json = line[0] in "{["
    good = '{"user": "good", "items": ["a"], "times": [1]}' if is_json else "good a"
    path.write_text(f"{good}\n{line}\n")
    corpus = SequenceRecordsConfig(path=path, times_key="times") if is_json else SequencesConfig(path=path)
    rows, problems = parsed(corpus)
    assert len(rows) == 1 and len(problems) == 1
    assert problems[0].startswith(f"{path}: line 2: ") and message in problems[0]


@pytest.mark.parametrize("is_json", [False, True])
def test_a_user_with_two_lines_is_refused(tmp_path: Path, is_json: bool) -> None:
    path = tmp_path / "users"
    lines = [("a", "x"), ("b", "y"), ("a", "z")]
    written = [json.dumps({"user": user, "items": [item]}) if is_json else f"{user} {item}" for user, item in lines]
    path.write_text("\n".join(written) + "\n")
    corpus = SequenceRecordsConfig(path=path) if is_json else SequencesConfig(path=path)
    with pytest.raises(DataError, match="line 3: the user 'a' is already on line 1"):
        parsed(corpus)


def test_all_problems_of_a_corpus_are_told_together(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("u1 a b c d\nu2\nu3 a b c\nu4\n")
    data = DataConfig(train=({"kind": "sequences", "path": path},))
    with pytest.raises(DataError, match=r"(?s)line 2: the user 'u2' has no items.*line 4: the user 'u4'"):
        prepare(data, preparation=SequencePreparation(), folder=tmp_path / "store")
