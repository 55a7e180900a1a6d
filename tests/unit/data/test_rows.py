"""Rows of text out of corpora: every kind of file, and every way it can be wrong (P11, P12, P13)."""

import gzip
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.data import corpora
from calque.data.corpora import Corpus, FilesConfig, JsonlConfig, TextFileConfig, TsvConfig, read_blocks, text_columns
from calque.data.lines import Invalid, raw_lines
from calque.data.problems import RECODE, refuse
from calque.data.rows import Row, Tally, parse
from calque.errors import DataError

LIMIT = 1000


def files(folder: Path, source: bytes, target: bytes) -> FilesConfig:
    (folder / "a.en").write_bytes(source)
    (folder / "a.de").write_bytes(target)
    return FilesConfig(source=folder / "a.en", target=folder / "a.de")


def read_rows(corpus: Corpus, *, invalid: Invalid, limit: int) -> Iterator[Row]:
    """The usable rows of a corpus, in order; what cannot be read is a DataError."""
    for block in read_blocks(corpus, limit=limit):
        parsed = parse(block, corpus=corpus, invalid=invalid, limit=limit)
        refuse(parsed.malformed + parsed.invalid * (invalid == "fail"))
        yield from parsed.rows


def texts(corpus: Corpus, *, invalid: Invalid = "fail") -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(corpus, invalid=invalid, limit=LIMIT)]


def tally(corpus: Corpus, *, invalid: Invalid = "skip") -> Tally:
    blocks = read_blocks(corpus, limit=LIMIT)
    return sum((parse(block, corpus=corpus, invalid=invalid, limit=LIMIT).tally for block in blocks), Tally())


def test_two_files_line_by_line_also_gzip(tmp_path):
    assert texts(files(tmp_path, b"a\nb\n", b"x\ny")) == [("a", "x"), ("b", "y")]
    assert texts(files(tmp_path, gzip.compress(b"a\nb\n"), b"x\ny\n")) == [("a", "x"), ("b", "y")]


def test_unicode_line_breaks_are_text(tmp_path):
    source = "a\u2028b\x0bc\x85d\n\x0c1\n"
    assert texts(files(tmp_path, source.encode(), b"x\ny\n")) == [("a\u2028b\x0bc\x85d", "x"), ("\x0c1", "y")]


def test_returns_marks_empties_and_long_lines_are_counted(tmp_path):
    source = b"\xef\xbb\xbfa\r\n\n  \nlong " + b"x" * LIMIT + b"\ne\r\n"
    corpus = files(tmp_path, source, b"1\n2\n3\n4\n5\n")
    assert texts(corpus) == [("a", "1"), ("e", "5")]
    assert tally(corpus) == Tally(lines=5, empty=2, long=1, invalid=0, returns=2, marks=1)


