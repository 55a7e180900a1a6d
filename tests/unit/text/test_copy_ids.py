"""Ids of out-of-vocabulary words: source to target and back."""

from hypothesis import given
from hypothesis import strategies as st

from calque.text import (
    UNK,
    BytesTokenizer,
    CharactersConfig,
    CharactersTokenizer,
    TokensConfig,
    TokensTokenizer,
    WordsConfig,
    WordsTokenizer,
    number_source,
    number_target,
)

WORDS = WordsTokenizer.train(WordsConfig(), lines=["the cat sat", "on the mat ."])
SIZE = len(WORDS.vocabulary)
TEXTS = st.lists(st.sampled_from(["the", "cat", "Zork", "Quux", "mat", "Blorb"]), min_size=1).map(" ".join)


def test_unknown_words_are_numbered_by_first_occurrence() -> None:
    (source,) = number_source(WORDS, ["Zork the Quux Zork"])
    assert source.unknown == ("Zork", "Quux")
    assert source.ids == [SIZE, WORDS.vocabulary.id("the"), SIZE + 1, SIZE]


def test_a_target_uses_its_sources_numbers() -> None:
    sources = number_source(WORDS, ["Quux Zork", "the cat"])
    targets = number_target(WORDS, ["Zork sat Blorb", "Zork sat"], sources=sources)
    assert targets == [[SIZE + 1, WORDS.vocabulary.id("sat"), UNK], [UNK, WORDS.vocabulary.id("sat")]]


@given(TEXTS)
def test_a_source_survives_a_round_trip(text: str) -> None:
    (source,) = number_source(WORDS, [text])
    assert WORDS.decode(source.ids, unknown=source.unknown) == text


@given(TEXTS)
def test_with_copy_ids_replaced_by_unk_it_is_the_plain_encoding(text: str) -> None:
    (source,) = number_source(WORDS, [text])
    assert [UNK if id >= SIZE else id for id in source.ids] == WORDS.encode(text)


def test_characters_can_be_unknown_and_bytes_cannot() -> None:
    characters = CharactersTokenizer.train(CharactersConfig(), lines=["abc"])
    (opened,) = number_source(characters, ["cab日"])
    assert opened.unknown == ("日",)
    (closed,) = number_source(BytesTokenizer(), ["cab日"])
    assert closed.unknown == ()


def test_a_token_that_says_it_is_unknown_has_no_number() -> None:
    tokens = TokensTokenizer.train(TokensConfig(), lines=["the cat"])
    (opened,) = number_source(tokens, ["the <unk> Zork <unk> <s>"])
    size = len(tokens.vocabulary)
    assert opened.ids == [tokens.vocabulary.id("the"), UNK, size, UNK, size + 1]
    assert tokens.decode(opened.ids, unknown=opened.unknown) == "the <unk> Zork <unk> <s>"
