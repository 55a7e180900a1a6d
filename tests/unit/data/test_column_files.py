"""Column files: every byte survives, a replaced column is all that changes, and mistakes are named by file and line."""

import gzip
import io
import os
import tracemalloc
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.data import column_files
from calque.data.column_files import ColumnFormat, ColumnSentence, file_sentences, read_sentences, with_column
from calque.data.problems import RECODE
from calque.errors import DataError

CORPORA = os.environ.get("CALQUE_CORPORA")


def read(data: bytes, *, format: ColumnFormat = "columns", columns: int = 1) -> list[ColumnSentence]:
    return list(read_sentences(io.BytesIO(data), name="in", format=format, columns=columns))


def words(data: bytes, *, format: ColumnFormat = "columns", column: int = 1) -> list[list[str]]:
    return [sentence.column(column) for sentence in read(data, format=format, columns=column)]


def problems(data: bytes, *, format: ColumnFormat = "columns", columns: int = 1) -> list[str]:
    with pytest.raises(DataError) as rejected:
        read(data, format=format, columns=columns)
    return str(rejected.value).splitlines()


def own_values(sentences: list[ColumnSentence], *, column: int) -> bytes:
    return b"".join(with_column(sentence, column=column, values=sentence.column(column)) for sentence in sentences)


def conllu(*rows: str, end: str = "\n") -> bytes:
    """Rows of an id and a form, filled up to ten columns; comments and empty lines as they are."""
    filled = [row if not row or row.startswith("#") else "\t".join([*row.split(" "), *"_" * 8]) for row in rows]
    return "".join(row + end for row in filled).encode()


# Plain columns

CHUNKS = b"Confidence NN B-NP\nin IN B-PP\n\nthe DT B-NP\n# # B-NP\n. . O\n\n"


def test_sentences_end_at_empty_lines() -> None:
    sentences = read(CHUNKS, columns=3)
    assert [sentence.column(1) for sentence in sentences] == [["Confidence", "in"], ["the", "#", "."]]
    assert [sentence.column(3) for sentence in sentences] == [["B-NP", "B-PP"], ["B-NP", "B-NP", "O"]]
    assert [(sentence.first, sentence.words) for sentence in sentences] == [(1, (0, 1)), (4, (0, 1, 2))]


@pytest.mark.parametrize(
    "data",
    [
        b"a X\nb Y\n\nc X\n",
        b"a X\nb Y\n\nc X",  # no line end
        b"a X\r\nb Y\r\n\r\nc X\r\n",
        b"\n\n \na\tX\nb\tY\n \t \n\n\nc\tX\n\n",  # empty lines before, between and behind; some of spaces
        b"  a   X  \nb Y\t\n\nc X \r\n",  # spaces around
        b"a\tX\nb Y\n\nc \t X",  # each line by itself
        b"\xef\xbb\xbfa X\nb Y\n\nc X\n",  # a byte order mark
        b"\xef\xbb\xbf\na X\nb Y\n\nc X\n",
        b"a X 1\nb Y\n\nc X 2 3\n",  # more columns than are needed
    ],
)
def test_the_same_sentences_however_they_are_written(data: bytes) -> None:
    sentences = [sentence for sentence in read(data, columns=2) if sentence.words]
    assert [sentence.column(1) for sentence in sentences] == [["a", "b"], ["c"]]
    assert [sentence.column(2) for sentence in sentences] == [["X", "Y"], ["X"]]
    for column in (1, 2):
        assert own_values(read(data, columns=2), column=column) == data