def test_a_row_knows_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "BLOCK_LINES", 3)
    corpus = files(tmp_path, b"a\n" * 10, b"x\n" * 4 + b"\n" + b"x\n" * 5)
    lines = [row.line for row in read_rows(corpus, invalid="fail", limit=LIMIT)]
    assert lines == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_blocks_are_bounded_in_bytes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "BLOCK_BYTES", 100)
    corpus = files(tmp_path, (b"s" * 30 + b"\n") * 9, (b"t" * 30 + b"\n") * 9)
    assert [block.lines for block in read_blocks(corpus, limit=LIMIT)] == [2, 2, 2, 2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_blocks_equal_those_of_lines_read_one_by_one(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    most_lines, most_bytes = draw.choice([1, 3, 7, 1000]), draw.choice([10, 60, 10_000])
    monkeypatch.setattr(corpora, "BLOCK_LINES", most_lines)
    monkeypatch.setattr(corpora, "BLOCK_BYTES", most_bytes)
    monkeypatch.setattr("calque.data.lines._CHUNK", draw.choice([1, 5, 64, 1 << 16]))
    sides = [b"".join(b"x" * draw.randrange(30) + b"\n" for _ in range(draw.choice([0, 1, 50]))) for _ in range(2)]
    if seed % 2:
        sides[1] = sides[0].replace(b"x", b"yy")
    rows = list(zip(*(raw_lines(io.BytesIO(side), limit=20) for side in sides), strict=False))
    expected: list[list[tuple[bytes, ...]]] = [[]]
    for row in rows:
        if len(expected[-1]) >= most_lines or sum(len(line) for row in expected[-1] for line in row) >= most_bytes:
            expected.append([])
        expected[-1].append(row)
    blocks = []
    try:
        for block in read_blocks(files(tmp_path, *sides), limit=20):
            blocks.append(list(zip(*block.files, strict=True)))
            assert block.first == 1 + sum(map(len, blocks[:-1]))
    except DataError:
        assert sides[0].count(b"\n") != sides[1].count(b"\n")
    else:
        assert sides[0].count(b"\n") == sides[1].count(b"\n")
    assert blocks == [block for block in expected if block]


@pytest.mark.parametrize("gone", [0, 1, 700, 1399])
def test_a_missing_line_is_refused_and_found(tmp_path, gone):
    generator = random.Random(gone)
    sizes = [generator.randrange(5, 120) for _ in range(1400)]
    source = [b"s" * size for size in sizes]
    target = [b"t" * max(1, int(size * generator.uniform(1.0, 1.4))) for size in sizes]
    del target[gone]
    corpus = files(tmp_path, b"\n".join(source) + b"\n", b"\n".join(target) + b"\n")
    with pytest.raises(DataError, match=r"a\.en has 1,400 lines, .*a\.de has 1,399") as refused:
        texts(corpus)
    suspect = int(str(refused.value).split("first suspect line: ")[1].split(" ")[0].replace(",", ""))
    assert abs(suspect - (gone + 1)) <= 5


def test_extra_lines_in_the_target_are_refused_and_found(tmp_path):
    generator = random.Random(5)
    source = [b"s" * generator.randrange(5, 120) for _ in range(500)]
    translated = [line * 3 for line in source]
    target = [*translated[:200], b"a stray line", b"and another", *translated[200:]]
    with pytest.raises(DataError, match=r"500 lines.*502") as refused:
        texts(files(tmp_path, b"\n".join(source), b"\n".join(target)))
    suspect = int(str(refused.value).split("first suspect line: ")[1].split(" ")[0])
    assert abs(suspect - 201) <= 5


def test_a_truncated_file_is_refused_at_its_end(tmp_path):
    generator = random.Random(6)
    source = [b"s" * generator.randrange(5, 120) for _ in range(500)]
    with pytest.raises(DataError, match=r"first suspect line: 41\d.*end of .*a\.de, or .*is probably missing"):
        texts(files(tmp_path, b"\n".join(source), b"\n".join(source[:412])))


def test_a_missing_line_of_a_short_file_is_found(tmp_path):
    for seed in range(40):
        generator = random.Random(seed)
        source = [b"s" * generator.randrange(5, 120) for _ in range(60)]
        target = [line * 2 for line in source]
        del target[39]
        with pytest.raises(DataError, match=r"first suspect line: (39|4\d) .*missing, duplicated or broken line"):
            texts(files(tmp_path, b"\n".join(source), b"\n".join(target)))


def test_lines_that_fit_better_by_chance_are_not_suspected(tmp_path):
    """The last ones of a file that lacks its end, now and then."""
    for seed in range(40):
        generator = random.Random(seed)
        source = [b"s" * generator.randrange(20, 80) for _ in range(60)]
        target = [b"t" * int(len(line) * generator.uniform(0.8, 1.4)) for line in source]
        with pytest.raises(DataError, match=r"first suspect line: 58 \(.*end of .*a\.de, or .*is probably missing"):
            texts(files(tmp_path, b"\n".join(source), b"\n".join(target[:57])))


def test_an_empty_file_against_a_full_one(tmp_path):
    with pytest.raises(DataError, match=r"a\.en has 0 lines, .* has 2"):
        texts(files(tmp_path, b"", b"a\nb\n"))


def test_invalid_bytes_are_named_skipped_or_replaced(tmp_path):
    corpus = files(tmp_path, b"a\nb\xc3\nc\n", b"x\ny\nz\xff\n")
    with pytest.raises(DataError) as refused:
        texts(corpus)
    assert str(refused.value).splitlines() == [
        f"{tmp_path / 'a.en'}: line 2, byte 2: 0xc3 is not UTF-8 here",
        f"{tmp_path / 'a.de'}: line 3, byte 2: 0xff is not UTF-8 here",
        RECODE,
    ]
    assert texts(corpus, invalid="skip") == [("a", "x")]
    assert texts(corpus, invalid="replace") == [("a", "x"), ("b\ufffd", "y"), ("c", "z\ufffd")]
    assert tally(corpus).invalid == 2


@given(st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=6)), min_size=1, max_size=6))
def test_every_line_is_a_row_or_counted(tmp_path_factory, rows):
    rows = [tuple(side.replace(b"\n", b"") for side in row) for row in rows]
    source, target = (b"x" + b"".join(row[side] + b"\n" for row in rows) for side in (0, 1))  # no compressed file
    corpus = files(tmp_path_factory.mktemp("rows"), source, target)
    counted = tally(corpus)
    assert len(texts(corpus, invalid="skip")) + counted.empty + counted.long + counted.invalid == len(rows)


