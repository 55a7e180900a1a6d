"""Tables: CSV as Python's csv module writes it, columns by name and by number, and every row that does not fit."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from calque.data import corpora, tables
from calque.data.corpora import Corpus, JsonlConfig, read_blocks
from calque.data.fingerprint import fingerprint
from calque.data.problems import refuse
from calque.data.rows import Row, Tally, parse
from calque.data.tables import CONTINUATION, CsvConfig, TsvConfig, csv_lines
from calque.errors import DataError

LIMIT = 1000


def rows(corpus: Corpus, *, limit: int = LIMIT) -> list[Row]:
    """The rows of a corpus; a DataError lists what is malformed or invalid."""
    parsed = [parse(block, corpus=corpus, invalid="fail", limit=limit) for block in read_blocks(corpus, limit=limit)]
    refuse([problem for block in parsed for problem in (*block.malformed, *block.invalid)])
    return [row for block in parsed for row in block.rows]


def tally(corpus: Corpus) -> Tally:
    blocks = read_blocks(corpus, limit=LIMIT)
    return sum((parse(block, corpus=corpus, invalid="skip", limit=LIMIT).tally for block in blocks), Tally())


def csv_file(folder: Path, content: str | bytes, **options: Any) -> CsvConfig:
    (folder / "a.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return CsvConfig(path=folder / "a.csv", **options)


CELLS = st.text(alphabet=st.sampled_from('ab ü",;\n\t'), min_size=1, max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12), st.sampled_from(",;\t|"), st.data())
def test_csv_is_read_as_it_was_written(tmp_path_factory, written, delimiter, data) -> None:
    """Python's csv module is the oracle: of the rows, and of the line on which each begins."""
    buffer = io.StringIO()
    end, quoting = data.draw(st.sampled_from(["\n", "\r\n"])), data.draw(st.sampled_from([csv.QUOTE_ALL, 0]))
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["id", "en", "de"])
    lines = []
    for row in written:
        lines.append(buffer.getvalue().count("\n") + 1)
        writer.writerow(row)
    content = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + buffer.getvalue().encode()
    columns = {"source_column": data.draw(st.sampled_from(["de", 3])), "target_column": "en"}
    corpus = csv_file(tmp_path_factory.mktemp("csv"), content, delimiter=delimiter, **columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "BLOCK_LINES", 3)
        parsed = rows(corpus)
    expected = [
        Row((target, source), line)
        for (_, source, target), line in zip(written, lines, strict=True)
        if source.strip() and target.strip()
    ]
    assert parsed == expected
    assert tally(corpus).lines == buffer.getvalue().count("\n")
    assert tally(corpus).empty == len(written) - len(expected)


def test_a_table_may_have_no_header_and_may_be_compressed(tmp_path: Path) -> None:
    content = gzip.compress(b'a,"x, y"\n\n"b ""quoted""",z "inches"\n')
    corpus = csv_file(tmp_path, content, header=False)
    assert [row.texts for row in rows(corpus)] == [("a", "x, y"), ('b "quoted"', 'z "inches"')]
    assert tally(corpus) == Tally(lines=3, empty=1)