def test_only_spaces_and_tabs_separate() -> None:
    odd = "a\u00a0b\u3000\u2028c\x0b\x85"
    assert words(f"{odd} X\n{odd}\tY\n".encode()) == [[odd, odd]]
    assert words(b"New York\tB-LOC\n") == [["New York"]]
    assert words(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == [["a", "\ufeffb"]]  # a byte order mark begins a file only


def test_a_column_is_replaced_and_nothing_else() -> None:
    data = b"\xef\xbb\xbf  a   DT\tX  \r\n\nbb  NN  \t\r\n\r\ncc NN"
    first, second, third = read(data, columns=2)
    assert with_column(first, column=2, values=["ART"]) == b"\xef\xbb\xbf  a   DT\tART  \r\n\n"
    assert with_column(first, column=1, values=["ä"]) == "\ufeff  ä\tX  \r\n\n".encode()
    assert with_column(second, column=2, values=["V"]) == b"bb  V  \t\r\n\r\n"
    assert with_column(third, column=1, values=["longer"]) == b"longer NN"
    assert with_column(read(b"a\t\tX\n")[0], column=3, values=["Y"]) == b"a\t\tY\n"
    assert with_column(read(b"a\t \tX\n")[0], column=2, values=["DT"]) == b"a\tDT \tX\n"


@pytest.mark.parametrize(
    ("line", "appended"),
    [
        (b"a DT\n", b"a DT X\n"),
        (b"a\tDT\n", b"a\tDT\tX\n"),
        (b"a DT  \r\n", b"a DT X  \r\n"),
        (b"a   DT", b"a   DT X"),
        (b"New York\tDT\t\n", b"New York\tDT\tX\t\n"),
    ],
)
def test_a_column_that_is_not_there_is_appended(line: bytes, appended: bytes) -> None:
    assert with_column(read(line)[0], column=3, values=["X"]) == appended
    assert with_column(read(b"word\n")[0], column=2, values=["X"]) == b"word X\n"


@pytest.mark.parametrize(
    ("line", "value", "message"),
    [
        (b"a DT\n", "X Y", "line 1: 'X Y' cannot be a value in columns separated by spaces"),
        (b"a DT\n", "", "line 1: '' cannot be a value in columns separated by spaces"),
        (b"a DT\n", "X\tY", "separated by spaces"),
        (b"a\tDT\n", "X\tY", "separated by tabs"),
        (b"a\tDT\n", "X\nY", "separated by tabs"),
        (b"a\tDT\n", "X\r", "separated by tabs"),
        (b"a\tDT\n", " X", "separated by tabs"),
        (b"a\tDT\n", "", "separated by tabs"),
        (b"a\n", "X", "in: line 1: found 1 columns, so column 3 can be neither replaced nor appended"),
    ],
)
def test_values_that_could_not_be_read_again_are_rejected(line: bytes, value: str, message: str) -> None:
    column = 3 if line == b"a\n" else 2
    with pytest.raises(DataError, match=message):
        with_column(read(line)[0], column=column, values=[value])
    assert with_column(read(b"a b\tDT\n")[0], column=2, values=["X Y"]) == b"a b\tX Y\n"


def test_every_word_needs_a_value() -> None:
    with pytest.raises(AssertionError, match="1 values for 2 words"):
        with_column(read(CHUNKS)[0], column=1, values=["X"])


# CoNLL-U

TREE = conllu(
    "# text = Don't go", "1-2 Don't", "1 Do", "2 n't", "3 go", "3.1 home", "3.2 now", "", "# x", "0.1 a", "1 b", ""
)


def test_multiword_tokens_and_empty_nodes_are_no_words() -> None:
    first, second = read(TREE, format="conllu")
    assert first.column(2) == ["Do", "n't", "go"]
    assert first.words == (2, 3, 4)
    assert second.column(1) == ["1"]
    assert second.first == 9
    for column in range(1, 11):
        assert own_values([first, second], column=column) == TREE


def test_a_column_of_words_is_replaced() -> None:
    first, _ = read(TREE, format="conllu")
    lines = with_column(first, column=4, values=["AUX", "PART", "VERB"]).splitlines()
    assert [line.split(b"\t")[3] for line in lines[1:-1]] == [b"_", b"AUX", b"PART", b"VERB", b"_", b"_"]
    assert lines[0] == b"# text = Don't go"
    assert lines[-1] == b""


def test_an_appended_column_has_a_value_in_every_row() -> None:
    first, _ = read(TREE, format="conllu")
    output = with_column(first, column=11, values=["A", "B", "C"])
    rows = [line.split(b"\t") for line in output.splitlines()[1:-1]]
    assert [len(row) for row in rows] == [11] * 6
    assert [row[10] for row in rows] == [b"_", b"A", b"B", b"C", b"_", b"_"]
    assert read(output, format="conllu", columns=11)[0].column(11) == ["A", "B", "C"]


def test_comments_and_empty_lines_at_the_end_are_kept() -> None:
    data = conllu("# a", "", "", "# b", "1 x", "", "", "# c")
    sentences = read(data, format="conllu")
    assert [sentence.column(2) for sentence in sentences] == [["x"], []]
    assert b"".join(line for sentence in sentences for line in sentence.lines) == data
    assert own_values(sentences, column=2) == data


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["1 a", "3 b", "4 c"], ["line 2: id 3 is out of order; expected 2"]),
        (["1 a", "1 b"], ["line 2: id 1 is out of order; expected 2"]),
        (["2 a"], ["line 1: id 2 is out of order; expected 1"]),
        (["1 a", "x b", "3 c"], ["line 2: 'x' is not a CoNLL-U id; expected 2"]),
        (["1 a", "02 b", "3 c"], ["line 2: '02' is not a CoNLL-U id; expected 2"]),
        (
            ["1 a", "² b", "٣ c"],
            ["line 2: '²' is not a CoNLL-U id; expected 2", "line 3: '٣' is not a CoNLL-U id; expected 3"],
        ),
        (["1 a", "3-4 b", "2 c", "3 d", "4 e"], ["line 2: multiword token 3-4 is out of order; the next word is 2"]),
        (["1-3 a", "1 b", "2-3 c", "2 d", "3 e"], ["line 3: multiword token 2-3 is out of order; the next word is 2"]),
        (["1 a", "2-1 b", "2 c"], ["line 2: multiword token 2-1 is out of order; the next word is 2"]),
        (["1 a", "2-3 b", "2 c"], ["line 2: multiword token 2-3 extends beyond the last word, 2"]),
        (["1-2 a"], ["line 1: multiword token 1-2 extends beyond the last word, 0"]),
        (["1 a", "2.1 b", "2 c"], ["line 2: empty node 2.1 is out of order; expected 1.1"]),
        (["1 a", "1.2 b", "1.1 c", "2 d"], ["line 3: empty node 1.1 is out of order; expected 1.3"]),
    ],
)
def test_ids_out_of_order_are_named(rows: list[str], expected: list[str]) -> None:
    for ending in ([], [""], ["", "1 x"]):
        assert problems(conllu(*rows, *ending), format="conllu") == [f"in: {problem}" for problem in expected]


