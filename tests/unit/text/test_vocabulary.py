import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.errors import TextError
from calque.text import BOS, EOS, PAD, PIECES, UNK, Vocabulary

others = st.lists(
    st.text(st.characters(exclude_categories=["Cs"])).filter(lambda piece: piece not in PIECES), unique=True
)


def test_special_pieces_come_first():
    vocabulary = Vocabulary([*PIECES, "a"])
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert [vocabulary.id(piece) for piece in ("<pad>", "<s>", "</s>", "<unk>", "a")] == [0, 1, 2, 3, 4]
    assert vocabulary.id("b") == UNK and vocabulary.ids("ab") == [4, UNK]
    assert "a" in vocabulary and "b" not in vocabulary and len(vocabulary) == 5


@given(others)
def test_ids_and_pieces_are_inverse(pieces):
    vocabulary = Vocabulary([*PIECES, *pieces])
    assert vocabulary.pieces == (*PIECES, *pieces)
    assert [vocabulary.id(piece) for piece in vocabulary.pieces] == list(range(len(vocabulary)))
    assert [vocabulary.piece(id) for id in range(len(vocabulary))] == list(vocabulary.pieces)


@given(others)
def test_serialisation_is_lossless(pieces):
    vocabulary = Vocabulary([*PIECES, *pieces])
    read = Vocabulary.from_bytes(vocabulary.to_bytes())
    assert read == vocabulary and hash(read) == hash(vocabulary)


def test_save_and_load(tmp_path):
    vocabulary = Vocabulary([*PIECES, "\n", "\r\n", "\u2028", "", '"', "é"])
    vocabulary.save(tmp_path / "v")
    assert Vocabulary.load(tmp_path / "v") == vocabulary != Vocabulary(PIECES)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'"<pad>"\n', b"\xff", b'"a"\n', b"{}\n" * 5, b"[" * 100_000, b"1\n2\n3\n4\n"]
)
def test_an_invalid_vocabulary_is_rejected_with_its_file(tmp_path, content):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(TextError, match=str(tmp_path / "v")):
        Vocabulary.load(tmp_path / "v")


def test_lone_surrogates_in_a_file_are_rejected():
    with pytest.raises(TextError, match="surrogates"):
        Vocabulary.from_bytes(Vocabulary(PIECES).to_bytes() + rb'"\ud800"')


def test_a_missing_file_is_reported_by_name(tmp_path):
    with pytest.raises(TextError, match="nowhere"):
        Vocabulary.load(tmp_path / "nowhere")


def test_wrong_pieces_are_rejected():
    with pytest.raises(TextError, match="starts with"):
        Vocabulary(["a", *PIECES])
    with pytest.raises(TextError, match="'b' occurs more than once"):
        Vocabulary([*PIECES, "a", "b", "c", "b"])
    with pytest.raises(TextError, match="'<s>' occurs more than once"):
        Vocabulary([*PIECES, "<s>"])


def test_ids_out_of_range_are_rejected():
    for id in (-1, 4):
        with pytest.raises(IndexError):
            Vocabulary(PIECES).piece(id)


def test_a_vocabulary_is_immutable():
    with pytest.raises(AttributeError):
        Vocabulary(PIECES).pieces = ()  # type: ignore[misc]


def test_the_most_frequent_pieces_fill_the_size():
    counts = {"rare": 1, "b": 5, "a": 5, "c": 9, "seldom": 2}
    assert Vocabulary.from_counts(counts, size=7).pieces[4:] == ("c", "a", "b")
    assert Vocabulary.from_counts(counts, size=99, minimum_count=2).pieces[4:] == ("c", "a", "b", "seldom")
    assert len(Vocabulary.from_counts(counts, size=4)) == 4
