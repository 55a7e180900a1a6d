"""Scores of captions, and attention against boxes, by hand."""

import numpy as np
import pytest

from calque.errors import DataError
from calque.evaluation.attention_boxes import (
    NamedAttention,
    SquareBox,
    cell_shares,
    mean_attention,
    named_attention,
    pieces_in_span,
)
from calque.evaluation.captions import score_captions
from calque.evaluation.metrics import bleu, chrf


def test_a_caption_matches_any_of_its_references() -> None:
    scores = score_captions(["a b c d e", "x y"], [["q", "a b c d e"], ["x y"]])
    assert scores.exact_match.value == 100 and scores.exact_match.signature == "exact|n:2"
    assert score_captions(["a", "b"], [["a"], ["c", "d"]]).exact_match.value == 50
    assert score_captions(["e\u0301"], [["\u00e9"]]).exact_match.value == 100


def test_one_reference_gives_the_scores_of_translation() -> None:
    captions = ["a red circle over a square", "a dog"]
    references = ["a red circle above a small square", "the dog"]
    scores = score_captions(captions, [[text] for text in references])
    assert scores.bleu.value == pytest.approx(bleu(captions, references))
    assert scores.chrf.value == pytest.approx(chrf(captions, references))


def test_more_references_never_lower_the_score_of_a_match() -> None:
    one = score_captions(["a red circle here"], [["a blue square there"]]).bleu.value
    assert score_captions(["a red circle here"], [["a blue square there", "a red circle here"]]).bleu.value > one


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(DataError, match="no images"):
        score_captions([], [])
    with pytest.raises(DataError, match="2 captions but references for 1"):
        score_captions(["a", "b"], [["a"]])


def test_shares_of_cells_add_up_to_the_area_of_the_box() -> None:
    generator = np.random.default_rng(0)
    for side in (1, 3, 8):
        for _ in range(20):
            (left, right), (top, bottom) = np.sort(generator.random((2, 2)), axis=1)
            shares = cell_shares(SquareBox(left, top, right, bottom), side=side)
            assert shares.shape == (side * side,) and shares.min() >= 0 and shares.max() <= 1 + 1e-12
            assert shares.sum() / side**2 == pytest.approx((right - left) * (bottom - top))
    fine = cell_shares(SquareBox(0.25, 0.5, 0.75, 1.0), side=4).reshape(4, 4)
    assert fine.tolist() == [[0] * 4, [0] * 4, [0, 1, 1, 0], [0, 1, 1, 0]]


def test_attention_that_is_the_same_everywhere_lies_inside_as_the_area_says() -> None:
    box = SquareBox(0.1, 0.2, 0.5, 0.9)
    found = named_attention(np.full((3, 16), 1 / 16), box, side=4)
    assert found.inside == pytest.approx(found.area) == pytest.approx(0.4 * 0.7)


def test_attention_to_one_cell_is_inside_or_outside() -> None:
    box = SquareBox(0.5, 0.0, 1.0, 0.5)  # the upper right quarter
    for cell, expected in enumerate([0, 1, 0, 0]):
        found = named_attention(np.eye(4)[[cell]], box, side=2)
        assert found == NamedAttention(expected, 0.25, bool(expected))
    both = named_attention(np.array([[0, 1, 0, 0], [0, 0, 1, 0]]), box, side=2)
    assert both.inside == 0.5
    assert named_attention(np.zeros((1, 4)), box, side=2).inside == 0


def test_attention_is_the_mean_over_words_relative_to_its_sum() -> None:
    """Local attention and dropped heads have weights that do not sum to 1."""
    box = SquareBox(0.5, 0.0, 1.0, 0.5)
    words = np.array([[0.1, 0.2, 0.0, 0.1], [0.0, 0.1, 0.3, 0.0]])
    assert named_attention(words, box, side=2).inside == pytest.approx(0.3 / 0.8)


def test_means_are_over_names() -> None:
    named = [NamedAttention(0.5, 0.1, True), NamedAttention(1.0, 0.3, False)]
    assert mean_attention(named) == pytest.approx((0.75, 0.2, 0.5, 2))
    assert mean_attention([]) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("span", "pieces"), [((0, 1), [0]), ((2, 5), [1]), ((6, 12), [2]), ((0, 12), [0, 1, 2]), ((4, 7), [1, 2])]
)
def test_pieces_of_a_span_share_characters_with_it(span, pieces) -> None:
    """a red circle: the space before a word belongs to the word."""
    assert pieces_in_span([1, 5, 12], span) == pieces
