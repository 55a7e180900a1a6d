"""Tokens between white space: their vocabulary, the special ones, and characters that none of them has."""

import time

import pytest
from pydantic import ValidationError

from calque.errors import TextError
from calque.text import PIECES, UNK, TokensConfig, TokensTokenizer


def tokens(*lines: str, **config) -> TokensTokenizer:
    return TokensTokenizer.train(TokensConfig(**config), lines=lines)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Don't (panic)!", ["Don't", "(panic)!"]),
        ("  a   b ", ["a", "b"]),
        ("a\tb\xa0c\u2028d\x85e\u3000f\ng", list("abcdefg")),  # no token holds what might end a line
        ("Cafe\u0301 CAFÉ ﬁ", ["Cafe\u0301", "CAFÉ", "ﬁ"]),  # neither composed nor lower-cased
        ("<unk> <UNK> <unk>s", ["<unk>", "<UNK>", "<unk>s"]),
        ("<s> </s> <pad> <s>.", ["␛<s>", "␛</s>", "␛<pad>", "<s>."]),
        ("␛<s> ␛␛<pad> ␛ ␛a ␛<unk>", ["␛␛<s>", "␛␛␛<pad>", "␛", "␛a", "␛<unk>"]),
    ],
)
def test_what_stands_between_white_space_is_a_token(text: str, pieces: list[str]) -> None:
    learnt = tokens("x")
    assert learnt.tokenise(text) == pieces
    assert learnt.detokenise(pieces) == " ".join(text.split())


def test_the_unknown_token_is_the_unknown_piece() -> None:
    learnt = tokens("the <unk> cat <unk> <unk>", "the dog")
    assert learnt.vocabulary.pieces == (*PIECES, "the", "cat", "dog")
    assert learnt.encode("the <unk> bird") == [4, UNK, UNK]
    assert learnt.decode([4, UNK, 5]) == "the <unk> cat"


def test_other_special_pieces_in_a_text_are_words_like_any_other() -> None:
    text = "<s> a </s> <pad>"
    for learnt in (tokens(text), tokens("a")):
        ids = learnt.encode(text)
        assert not {0, 1, 2} & set(ids)
        assert learnt.decode([1, *ids, 2, 0]) == (text if len(learnt.vocabulary) > 5 else "<unk> a <unk> <unk>")
    assert tokens(text).surfaces()[len(PIECES) :] == [f" {token}".encode() for token in ("a", "</s>", "<pad>", "<s>")]


def test_every_token_begins_a_word() -> None:
    learnt = tokens("a ! 's @-@ 你好 <s>")
    assert all(map(learnt.starts_word, learnt.vocabulary.pieces[len(PIECES) :]))


def test_the_most_frequent_tokens_are_learnt_in_any_order_of_lines() -> None:
    lines = ["b a c c", "a c d", "e é <unk> <unk> <unk> <unk>"]
    assert tokens(*lines).vocabulary.pieces[4:] == ("c", "a", "b", "d", "e", "é")
    learnt = tokens(*lines, vocabulary_size=7)
    assert learnt.vocabulary.pieces[4:] == ("c", "a", "b")
    assert tokens(*lines[::-1], vocabulary_size=7).vocabulary == learnt.vocabulary
    assert tokens(*lines, minimum_count=2).vocabulary.pieces[4:] == ("c", "a")


def test_a_vocabulary_without_room_is_refused() -> None:
    with pytest.raises(ValidationError, match="vocabulary_size"):
        TokensConfig(vocabulary_size=4)


def test_characters_that_no_token_has() -> None:
    """Those of `<unk>` are not among them, and neither is white space."""
    learnt = tokens("the cat <s>")
    assert learnt.unknown_characters("that \t\u3000 dog, <unk> dad") == {"d": 3, "o": 1, "g": 1, ",": 1}
    assert tokens("e\u0301").unknown_characters("e\u0301 \u00e9") == {"\u00e9": 1}  # what is not composed stays apart
    assert tokens("the cat").unknown_characters("<unk><unk>") == {"<": 2, "u": 2, "n": 2, "k": 2, ">": 2}


@pytest.mark.parametrize("lines", [["", " \t"], ["<unk>", "<unk> <unk>"]])
def test_a_corpus_without_tokens_is_refused(lines: list[str]) -> None:
    with pytest.raises(TextError, match="nothing to learn tokens from"):
        tokens(*lines)


def test_a_long_token_takes_linear_time() -> None:
    start = time.perf_counter()
    assert len(tokens("x").tokenise("␛" * 2_000_000 + "<s> x")) == 2
    assert time.perf_counter() - start < 5
