"""Pictures of beam trees: long searches fit a page."""

import pytest

from calque.inspection.beam_tree import ROOT, BeamTree, TreeCandidate, TreeStep
from calque.inspection.beam_view import BeamView
from calque.inspection.pictures import STEPS_PER_ROW, draw_beam
from calque.search.scoring import Scoring


def chain(steps: int) -> BeamView:
    """A search that keeps one hypothesis and drops one candidate at every step."""
    tree = []
    for number in range(steps):
        kept = TreeCandidate(2 * number + 1, 2 * number - 1 if number else ROOT, number, -float(number), "kept")
        dropped = kept._replace(id=2 * number + 2, token=number, log_prob=-99.0, fate="dropped", reason="rank")
        tree.append(TreeStep(number + 1, [kept, dropped], None, None))
    pieces = {number: f"piece{number}" for number in range(steps)}
    answer = [2 * number + 1 for number in range(steps)]
    return BeamView(1, 1, BeamTree(tree, "maximum", Scoring()), pieces, answer, [], [])


@pytest.mark.parametrize("steps", [5, 12, 13, 60])
def test_a_beam_tree_is_as_wide_as_one_row_of_steps(steps: int) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    figure = figure_module.Figure()
    draw_beam(figure, chain(steps))
    width, height = figure.get_size_inches()
    assert width <= 1 + 1.15 * min(steps, STEPS_PER_ROW) + 0.01
    rows = -(-steps // STEPS_PER_ROW)
    assert height < 0.6 + 1.0 * rows
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts]
    for number in range(steps):
        assert sum(text.startswith(f"piece{number} ") for text in texts) == 2
        assert str(number + 1) in texts
    places = [text.get_position() for text in axes.texts]
    assert len(set(places)) == len(places)  # nothing is drawn over something else
    low, high = axes.get_xlim()
    assert all(low <= x < high for x, _ in places)
    bottom, top = axes.get_ylim()
    assert all(top < y < bottom for _, y in places)
    assert len(axes.lines) == steps - 1  # a link from every kept candidate to the one before