@pytest.mark.parametrize(
    "rows", [["1-2 a", "1 b", "2 c", "3-3 d", "3 e"], ["0.1 a", "0.2 b", "1 c", "1.1 d", "2 e", "2.1 f"]]
)
def test_ids_in_order_are_fine(rows: list[str]) -> None:
    for end in ("\n", "\r\n"):
        assert len(read(conllu(*rows, "", *rows, end=end), format="conllu")) == 2


# Mistakes


def test_all_problems_are_told_together() -> None:
    data = b"a X\nb\n\n\xe4 X\nc \xc3\xa4\xff\n" + b"d X\n" * 5 + b"e\tX\ng\t\tY\n"
    assert problems(data, columns=2) == [
        "in: line 2: found 1 columns separated by spaces, expected at least 2",
        "in: line 4, byte 1: 0xe4 is not UTF-8 here",
        "in: line 5, byte 5: 0xff is not UTF-8 here",
        "in: line 12: column 2 is empty",
        RECODE,
    ]
    assert problems(b"1 The the\n2\ta\n", format="conllu") == [
        "in: line 1: found 1 columns separated by tabs, expected at least 10",
        "in: line 2: found 2 columns separated by tabs, expected at least 10",
    ]


def test_many_problems_are_counted_within_a_block() -> None:
    messages = problems(b"a\n" * 10_000, columns=2)
    assert len(messages) == 11
    assert messages[0].startswith("in: line 1: ")
    assert messages[10] == "… and 2,039 more"


