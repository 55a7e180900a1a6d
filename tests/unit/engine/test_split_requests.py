"""Long lines in parts: a prefix belongs to the first part, a required phrase to the part with its words."""

import pytest

from calque import Candidate, Request, Translation
from calque.engine import Detail
from calque.engine.splitting import join, split_request
from calque.text import EOS, Tokenizers
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
    parts = split_request(request, tokenizer=tokenizer, limit=3)
    assert [part.text for part in parts] == ["a b.", "a c.", "a a d", "a b"]
    assert [part.prefix for part in parts] == ["p", "", "", ""]
    required = [part.required for part in parts]
    assert "x" in required[home]
    assert "y" in required[3]
    assert sum(map(len, required)) == 2


def test_a_phrase_without_a_place_belongs_to_the_first_part(tokenizer: WordsTokenizer) -> None:
    request = Request(TEXT, required=("x", "y"))
    parts = split_request(request, tokenizer=tokenizer, limit=3)
    assert [part.required for part in parts] == [("x", "y"), (), (), ()]


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_phrase_missing_from_a_part_is_missing_from_the_line(tokenizer: WordsTokenizer, is_missing: bool) -> None:
    parts = [
        Translation([Candidate("x", -1.0, -1.0, cut=True, missing_phrase=missing_phrase)])
        for missing_phrase in (False, is_missing, False)
    ]
    assert join(parts, tokenizers=Tokenizers(tokenizer, tokenizer)).candidates[0].missing_phrase == is_missing


def test_a_request_that_fits_is_not_changed(tokenizer: WordsTokenizer) -> None:
    requests = [Request("", "p", ("x",)), Request(" \t"), Request(" a b ", required=("x", "y"), places=(1, 3))]
    for request in requests:
        (part,) = split_request(request, tokenizer=tokenizer, limit=3)
        assert part[:3] == request[:3]


def translation_with_detail(
    source: str, target: str, links: list[tuple[int, int]], *, cut: bool = False
) -> Translation:
    """A translation whose words attend to the linked source words, and whose end attends to the source's end."""
    pieces, source_pieces = target.split(), source.split()
    rows = [[1.0 if (i, j) in links else 0.0 for i in range(len(source_pieces))] + [0.0] for j in range(len(pieces))]
    rows += [] if cut else [[0.0] * len(source_pieces) + [1.0]]
    log_probs = [-float(place + 1) for place in range(len(rows))]
    detail = Detail(source_pieces, pieces, log_probs, rows, links)
    return Translation([Candidate(target, -2.0, sum(log_probs), cut, len(rows), None, (), detail)])


@pytest.mark.parametrize("cut", [False, True])
def test_the_details_of_parts_are_joined(tokenizer: WordsTokenizer, cut: bool) -> None:
    """End marks separate the parts, so that every log-probability and every column has a piece."""
    parts = [
        translation_with_detail("a b", "x y z", [(1, 0), (0, 2)], cut=cut),
        translation_with_detail("c", "", []),
        translation_with_detail("d a", "w", [(1, 0)]),
    ]
    whole = join(parts, tokenizers=Tokenizers(tokenizer, tokenizer)).candidates[0]
    detail = whole.detail
    assert detail is not None
    assert whole.text == "x y z w"
    assert detail.source == ["a", "b", "</s>", "c", "</s>", "d", "a"]
    assert detail.pieces == ["x", "y", "z", *([] if cut else ["</s>"]), "</s>", "w"]
    assert detail.alignment == [(1, 0), (0, 2), (4, 3)]
    assert detail.log_probs == [value for part in parts for value in part.candidates[0].detail.log_probs]  # type: ignore[union-attr]
    assert sum(detail.log_probs) == whole.log_prob
    assert whole.pieces == len(detail.log_probs) == len(detail.pieces) + 1
    assert detail.attention is not None
    assert [len(row) for row in detail.attention] == [len(detail.source) + 1] * len(detail.log_probs)
    assert [row.index(1.0) if 1.0 in row else None for row in detail.attention] == [
        *[1, None, 0],
        *([] if cut else [2]),
        *[4, 6, 7],
    ]


def test_parts_without_attention_have_none_joined(tokenizer: WordsTokenizer) -> None:
    detail = Detail(["a"], ["x"], [-1.0, -1.0], None, None, (7,))
    part = Translation([Candidate("x", -2.0, -2.0, False, 2, None, (), detail)])
    whole = join([part, part], tokenizers=Tokenizers(tokenizer, tokenizer)).candidates[0].detail
    assert whole == Detail(["a", "</s>", "a"], ["x", "</s>", "x"], [-1.0] * 4, None, None, (7, EOS, 7))
