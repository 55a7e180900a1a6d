"""Forbidden words never occur between boundaries, however they are segmented, and nothing else is forbidden."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.search.forbidden_automaton import ForbiddenAutomaton, Suffix, decode_bytes
from calque.search.forbidden_words import Forbidden, TextState

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
    """Whether a complete text contains the word: between boundaries, or anywhere in a script without spaces."""
    if "猫" in word:
        return word in text
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) is not None


def allowed(rule: Forbidden, tokens: list[int], *, size: int = len(SURFACES)) -> list[bool]:
    """Which tokens may follow these."""
    log_probs = rule.allow(torch.zeros(1, size), state_after(rule, [tokens]), sentence=torch.zeros(1, dtype=torch.long))
    return (log_probs[0] == 0).tolist()


def state_after(rule: Forbidden, rows: list[list[int]]) -> TextState:
    """The state after rows of equal length."""
    state = rule.start(len(rows), device=torch.device("cpu"))
    for tokens in zip(*rows, strict=True):
        state = rule.read(torch.tensor(tokens), state)
    return state


def is_over(text: str, word: str) -> bool:
    """Whether a text that may continue contains the word, including the boundary after it."""
    if "猫" in word:
        return word in text
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?=[\W_])", text) is not None


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.sampled_from(PIECES), max_size=6), word=st.sampled_from(["a", "ab", "aba", "猫", "狗猫"]))
def test_a_token_is_forbidden_if_and_only_if_it_completes_the_word(tokens: list[int], word: str) -> None:
    rule = Forbidden([word], surfaces=SURFACES)
    if is_over(spelled(tokens), word):
        return  # search does not reach this state
    for token, may in enumerate(allowed(rule, tokens)):
        text = spelled([*tokens, token]) if token != END else spelled(tokens)
        assert may == (not has(text, word) if token == END else not is_over(text, word)), (text, token)


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.sampled_from(PIECES), max_size=5), word=st.sampled_from(["a", "ab", "aba", "猫", "狗猫"]))
def test_what_is_cut_does_not_end_with_the_word(tokens: list[int], word: str) -> None:
    """At the maximum length no boundary can follow: a word at the end is complete."""
    rule = Forbidden([word], surfaces=SURFACES).with_maximum(torch.tensor([len(tokens) + 1]))
    later = Forbidden([word], surfaces=SURFACES).with_maximum(torch.tensor([len(tokens) + 2]))
    if is_over(spelled(tokens), word):
        return
    for token, may in enumerate(allowed(rule, tokens)):
        assert may == (not has(spelled([*tokens, token]), word)), (tokens, token)
    assert allowed(later, tokens) == allowed(Forbidden([word], surfaces=SURFACES), tokens)


def test_where_every_token_is_a_word_the_word_itself_is_forbidden() -> None:
    """It could not become a longer word, and no token could follow it."""
    rule = Forbidden(["dog"], surfaces=[b"", b" dog", b" cat", b"."])
    assert allowed(rule, [], size=4) == [True, False, True, True]


def test_where_every_token_is_a_word_the_last_word_of_a_phrase_is_forbidden() -> None:
    rule = Forbidden(["hot dog"], surfaces=[b"", b" hot", b" dog", b"."])
    assert allowed(rule, [1], size=4) == [True, True, False, True]
    assert allowed(rule, [2], size=4) == [True, True, True, True]


def test_several_words_and_a_longer_vocabulary() -> None:
    rule = Forbidden(["ab", "b"], surfaces=SURFACES)
    state = state_after(rule, [[4, 2], [1, 1]])  # " ab", "aa"
    log_probs = rule.allow(torch.zeros(2, len(SURFACES) + 3), state, sentence=torch.zeros(2, dtype=torch.long))
    assert log_probs[0, END] == -torch.inf
    assert log_probs[1, END] == 0
    assert log_probs[:, len(SURFACES) :].eq(0).all(), "words outside the vocabulary are unaffected"


@pytest.mark.parametrize("text", ["Straße", "naïve"])
def test_letters_of_several_bytes(text: str) -> None:
    surfaces = [b"", *(bytes([byte]) for byte in range(256))]
    rule = Forbidden([text], surfaces=surfaces)
    allowed_next = allowed(rule, [byte + 1 for byte in text.encode()], size=257)
    assert not allowed_next[END]
    assert not allowed_next[ord(" ") + 1]
    assert allowed_next[ord("n") + 1], "a longer word is allowed"


SPELLED = [b"", *(bytes([byte]) for byte in "aä €.".encode()), b" a", b"a.", b"..", "ä".encode(), "€a".encode()]
WORDS = ["a", "ä", "aä", "a.", "a ä", "€", "ää"]


def contains(text: str, word: str, *, ended: bool) -> bool:
    """Whether a text contains a word with boundaries; if it `ended`, its end is a boundary."""
    boundary = "(?![^\\W_])" if ended else "(?=[\\W_])"
    return re.search(rf"(?<![^\W_]){re.escape(word)}{boundary}", text) is not None


@settings(max_examples=400, deadline=None)
@given(
    tokens=st.lists(st.integers(1, len(SPELLED) - 1), max_size=7),
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
)
def test_characters_in_bytes_and_words_with_marks(tokens: list[int], words: list[str]) -> None:
    """Against the decoded text: invalid bytes decode to U+FFFD, which is a word boundary."""

    def is_forbidden(surfaces: bytes, *, ended: bool) -> bool:
        text = surfaces.decode(errors="replace") if ended else decode_bytes(b"", surfaces).text
        return any(contains(text, word, ended=ended) for word in words)

    spelt = b"".join(SPELLED[token] for token in tokens)
    if is_forbidden(spelt, ended=False):
        return  # search does not reach this state
    rule = Forbidden(words, surfaces=SPELLED)
    last = rule.with_maximum(torch.tensor([len(tokens) + 1]))
    size = len(SPELLED)
    rows = zip(allowed(rule, tokens, size=size), allowed(last, tokens, size=size), SPELLED, strict=True)
    for token, (may, may_end, surface) in enumerate(rows):
        assert may == (not is_forbidden(spelt + surface, ended=token == END)), (spelt, surface)
        assert may_end == (not is_forbidden(spelt + surface, ended=True)), (spelt, surface)


@settings(max_examples=300, deadline=None)
@given(
    tokens=st.lists(st.integers(1, len(SPELLED) - 1), max_size=9),
    words=st.lists(st.sampled_from([*WORDS, "猫a"]), min_size=1, max_size=3),
)
def test_the_suffix_of_a_text_determines_as_much_as_the_whole_text(tokens: list[int], words: list[str]) -> None:
    rule, suffix = ForbiddenAutomaton(words, surfaces=SPELLED), Suffix()
    for token in tokens:
        suffix = rule.suffix(suffix, SPELLED[token])
    whole = decode_bytes(b"", b"".join(SPELLED[token] for token in tokens))
    assert (rule.after(suffix), rule.after_last(suffix)) == (rule.after(whole), rule.after_last(whole))
    assert len(suffix.text) <= max(map(len, words)) + 1


def test_texts_share_their_suffixes_and_each_is_processed_once() -> None:
    """The work grows with the words' prefixes, not with the texts."""
    rule = Forbidden(["aba", "bb"], surfaces=SURFACES)
    pieces = torch.Generator().manual_seed(1)
    state = rule.start(200, device=torch.device("cpu"))
    for _ in range(50):
        rule.allow(torch.zeros(200, len(SURFACES)), state, sentence=state.sentence)
        state = rule.read(torch.randint(1, len(SURFACES), (200,), generator=pieces), state)
    assert len(rule.suffixes) <= 2 * (3 + 2 + 1) + 1  # a prefix, after a boundary or at the start of the text
    assert rule.words.after.cache_info().misses <= len(rule.suffixes)


@settings(max_examples=100, deadline=None)
@given(tokens=st.lists(st.sampled_from([1, 4, 7, 14, 15]), max_size=5), word=st.sampled_from(["a", "ab", "cab"]))
def test_copied_words_are_matched_too(tokens: list[int], word: str) -> None:
    """Each sentence has its own; they are whole words, so that a copy may not even start a forbidden word."""
    unknown = [[b" x"], [b" ab", b" cab"]]
    rule = Forbidden([word], surfaces=SURFACES).with_copied_words(unknown)
    texts = {place: SURFACES[place] for place in range(len(SURFACES))} | {14: b" ab", 15: b" cab"}
    text = b"".join(texts[token] for token in tokens).decode()
    if is_over(text, word):
        return
    state = state_after(rule, [[1] * len(tokens), tokens])
    may_follow = rule.allow(torch.zeros(2, 16), state, sentence=torch.tensor([0, 1]))[1] == 0
    for token in (14, 15):
        copied = texts[token].decode()
        assert bool(may_follow[token]) == (not is_over(text + copied, word) and copied.strip() != word), (text, copied)
    assert may_follow[END] == (not has(text, word))