def test_sentences_before_a_mistake_come_first() -> None:
    sentences = read_sentences(io.BytesIO(b"a X\n\nb\n\n"), name="in", format="columns", columns=2)
    assert next(sentences).column(1) == ["a"]
    with pytest.raises(DataError, match="line 3"):
        next(sentences)


def test_long_lines_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(
        conllu("# short", "1 a") + b"2\t" + b"b" * 10**6 + b"\n" + conllu("3 c", "# " + "x" * 10**6, "4 d", "")
    )
    with pytest.raises(DataError) as rejected:
        list(file_sentences(path, format="conllu"))
    assert str(rejected.value).splitlines() == [f"{path}: line {line}: longer than 65,536 bytes" for line in (3, 5)]


def test_a_file_without_empty_lines_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_files, "SENTENCE_BYTES", 1 << 16)
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as rejected:
            list(read_sentences(repeat(b"word X\n"), name="in", format="columns"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert (
        str(rejected.value)
        == "in: line 1: a sentence of at least 924 lines is too long; put an empty line after every sentence"
    )


def test_a_sentence_comes_as_soon_as_it_is_complete() -> None:
    given: list[bytes] = []

    def lines() -> Iterator[bytes]:
        for line in (b"a X\n", b"\n", b"b Y\n", b"c Z"):
            given.append(line)
            yield line

    sentences = read_sentences(lines(), name="in", format="columns")
    assert next(sentences).column(1) == ["a"]
    assert len(given) == 2
    assert next(sentences).column(1) == ["b", "c"]


def test_lines_without_their_ends_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="line 1 has no line end"):
        list(read_sentences([b"a X", b"b Y"], name="in", format="columns"))


def test_files_are_read_plain_and_gzipped(tmp_path: Path) -> None:
    for content in (CHUNKS, gzip.compress(CHUNKS)):
        (tmp_path / "chunks").write_bytes(content)
        sentences = list(file_sentences(tmp_path / "chunks", format="columns", columns=3))
        assert own_values(sentences, column=3) == CHUNKS
        assert sentences[0].name == str(tmp_path / "chunks")
    with pytest.raises(DataError, match="nowhere: No such file"):
        list(file_sentences(tmp_path / "nowhere", format="columns"))


def test_no_lines_are_no_sentences() -> None:
    assert read(b"") == []
    assert read(b"", format="conllu") == []


# Laws

VALUES = st.text(
    alphabet=st.one_of(st.sampled_from("ab#_-\u00a0\u2028\ufeff\x0bä"), st.characters(codec="utf-8")),
    min_size=1,
    max_size=5,
)
CLEAN = VALUES.map(lambda text: text.strip(" ").translate({ord(mark): "x" for mark in " \t\r\n"})).filter(bool)
BLANKS = st.sampled_from(["", "", " ", "   ", "\t"])
ENDS = st.sampled_from(["\n", "\r\n", " \n", "  \r\n", "\t\n"])


@st.composite
def plain_files(draw: st.DrawFn) -> tuple[bytes, list[list[list[str]]]]:
    """A file of plain columns, and the values of its sentences' words; a byte order mark may begin it."""
    width = draw(st.integers(1, 4))
    rows = st.lists(CLEAN, min_size=width, max_size=width)
    sentences = draw(st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=4))
    sentences[0][0][0] = "x" + sentences[0][0][0]
    text = draw(st.sampled_from(["", "\ufeff"]))
    for sentence in sentences:
        for cells in sentence:
            separator = draw(st.sampled_from(["\t", " \t", "\t  ", " ", "  "]))
            text += draw(st.sampled_from(["", " ", "   "])) + separator.join(cells) + draw(ENDS)
        text += "".join(draw(st.lists(BLANKS.flatmap(lambda blank: ENDS.map(blank.__add__)), min_size=1, max_size=3)))
    return (text.rstrip(" \t\r\n") if draw(st.booleans()) else text).encode(), sentences


@given(plain_files())
def test_plain_columns_come_back_and_go_back(file: tuple[bytes, list[list[list[str]]]]) -> None:
    data, expected = file
    width = len(expected[0][0])
    sentences = read(data, columns=width)
    assert [[list(cells) for cells in sentence.cells] for sentence in sentences if sentence.words] == expected
    for column in range(1, width + 1):
        assert own_values(sentences, column=column) == data


