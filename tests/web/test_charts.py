"""The charts that views share, drawn in a page of any view."""

from collections.abc import Callable
from itertools import pairwise

from playwright.sync_api import expect

from tests.web.conftest import Opened
from tests.web.documents import GERMAN, inspection, translation

Open = Callable[..., Opened]
DRAW = """async ([kind, options]) => {
    const charts = await import("calque/charts");
    const root = document.querySelector("main");
    root.replaceChildren(charts[kind](options));
    await new Promise((done) => setTimeout(done, 60));
}"""


def test_lines_are_placed_by_their_values(open_page: Open) -> None:
    """On a logarithmic axis, equal ratios are equal distances."""
    page = open_page(inspection(translation(*GERMAN))).page
    points = [{"x": x, "y": 10.0**-x, "low": 10.0**-x / 2, "high": 10.0**-x * 2} for x in range(5)]
    series = [{"name": "LSTM", "points": points}, {"name": "RNN", "points": points[:3]}]
    options = {
        "label": "gradient",
        "series": series,
        "x": {"label": "distance"},
        "y": {"label": "norm", "logarithmic": True},
    }
    page.evaluate(DRAW, ["lineChart", options])
    places = page.locator(".chart-plane .marker.series-1").evaluate_all(
        "items => items.map(item => item.getAttribute('transform').match(/-?[0-9.]+/g).map(Number))"
    )
    assert len(places) == 5
    across = {round(b[0] - a[0], 3) for a, b in pairwise(places)}
    down = {round(b[1] - a[1], 3) for a, b in pairwise(places)}
    assert len(across) == len(down) == 1
    assert min(across) > 0
    assert min(down) > 0
    assert page.locator(".error-bar").count() == 8
    assert page.locator(".chart-key li").all_inner_texts() == ["LSTM", "RNN"]
    page.locator(".chart-plane").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#live")).to_contain_text("LSTM, distance 1: 0.1 [0.05, 0.2]")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#live")).to_contain_text("RNN, distance 1")


def test_bars_rise_from_zero_in_both_directions(open_page: Open) -> None:
    page = open_page(inspection(translation(*GERMAN))).page
    bars = [
        {"label": "a", "value": 2.0, "low": 1.5, "high": 2.5},
        {"label": "b", "value": -1.0},
        {"label": "c", "value": 1.0},
    ]
    page.evaluate(DRAW, ["barChart", {"label": "bars", "bars": bars}])
    shapes = page.locator(".bar").evaluate_all(
        "items => items.map(item => [item.y.baseVal.value, item.height.baseVal.value])"
    )
    (top_a, high_a), (top_b, high_b), (top_c, high_c) = shapes
    assert abs(high_a - 2 * high_c) < 1e-3
    assert abs(high_b - high_c) < 1e-3
    assert abs((top_a + high_a) - (top_c + high_c)) < 1e-3
    assert abs(top_b - (top_a + high_a)) < 1e-3
    assert page.locator(".error-bar").count() == 1


def test_equal_scales_keep_a_circle_round(open_page: Open) -> None:
    page = open_page(inspection(translation(*GERMAN))).page
    corners = [{"x": 1, "y": 0}, {"x": 0, "y": 1}, {"x": -1, "y": 0}, {"x": 0, "y": -1}]
    page.evaluate(
        DRAW, ["scatterChart", {"label": "eigenvalues", "groups": [{"name": "λ", "points": corners}], "equal": True}]
    )
    places = page.locator(".chart-plane .marker").evaluate_all(
        "items => items.map(item => item.getAttribute('transform').match(/-?[0-9.]+/g).map(Number))"
    )
    (east, _), (_, north), (west, _), (_, south) = places
    assert abs((east - west) - (south - north)) < 1e-3
