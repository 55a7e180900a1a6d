"""Long lines in parts: a prefix belongs to the first, a required phrase to the one its words are in."""

import pytest

from calque import Request, SearchConfig
from calque.text.words import WordsConfig, WordsTokenizer
from calque.translator.splitting import split_requests

TEXT = "  a b. a c. a a d a b"


@pytest.fixture
def tokenizer() -> WordsTokenizer:
    return WordsTokenizer.train(WordsConfig(), lines=[TEXT] * 5)


@pytest.mark.parametrize(
    ("place", "home"), [(0, 0), (2, 0), (5, 0), (7, 1), (9, 1), (12, 2), (16, 2), (18, 3), (20, 3)]
)
def test_a_phrase_goes_with_its_words(tokenizer: WordsTokenizer, place: int, home: int) -> None:
    request = Request(TEXT, "p", ("x", "y"), (place, 18))
    found = split_requests([Request("a b"), request], tokenizer=tokenizer, search=SearchConfig(source_limit=3))
    assert found.counts == [1, 4]
    assert [each.text for each in found.requests] == ["a b", "a b.", "a c.", "a a d", "a b"]
    assert [each.prefix for each in found.requests[1:]] == ["p", "", "", ""]
    asked = [each.required for each in found.requests[1:]]
    assert "x" in asked[home]
    assert "y" in asked[3]
    assert sum(map(len, asked)) == 2


def test_a_phrase_of_no_known_place_is_said_at_the_beginning(tokenizer: WordsTokenizer) -> None:
    request = Request(TEXT, required=("x", "y"))
    found = split_requests([request], tokenizer=tokenizer, search=SearchConfig(source_limit=3))
    assert [each.required for each in found.requests] == [("x", "y"), (), (), ()]


def test_what_fits_stays_as_it_is(tokenizer: WordsTokenizer) -> None:
    requests = [Request("", "p", ("x",)), Request(" \t"), Request(" a b ", required=("x", "y"), places=(1, 3))]
    found = split_requests(requests, tokenizer=tokenizer, search=SearchConfig(source_limit=3))
    assert [(each.text, each.prefix, each.required) for each in found.requests] == [each[:3] for each in requests]