@st.composite
def trees(draw: st.DrawFn) -> bytes:
    """A CoNLL-U file with comments, multiword tokens and empty nodes."""
    text = draw(st.sampled_from(["", "\ufeff"]))
    for _ in range(draw(st.integers(1, 3))):
        lines = [f"# {comment}" for comment in draw(st.lists(CLEAN, max_size=2))]
        ids, token_end = [], 0
        for word in range(1, draw(st.integers(1, 5)) + 1):
            if word > token_end and draw(st.integers(0, 3)) == 0:
                token_end = word
                ids.append(f"{word}-{word}")
            ids += [str(word), *(f"{word}.{node}" for node in range(1, draw(st.integers(0, 2)) + 1))]
        lines += ["\t".join([name, *draw(st.lists(CLEAN, min_size=9, max_size=9))]) for name in ids]
        text += "".join(line + draw(ENDS) for line in lines) + draw(ENDS)
    return (text.rstrip(" \t\r\n") if draw(st.booleans()) else text).encode()


@given(trees(), st.integers(2, 11), st.data())
def test_a_replaced_column_of_a_tree_is_all_that_changes(data: bytes, column: int, drawn: st.DataObject) -> None:
    sentences = read(data, format="conllu")
    assert all(own_values(sentences, column=number) == data for number in range(1, 11))
    values = [
        drawn.draw(st.lists(CLEAN, min_size=len(sentence.words), max_size=len(sentence.words)))
        for sentence in sentences
    ]
    output = b"".join(
        with_column(sentence, column=column, values=new) for sentence, new in zip(sentences, values, strict=True)
    )
    changed = read(output, format="conllu")
    assert len(changed) == len(sentences)
    for before, after, new in zip(sentences, changed, values, strict=True):
        assert after.words == before.words
        assert after.column(column) == new
        rest = [[*cells[: column - 1], *cells[column:]] for cells in after.cells]
        assert rest == [[*cells[: column - 1], *cells[column:]] for cells in before.cells]
        if column < 11:
            others = set(range(len(before.lines))) - set(before.words)
            assert all(after.lines[place] == before.lines[place] for place in others)


@given(
    st.lists(
        st.sampled_from([b"a", b" ", b"\t", b"\r", b"\n", b"\n", b"\xc3\xa4", b"\xef\xbb\xbf", b"#", b"\xff"]),
        max_size=30,
    )
)
def test_whatever_can_be_read_goes_back(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    try:
        sentences = read(data)
    except DataError:
        return
    assert b"".join(line for sentence in sentences for line in sentence.lines) == data
    assert own_values(sentences, column=1) == data
    widths = [len(cells) for sentence in sentences for cells in sentence.cells]
    for column in range(2, min(widths, default=0) + 1):
        assert own_values(sentences, column=column) == data


# Real corpora


@pytest.mark.skipif(
    CORPORA is None, reason="CALQUE_CORPORA does not name the folder with conll2000/ and ud-english-ewt/"
)
@pytest.mark.parametrize(
    ("file", "format", "sentences", "columns"),
    [
        ("conll2000/train.txt.gz", "columns", 8936, (1, 3)),
        ("conll2000/test.txt.gz", "columns", 2012, (1, 2, 3)),
        ("ud-english-ewt/train.conllu.gz", "conllu", 12_544, (4,)),
        ("ud-english-ewt/dev.conllu.gz", "conllu", 2001, (2, 4, 5)),
        ("ud-english-ewt/test.conllu.gz", "conllu", 2077, (1, 4, 10)),
    ],
)
def test_real_corpora_go_back(file: str, format: ColumnFormat, sentences: int, columns: tuple[int, ...]) -> None:
    path = Path(CORPORA or "") / file
    read_again = list(file_sentences(path, format=format, columns=3))
    assert len(read_again) == sentences
    assert all(sentence.words for sentence in read_again)
    data = gzip.decompress(path.read_bytes())
    for column in columns:
        assert own_values(read_again, column=column) == data