def test_columns_of_tsv_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b'\xef\xbb\xbfid\tde \ten\r\n1\t"ein\tone\n2\tzwei\ttwo\n')
    by_name = TsvConfig(path=path, source_column="en", target_column="de")
    assert [row.texts for row in rows(by_name)] == [("one", '"ein'), ("two", "zwei")]
    assert rows(by_name)[0].line == 2
    numbered = TsvConfig(path=path, source_column=3, target_column=2, header=True)
    assert rows(numbered) == rows(by_name)
    assert len(rows(numbered.model_copy(update={"header": None}))) == 3  # nothing says that there is a header
    path.write_bytes(path.read_bytes() + b"3\tdrei\tthree\tmore\n")
    with pytest.raises(DataError, match=r"a\.tsv: line 4: found 4 columns separated by tabs, but the header has 3"):
        rows(by_name)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("en,de\na,b\nc\n", {}, r"line 3: found 1 column separated by ',', but the header has 2"),
        ("en,de\nHello, you,Hallo\n", {}, r"line 2: found 3 columns .* must be quoted"),
        ("a,b\nc,d,e\n", {"header": False}, r"line 2: found 3 columns separated by ',', but line 1 has 2"),
        ('en,de\n"a\nb"c,d\n', {}, r"line 2: column 1 has text after its closing quote: 'c,d'"),
        ('en,de\na,b\n"c,d\ne,f\n', {}, r"line 3: a quote is opened, but not closed by the end of the file at line 4"),
        ("en,de\na,b\n", {"source_column": "fr"}, r"line 1: no column is named 'fr'; the header has 'en', 'de'"),
        ("en,en\na,b\n", {"source_column": "en"}, r"line 1: several columns are named 'en'"),
        ("en,de\na,b\n", {"target_column": 3}, r"line 1: no column 3; the header has 2: 'en', 'de'"),
        ("en;de\na;b\n", {}, r"line 1: no column 2; .*'en;de'; is the file really separated by ','\?"),
        (b'en,de\na,b\n"x\ny\xffz",b\n', {}, r"line 4, byte 2: 0xff is not UTF-8 here"),
    ],
)
def test_rows_that_do_not_fit_are_rejected_with_file_and_line(
    content: str | bytes, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=rf"a\.csv: {message}"):
        rows(csv_file(tmp_path, content, **options))


def test_long_records_are_counted_and_a_quote_is_closed_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = csv_file(tmp_path, f'en,de\n"{"x " * LIMIT}\nx",b\nc,d\n')
    assert [row.texts for row in rows(corpus)] == [("c", "d")]
    assert tally(corpus) == Tally(lines=4, long=1)
    monkeypatch.setattr(tables, "RECORD_BYTES", 50)
    lines = iter([b"en,de", b'"open,b', *[b"text,text"] * 1000])
    with pytest.raises(DataError, match=r"name: line 2: a quote is opened, but not closed within"):
        list(csv_lines(lines, delimiter=",", limit=9, name="name"))
    assert len(list(lines)) > 900  # the rest was not read


def test_lines_of_a_record_stand_for_themselves() -> None:
    items = list(csv_lines([b'a,"b', b'c",d', b"", b"e"], delimiter=",", limit=99, name="name"))
    assert items == [b'a,"b\nc",d', CONTINUATION, b"", b"e"]


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    for values, message in (
        ({"kind": "csv", "header": False, "source_column": "en"}, r"cannot be given by name \('en'\); use"),
        ({"kind": "tsv", "header": False, "target_column": "de"}, r"cannot be given by name \('de'\); use"),
        (
            {"kind": "tsv", "header": True, "alignments": "a"},
            "word alignments cannot be used with a file that has a header",
        ),
        ({"kind": "csv", "delimiter": '"'}, "must be one ASCII character"),
        ({"kind": "csv", "delimiter": "::"}, "must be one ASCII character"),
        ({"kind": "csv", "source_column": 0}, "greater than or equal to 1"),
    ):
        with pytest.raises(ValidationError, match=message):
            corpora.DataConfig.model_validate({"train": [{"path": tmp_path / "x", **values}]})


def test_a_store_of_a_table_made_before_headers_is_still_valid(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.touch()
    keys = fingerprint(corpora.DataConfig(train=(TsvConfig(path=path),)), settings={}).keys()
    assert "data.train[1].header" not in keys and "data.train[1].source_column" in keys
    named = corpora.DataConfig(train=(TsvConfig(path=path, header=True),))
    assert fingerprint(named, settings={})["data.train[1].header"] == "true"


def test_keys_of_json_may_be_nested(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "translation": {"de": "a", "en": "b"}, "x.y": "c"}\n', encoding="utf-8")
    nested = JsonlConfig(path=path, source_key="translation.de", target_key="x.y")
    assert [row.texts for row in rows(nested)] == [("a", "c")]
    with pytest.raises(
        DataError, match=r"no key 'translation.fr' in the JSON object; its keys: 'id', 'x\.y', 'translation.de'"
    ):
        rows(JsonlConfig(path=path, source_key="translation.fr", target_key="x.y"))
    with pytest.raises(DataError, match="'translation' is not a string but dict"):
        rows(JsonlConfig(path=path, source_key="translation", target_key="x.y"))
