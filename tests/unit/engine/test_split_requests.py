"""Long lines in parts: a prefix belongs to the first, a required phrase to the one its words are in."""

import pytest

from calque import Candidate, Request, SearchConfig, Translation
from calque.engine import Detail
from calque.engine.splitting import join, split_requests
from calque.text import Tokenizers
from calque.text.words import WordsConfig, WordsTokenizer

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


@pytest.mark.parametrize("lacks", [False, True])
def test_a_line_lacks_what_one_of_its_parts_lacks(tokenizer: WordsTokenizer, lacks: bool) -> None:
    parts = [Translation([Candidate("x", -1.0, -1.0, cut=True, missing_phrase=each)]) for each in (False, lacks, False)]
    assert join(parts, tokenizers=Tokenizers(tokenizer, tokenizer)).candidates[0].missing_phrase == lacks


def test_what_fits_stays_as_it_is(tokenizer: WordsTokenizer) -> None:
    requests = [Request("", "p", ("x",)), Request(" \t"), Request(" a b ", required=("x", "y"), places=(1, 3))]
    found = split_requests(requests, tokenizer=tokenizer, search=SearchConfig(source_limit=3))
    assert [(each.text, each.prefix, each.required) for each in found.requests] == [each[:3] for each in requests]


def test_parts_are_numbered_within_their_line(tokenizer: WordsTokenizer) -> None:
    requests = [Request("a b"), Request(TEXT), Request("")]
    found = split_requests(requests, tokenizer=tokenizer, search=SearchConfig(source_limit=3))
    assert [each.part for each in found.requests] == [0, 0, 1, 2, 3, 0]


def detail(source: str, target: str, links: list[tuple[int, int]], *, cut: bool = False) -> Translation:
    """An answer whose attention rests on the linked words, and on the end for the end."""
    pieces, theirs = target.split(), source.split()
    rows = [[1.0 if (one, word) in links else 0.0 for one in range(len(theirs))] + [0.0] for word in range(len(pieces))]
    rows += [] if cut else [[0.0] * len(theirs) + [1.0]]
    log_probs = [-float(place + 1) for place in range(len(rows))]
    told = Detail(theirs, pieces, log_probs, rows, links)
    return Translation([Candidate(target, -2.0, sum(log_probs), cut, len(rows), None, (), told)])


@pytest.mark.parametrize("cut", [False, True])
def test_the_details_of_parts_are_those_of_one_line(tokenizer: WordsTokenizer, cut: bool) -> None:
    """End marks stand between the parts, so that every log-probability and every column has its piece."""
    parts = [detail("a b", "x y z", [(1, 0), (0, 2)], cut=cut), detail("c", "", []), detail("d a", "w", [(1, 0)])]
    whole = join(parts, tokenizers=Tokenizers(tokenizer, tokenizer)).candidates[0]
    told = whole.detail
    assert told is not None
    assert whole.text == "x y z w"
    assert told.source == ["a", "b", "</s>", "c", "</s>", "d", "a"]
    assert told.pieces == ["x", "y", "z", *([] if cut else ["</s>"]), "</s>", "w"]
    assert told.alignment == [(1, 0), (0, 2), (4, 3)]
    assert told.log_probs == [value for part in parts for value in part.candidates[0].detail.log_probs]  # type: ignore[union-attr]
    assert sum(told.log_probs) == whole.log_prob
    assert whole.pieces == len(told.log_probs) == len(told.pieces) + 1
    assert told.attention is not None
    assert [len(row) for row in told.attention] == [len(told.source) + 1] * len(told.log_probs)
    assert [row.index(1.0) if 1.0 in row else None for row in told.attention] == [
        *[1, None, 0],
        *([] if cut else [2]),
        *[4, 6, 7],
    ]


def test_parts_without_attention_have_none_together(tokenizer: WordsTokenizer) -> None:
    told = Detail(["a"], ["x"], [-1.0, -1.0], None, None)
    part = Translation([Candidate("x", -2.0, -2.0, False, 2, None, (), told)])
    whole = join([part, part], tokenizers=Tokenizers(tokenizer, tokenizer)).candidates[0].detail
    assert whole == Detail(["a", "</s>", "a"], ["x", "</s>", "x"], [-1.0] * 4, None, None)