def test_one_file_of_text(tmp_path):
    corpus = TextFileConfig(path=tmp_path / "a.txt")
    corpus.path.write_bytes(gzip.compress(b"\xef\xbb\xbfa b\r\n\n \nc\n"))
    assert text_columns(corpus) == ("text",)
    assert [(row.texts, row.line) for row in read_rows(corpus, invalid="fail", limit=LIMIT)] == [
        (("a b",), 1),
        (("c",), 4),
    ]
    assert tally(corpus) == Tally(lines=4, empty=2, returns=1, marks=1)


def test_links_stand_behind_the_texts_and_may_be_empty(tmp_path):
    corpus = files(tmp_path, b"a b\nc\n", b"x\ny\n").model_copy(update={"alignments": tmp_path / "links"})
    (tmp_path / "links").write_bytes(b"0-0 1-0\n\n")
    assert text_columns(corpus) == ("source", "target", "links")
    assert texts(corpus) == [("a b", "x", "0-0 1-0"), ("c", "y", "")]


def test_tsv_columns(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"id\tx\ta\n\nid\ty\tb\tmore\n")
    assert texts(TsvConfig(path=path, source_column=3, target_column=2)) == [("a", "x"), ("b", "y")]
    with pytest.raises(DataError, match=r"a\.tsv: line 1: found 3 columns separated by tabs, expected at least 4"):
        texts(TsvConfig(path=path, source_column=4))


def test_jsonl_keys(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "a\\nb", "target": "x", "id": 1}\n\n{"target": "y", "source": "ü"}\n', encoding="utf-8")
    assert texts(JsonlConfig(path=path)) == [("a\nb", "x"), ("ü", "y")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a"', r"not JSON: Expecting ',' delimiter at character 15"),
        ('["a", "b"]', r"expected a JSON object, found list"),
        ('{"source": "a", "taget": "b"}', r"no key 'target' in the JSON object; its keys: 'source', 'taget'"),
        ('{"source": "a", "target": 3}', r"'target' is not a string but int"),
        ("[" * 100_000, r"line 2"),
    ],
)
def test_bad_json_is_named_by_file_and_line(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"source": "a", "target": "b"}) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"a\.jsonl: line 2: .*{message}|a\.jsonl: {message}"):
        list(read_rows(JsonlConfig(path=path), invalid="replace", limit=1 << 20))


def test_half_characters_in_json_are_invalid_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"source": "a\\ud800", "target": "b"}\n')
    with pytest.raises(DataError, match=r"line 1: U\+D800 is a lone surrogate"):
        texts(JsonlConfig(path=path))
    assert texts(JsonlConfig(path=path), invalid="skip") == []
    assert texts(JsonlConfig(path=path), invalid="replace") == [("a\ufffd", "b")]
