"""Forbidden words: never spelled between boundaries, however they are cut, and nothing else is lost."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.search.forbidden_automaton import Ending, Words, added
from calque.search.forbidden_words import Forbidden, Said

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


def allowed(rule: Forbidden, tokens: list[int], *, size: int = len(SURFACES)) -> list[bool]:
    """Which tokens may come after these."""
    found = rule.allow(torch.zeros(1, size), said(rule, [tokens]), sentence=torch.zeros(1, dtype=torch.long))
    return (found[0] == 0).tolist()


def said(rule: Forbidden, rows: list[list[int]]) -> Said:
    """The state after rows of equal length."""
    state = rule.start(len(rows), device=torch.device("cpu"))
    for tokens in zip(*rows, strict=True):
        state = rule.read(torch.tensor(tokens), state)
    return state


def is_over(text: str, word: str) -> bool:
    """Whether the word stands in a text that may go on: its boundary must be there already."""
    if "猫" in word:
        return word in text
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?=[\W_])", text) is not None


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.sampled_from(PIECES), max_size=6), word=st.sampled_from(["a", "ab", "aba", "猫", "狗猫"]))
def test_a_token_is_forbidden_if_and_only_if_it_completes_the_word(tokens: list[int], word: str) -> None:
    rule = Forbidden([word], surfaces=SURFACES)
    if is_over(spelled(tokens), word):
        return  # search would not have come here
    for token, may in enumerate(allowed(rule, tokens)):
        text = spelled([*tokens, token]) if token != END else spelled(tokens)
        assert may == (not has(text, word) if token == END else not is_over(text, word)), (text, token)


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.sampled_from(PIECES), max_size=5), word=st.sampled_from(["a", "ab", "aba", "猫", "狗猫"]))
def test_what_is_cut_does_not_end_with_the_word(tokens: list[int], word: str) -> None:
    """At the maximum length there is no boundary to come: what stands at the end is said."""
    rule = Forbidden([word], surfaces=SURFACES).within(torch.tensor([len(tokens) + 1]))
    later = Forbidden([word], surfaces=SURFACES).within(torch.tensor([len(tokens) + 2]))
    if is_over(spelled(tokens), word):
        return
    for token, may in enumerate(allowed(rule, tokens)):
        assert may == (not has(spelled([*tokens, token]), word)), (tokens, token)
    assert allowed(later, tokens) == allowed(Forbidden([word], surfaces=SURFACES), tokens)


def test_where_every_token_is_a_word_it_is_forbidden_before_it_is_said() -> None:
    """It could not go on to a longer word, and nothing could be said after it."""
    rule = Forbidden(["dog"], surfaces=[b"", b" dog", b" cat", b"."])
    assert allowed(rule, [], size=4) == [True, False, True, True]


def test_where_every_token_is_a_word_so_are_the_last_of_several() -> None:
    rule = Forbidden(["hot dog"], surfaces=[b"", b" hot", b" dog", b"."])
    assert allowed(rule, [1], size=4) == [True, True, False, True]
    assert allowed(rule, [2], size=4) == [True, True, True, True]


def test_several_words_and_a_longer_vocabulary() -> None:
    rule = Forbidden(["ab", "b"], surfaces=SURFACES)
    state = said(rule, [[4, 2], [1, 1]])  # " ab", "aa"
    found = rule.allow(torch.zeros(2, len(SURFACES) + 3), state, sentence=torch.zeros(2, dtype=torch.long))
    assert found[0, END] == -torch.inf
    assert found[1, END] == 0
    assert found[:, len(SURFACES) :].eq(0).all(), "words outside the vocabulary are not known to it"


@pytest.mark.parametrize("text", ["Straße", "naïve"])
def test_letters_of_several_bytes(text: str) -> None:
    surfaces = [b"", *(bytes([byte]) for byte in range(256))]
    rule = Forbidden([text], surfaces=surfaces)
    found = allowed(rule, [byte + 1 for byte in text.encode()], size=257)
    assert not found[END]
    assert not found[ord(" ") + 1]
    assert found[ord("n") + 1], "a longer word may go on"


SPELLED = [b"", *(bytes([byte]) for byte in "aä €.".encode()), b" a", b"a.", b"..", "ä".encode(), "€a".encode()]
WORDS = ["a", "ä", "aä", "a.", "a ä", "€", "ää"]


def is_said(text: str, word: str, *, ended: bool) -> bool:
    """Whether a word with boundaries stands in a text: by its end, or by then."""
    after = "(?![^\\W_])" if ended else "(?=[\\W_])"
    return re.search(rf"(?<![^\W_]){re.escape(word)}{after}", text) is not None


@settings(max_examples=400, deadline=None)
@given(
    tokens=st.lists(st.integers(1, len(SPELLED) - 1), max_size=7),
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
)
def test_characters_in_bytes_and_words_with_marks(tokens: list[int], words: list[str]) -> None:
    """Against what a reader sees of the bytes: what is no character reads as U+FFFD, and parts words."""

    def over(surfaces: bytes, *, ended: bool) -> bool:
        text = surfaces.decode(errors="replace") if ended else added(b"", surfaces).text
        return any(is_said(text, word, ended=ended) for word in words)

    spelt = b"".join(SPELLED[token] for token in tokens)
    if over(spelt, ended=False):
        return  # search would not have come here
    rule = Forbidden(words, surfaces=SPELLED)
    last = rule.within(torch.tensor([len(tokens) + 1]))
    size = len(SPELLED)
    rows = zip(allowed(rule, tokens, size=size), allowed(last, tokens, size=size), SPELLED, strict=True)
    for token, (may, may_at_last, surface) in enumerate(rows):
        assert may == (not over(spelt + surface, ended=token == END)), (spelt, surface)
        assert may_at_last == (not over(spelt + surface, ended=True)), (spelt, surface)


@settings(max_examples=300, deadline=None)
@given(
    tokens=st.lists(st.integers(1, len(SPELLED) - 1), max_size=9),
    words=st.lists(st.sampled_from([*WORDS, "猫a"]), min_size=1, max_size=3),
)
def test_the_ending_of_a_text_says_as_much_as_all_of_it(tokens: list[int], words: list[str]) -> None:
    rule, ending = Words(words, surfaces=SPELLED), Ending()
    for token in tokens:
        ending = rule.ending(ending, SPELLED[token])
    whole = added(b"", b"".join(SPELLED[token] for token in tokens))
    assert (rule.after(ending), rule.after_at_last(ending)) == (rule.after(whole), rule.after_at_last(whole))
    assert len(ending.text) <= max(map(len, words)) + 1


def test_texts_share_their_endings_and_each_is_looked_at_once() -> None:
    """The work grows with the words' truncate, not with what is said."""
    rule = Forbidden(["aba", "bb"], surfaces=SURFACES)
    pieces = torch.Generator().manual_seed(1)
    state = rule.start(200, device=torch.device("cpu"))
    for _ in range(50):
        rule.allow(torch.zeros(200, len(SURFACES)), state, sentence=state.sentence)
        state = rule.read(torch.randint(1, len(SURFACES), (200,), generator=pieces), state)
    assert len(rule.endings) <= 2 * (3 + 2 + 1) + 1  # a beginning, after a boundary or the text's own
    assert rule.words.after.cache_info().misses <= len(rule.endings)


@settings(max_examples=100, deadline=None)
@given(tokens=st.lists(st.sampled_from([1, 4, 7, 14, 15]), max_size=5), word=st.sampled_from(["a", "ab", "cab"]))
def test_copied_words_are_spelled_too(tokens: list[int], word: str) -> None:
    """Each sentence has its own; what it copies is whole, so that a forbidden word is not even begun by a copy."""
    unknown = [[b" x"], [b" ab", b" cab"]]
    rule = Forbidden([word], surfaces=SURFACES).beside(unknown)
    texts = {place: SURFACES[place] for place in range(len(SURFACES))} | {14: b" ab", 15: b" cab"}
    text = b"".join(texts[token] for token in tokens).decode()
    if is_over(text, word):
        return
    state = said(rule, [[1] * len(tokens), tokens])
    found = rule.allow(torch.zeros(2, 16), state, sentence=torch.tensor([0, 1]))[1] == 0
    for token in (14, 15):
        copied = texts[token].decode()
        assert bool(found[token]) == (not is_over(text + copied, word) and copied.strip() != word), (text, copied)
    assert found[END] == (not has(text, word))
