"""Forbidden words: never spelled between boundaries, however they are cut, and nothing else is lost."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.search.forbidden import Forbidden

END = 0
SURFACES = [
    b"",
    b"a",
    b"b",
    b"ab",
    b" a",
    b" b",
    b" ",
    b".",
    b"ba",
    b"a.",
    b" ab",
    b"a b",
    "猫".encode(),
    "狗猫".encode(),
]
PIECES = range(1, len(SURFACES))


def spelled(tokens: list[int]) -> str:
    return b"".join(SURFACES[token] for token in tokens).decode()


def has(text: str, word: str) -> bool:
    """Whether the word stands in a whole text: between boundaries, or anywhere where words have no spaces."""
    if "猫" in word:
        return word in text
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) is not None


def allowed(rule: Forbidden, tokens: list[int]) -> list[bool]:
    """Which tokens may come after these."""
    state = rule.start(1, device=torch.device("cpu"))
    for token in tokens:
        state = rule.read(torch.tensor([token]), state)
    found = rule.allow(torch.zeros(1, len(SURFACES)), state, sentence=torch.zeros(1, dtype=torch.long))
    return (found[0] == 0).tolist()


def is_over(text: str, word: str) -> bool:
    """Whether the word stands in a text that may go on: its boundary must be there already."""
    if "猫" in word:
        return word in text
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?=[\W_])", text) is not None


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.sampled_from(PIECES), max_size=6), word=st.sampled_from(["a", "ab", "aba", "猫", "狗猫"]))
def test_a_token_is_forbidden_if_and_only_if_it_completes_the_word(tokens: list[int], word: str) -> None:
    rule = Forbidden([word], surfaces=SURFACES, end=END)
    if is_over(spelled(tokens), word):
        return  # search would not have come here
    for token, may in enumerate(allowed(rule, tokens)):
        text = spelled([*tokens, token]) if token != END else spelled(tokens)
        assert may == (not has(text, word) if token == END else not is_over(text, word)), (text, token)


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.sampled_from(PIECES), max_size=5), word=st.sampled_from(["a", "ab", "aba", "猫", "狗猫"]))
def test_what_is_cut_does_not_end_with_the_word(tokens: list[int], word: str) -> None:
    """At the maximum length there is no boundary to come: what stands at the end is said."""
    rule = Forbidden([word], surfaces=SURFACES, end=END).within(torch.tensor([len(tokens) + 1]))
    later = Forbidden([word], surfaces=SURFACES, end=END).within(torch.tensor([len(tokens) + 2]))
    if is_over(spelled(tokens), word):
        return
    for token, may in enumerate(allowed(rule, tokens)):
        assert may == (not has(spelled([*tokens, token]), word)), (tokens, token)
    assert allowed(later, tokens) == allowed(Forbidden([word], surfaces=SURFACES, end=END), tokens)


def test_where_every_token_is_a_word_it_is_forbidden_before_it_is_said() -> None:
    """It could not go on to a longer word, and nothing could be said after it."""
    rule = Forbidden(["dog"], surfaces=[b"", b" dog", b" cat", b"."], end=END)
    found = rule.allow(torch.zeros(1, 4), torch.zeros(1, 0, dtype=torch.long), sentence=torch.tensor([0]))
    assert found.eq(-torch.inf).tolist() == [[False, True, False, False]]


def test_several_words_and_a_longer_vocabulary() -> None:
    rule = Forbidden(["ab", "b"], surfaces=SURFACES, end=END)
    state = torch.tensor([[4, 2], [1, 1]])  # " ab", "aa"
    found = rule.allow(torch.zeros(2, len(SURFACES) + 3), state, sentence=torch.zeros(2, dtype=torch.long))
    assert found[0, END] == -torch.inf
    assert found[1, END] == 0
    assert found[:, len(SURFACES) :].eq(0).all(), "words outside the vocabulary are not known to it"


@pytest.mark.parametrize("text", ["Straße", "naïve"])
def test_letters_of_several_bytes(text: str) -> None:
    surfaces = [b"", *(bytes([byte]) for byte in range(256))]
    rule = Forbidden([text], surfaces=surfaces, end=END)
    state = torch.tensor([[byte + 1 for byte in text.encode()]])
    found = rule.allow(torch.zeros(1, 257), state, sentence=torch.zeros(1, dtype=torch.long))[0]
    assert found[END] == -torch.inf
    assert found[ord(" ") + 1] == -torch.inf
    assert found[ord("n") + 1] == 0, "a longer word may go on"
