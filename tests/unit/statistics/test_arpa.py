"""ARPA files: written and read unchanged, as other tools write them, and refused by line where they are wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.unit.statistics.plain_kneser_ney import arpa_log_prob, plain_arpa
from tests.unit.statistics.test_kneser_ney import SIZE, estimate, marked, random_lines

from calque.errors import DataError
from calque.statistics.arpa import arpa_lines, read_arpa, written_form
from calque.statistics.ngram_counts import running_text
from calque.statistics.ngram_tables import NEVER, NgramQueries, NgramTables
from calque.text import BOS, EOS, PIECES, UNK

WORDS = [*PIECES, *(f"w{number}" for number in range(4, SIZE))]

SRILM = """
a comment that other tools allow

\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-0.7\t</s>
-99\t<s>\t-0.25
-0.9\t<unk>\t-0.1
-0.3\ta\t-0.5
-0.6\tb -0.4

\\2-grams:
-0.2\tb </s>
-0.1 a b 0.05
-0.15\t<s> a\t-0.01

\\3-grams:
-0.05\t<s> a b

\\end\\
"""


def tables(order: int, *, running: bool = False) -> NgramTables:
    lines = random_lines(order)
    values = np.array([token for line in lines for token in (*line, EOS)])
    text = running_text(values, end=EOS) if running else marked(lines)
    return estimate(text, order=order).tables


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("running", [False, True])
def test_a_file_is_read_back_unchanged(order: int, running: bool, tmp_path: Path) -> None:
    before = tables(order, running=running)
    text = "".join(arpa_lines(before, WORDS))
    model = read_arpa(write(tmp_path / "a.arpa", text), pieces=WORDS)
    assert model.is_running == (running and order > 1) and model.remarks == []
    for name in ("keys", "log_probs", "backoffs"):
        pairs = zip(getattr(before, name), getattr(model.tables, name), strict=True)
        for expected, found in pairs:
            assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    assert "".join(arpa_lines(model.tables, model.pieces)) == text
    own = read_arpa(tmp_path / "a.arpa")
    assert sorted(own.pieces) == sorted(WORDS), "without a vocabulary, that of the file"
    assert sorted("".join(arpa_lines(own.tables, own.pieces)).splitlines()) == sorted(text.splitlines())


def test_a_plain_reader_finds_the_same_probabilities() -> None:
    found = tables(4)
    text = "".join(arpa_lines(found, WORDS))
    assert "<pad>" not in text and "\n-99.0\t<s>\t" in text and "e+" not in text
    plain, queries = plain_arpa(text), NgramQueries(found, begin=BOS)
    generator = np.random.default_rng(1)
    histories = [(BOS, *line[:end]) for line in random_lines(4)[:8] for end in range(len(line))]
    histories += [tuple(generator.integers(1, SIZE, size=3).tolist()) for _ in range(20)]
    for history in histories:
        named = tuple(WORDS[word] for word in history[-3:])
        for word in range(1, SIZE):
            expected = queries.log_prob(history, word) / np.log(10)
            assert_allclose(arpa_log_prob(plain, named, WORDS[word]), expected, rtol=1e-6)


@pytest.mark.parametrize("compressed", [False, True])
def test_files_of_other_tools_are_read(tmp_path: Path, compressed: bool) -> None:
    """Tabs and spaces, comments, missing weights, positive weights, any order of lines, Windows line ends."""
    text = SRILM.replace("\n", "\r\n").encode()
    path = tmp_path / "srilm.arpa"
    path.write_bytes(gzip.compress(text) if compressed else text)
    model = read_arpa(path)
    assert model.pieces == (*PIECES, "a", "b") and not model.is_running
    queries = NgramQueries(model.tables, begin=BOS)
    a, b = 4, 5
    expected = {
        ((BOS,), a): -0.15,
        ((BOS, a), b): -0.05,
        ((a,), b): -0.1,
        ((a, b), EOS): 0.05 - 0.2,
        ((BOS, a), EOS): -0.01 - 0.5 - 0.7,
        ((b, a), UNK): -0.5 - 0.9,
        ((), BOS): NEVER,
    }
    for (history, word), log_prob in expected.items():
        assert_allclose(queries.log_prob(history, word) / np.log(10), log_prob, rtol=1e-6)
    assert model.remarks == ["the probabilities of single words sum to 1.078, not to 1"]


def test_pieces_that_the_file_does_not_have_share_the_unknown_words_probability(tmp_path: Path) -> None:
    model = read_arpa(write(tmp_path / "a.arpa", SRILM), pieces=[*PIECES, "b", "c", "a"])
    found = 10 ** model.tables.log_probs[0]
    assert_allclose(found[[UNK, 5]], 10**-0.9 / 2)
    assert_allclose(found[[4, 6]], [10**-0.6, 10**-0.3])


def test_white_space_in_pieces_is_written_as_code_points(tmp_path: Path) -> None:
    pieces = [*WORDS[:-2], " ", "a\u3000b"]
    text = "".join(arpa_lines(tables(2), pieces))
    assert written_form("a\u3000b") == "a<U+3000>b" and "\t<U+0020>" in text
    assert read_arpa(write(tmp_path / "a.arpa", text), pieces=pieces).pieces == tuple(pieces)
    with pytest.raises(DataError, match="both appear as <U"):
        list(arpa_lines(tables(2), [*WORDS[:-2], " ", "<U+0020>"]))


def test_words_that_look_like_marks(tmp_path: Path) -> None:
    text = SRILM.replace("\tb", "\t<pad>").replace(" b", " <pad>").replace("<unk>", "<UNK>")
    assert read_arpa(write(tmp_path / "a.arpa", text)).pieces == (*PIECES, "a", "␛<pad>")


BROKEN = [
    ("", "", "a.arpa: found no line .data.; this is not an ARPA file"),
    ("ngram 1=5\n", "", "line 5: expected the number of 1-grams, found that of 2-grams"),
    ("ngram 1=5\nngram 2=3\nngram 3=1\n", "", "line 6: expected ngram 1=NUMBER, found .*1-grams"),
    ("ngram 1=5", "ngram 1=4", "line 16: 5 1-grams end here, but the header announces 4"),
    ("ngram 2=3", "ngram 2=99999999999", "line 21: 3 2-grams end here, but the header announces 99,999,999,999"),
    ("\\2-grams:", "\\4-grams:", "line 16: expected .2-grams:, found '.*4-grams:'"),
    ("\\end\\\n", "", "the file ends within the n-grams"),
    ("\n\\3-grams:\n-0.05\t<s> a b\n", "", "line 21: expected .3-grams:, found '.*end"),
    ("-0.05\t<s> a b", "-0.05\t<s> c b", "line 22: the word 'c' is not in the 1-grams"),
    ("-0.05\t<s> a b", "-0.05\tb a b", "line 22: the n-gram begins with 'b a', which has no line of its own"),
    ("-0.05\t<s> a b", "-0.05\t<s> a", "line 22: expected a number, 3 words, found 3 fields"),
    ("-0.05\t<s> a b", "-0.05\t<s> a b -1", "line 22: expected a number, 3 words, found 5 fields"),
    ("-0.05\t<s> a b", "nan\t<s> a b", "line 22: expected a logarithm, found 'nan'"),
    ("-0.05\t<s> a b", "x\t<s> a b", "line 22: expected a logarithm, found 'x'"),
    ("-0.05\t<s> a b", "0.5\t<s> a b", "line 22: log p is 0.5, but the logarithm of a probability is at most 0"),
    ("a\t-0.5", "a\tinf", "line 13: the logarithm of a back-off weight is inf"),
    ("-0.6\tb -0.4", "-0.6\ta -0.4", "line 14: this n-gram is also on an earlier line"),
    ("<s> a\t-0.01", "b </s>", "line 19: this n-gram is also on an earlier line"),
    ("-0.7\t</s>", "-0.7\tend", "have no </s>"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN, ids=[str(number) for number in range(len(BROKEN))])
def test_what_is_wrong_is_told_by_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = SRILM.replace(old, new) if old else "hello\n"
    path = write(tmp_path / "a.arpa", text)
    with pytest.raises(DataError, match=message):
        read_arpa(path)


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arpa"
    path.write_bytes(b"x" * 100_000)
    with pytest.raises(DataError, match="line 1: the line is longer than"):
        read_arpa(path)
    path.write_bytes(SRILM.replace("\ta\t", "\t\udcff\t").encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match="line 13: 0xff is not UTF-8"):
        read_arpa(path)
    header = "".join(f"ngram {order}=1\n" for order in range(1, 40))
    with pytest.raises(DataError, match="order 39; orders above 20"):
        read_arpa(write(path, f"\\data\\\n{header}\n\\1-grams:\n"))
    path.write_bytes(gzip.compress(SRILM.encode())[:-20])
    with pytest.raises(DataError, match="damaged gzip"):
        read_arpa(path)
