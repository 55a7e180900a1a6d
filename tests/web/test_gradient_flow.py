"""The page of `calque inspect --gradients` in a browser, of documents that trained runs gave."""

import copy
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from calque.commands.rendering import finite
from calque.experiment import Run
from calque.inspection.gradient_report import gradient_flow_report
from tests.conftest import made_once, toy_corpus, toy_values
from tests.web.documents import Document
from tests.web.test_inspection import AXE, Open, minus
from tests.web.test_inspection import show as show_tab

VIEW = "calque/gradient_flow"
HOSTILE = """<img src=x onerror="document.title='changed'"></script><script>document.title='changed'</script>"""
RNN = [f"model.{side}.cell=rnn" for side in ("encoder", "decoder")]
MODELS: dict[str, tuple[str, ...]] = {"lstm": ("luong",), "rnn": ("plain", *RNN), "transformer": ("transformer",)}
RECURRENT = ("flow-summary", "norms", "eigenvalues", "jacobians", "clipping")
TABS = {"lstm": RECURRENT, "rnn": RECURRENT, "transformer": ("flow-summary", "norms", "clipping")}
PLACES = "items => items.map(item => item.getAttribute('transform').match(/-?[0-9.]+/g).map(Number))"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Document]:
    corpus = toy_corpus(tmp_path_factory.mktemp("corpus"))
    runs: Callable[..., Run] = made_once(
        lambda *asked: toy_values(corpus, *asked), folder=lambda: tmp_path_factory.mktemp("run")
    )

    @cache
    def report(name: str) -> Document:
        return gradient_flow_report(runs(*MODELS[name]).folder, device="cpu")

    return lambda name: copy.deepcopy(finite(report(name)))


def without_numbers(value: Any) -> Any:
    """The document of a run that diverged: no number is finite."""
    match value:
        case dict():
            return {key: without_numbers(item) for key, item in value.items()}
        case list():
            return [without_numbers(item) for item in value]
        case float():
            return None
    return value


def show(page: Page, tab: str) -> None:
    """Opens a tab and waits until its charts are drawn."""
    assert show_tab(page, tab)
    expect_charts(page, tab)


def expect_charts(page: Page, tab: str) -> None:
    """Waits until the charts of an open tab are drawn: before that, they do not react to keys."""
    expect(page.locator(f".panel-{tab} .chart-plane:not(:has(svg))")).to_have_count(0)


def points(page: Page, selector: str) -> list[list[float]]:
    """Where the markers of a chart stand."""
    page.wait_for_selector(f"{selector} .marker")
    places: list[list[float]] = page.locator(f"{selector} .marker").evaluate_all(PLACES)
    return places


@pytest.mark.parametrize("name", MODELS)
def test_every_view_is_drawn_in_both_languages(
    open_page: Open, documents: Callable[[str], Document], name: str
) -> None:
    page = open_page(documents(name), view=VIEW).page
    texts = {}
    for language in ("en", "zh"):
        page.locator(f'[data-value="{language}"]').click()
        names = page.locator('[role="tab"]').evaluate_all("items => items.map(item => item.dataset.name)")
        assert tuple(names) == TABS[name]
        for tab in names:
            show(page, tab)
            texts[tab, language] = page.locator(f".panel-{tab}").inner_text()
            assert re.search(r"\b(flow|tab|heatmap|chart)\.[a-z]", texts[tab, language]) is None
    assert all(texts[tab, "en"] != texts[tab, "zh"] for tab, _ in texts)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page: Open, documents: Callable[[str], Document], axe: str, theme: str) -> None:
    page = open_page(documents("lstm"), view=VIEW, color_scheme=theme).page
    page.evaluate(axe)
    for tab in RECURRENT:
        show(page, tab)
        assert page.evaluate(AXE) == [], tab


@pytest.mark.parametrize("name", MODELS)
def test_a_phone_scrolls_only_downwards(open_page: Open, documents: Callable[[str], Document], name: str) -> None:
    page = open_page(documents(name), view=VIEW, width=360).page
    for tab in TABS[name]:
        show(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab


def test_the_keyboard_reads_norms(open_page: Open, documents: Callable[[str], Document]) -> None:
    document = documents("lstm")
    page = open_page(document, view=VIEW).page
    page.locator('[role="tab"][aria-selected="true"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".panel-norms")).to_be_visible()
    expect_charts(page, "norms")
    page.locator('section[aria-label^="Decoder"] .chart-plane').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    cell = next(flow for flow in document["flows"] if flow["side"] == "decoder" and flow["state"] == "cell")
    drawn = [place for place, pairs in enumerate(cell["count"]) if pairs >= 5]
    expect(page.locator("#live")).to_contain_text(f"layer 1, cell (× {cell['factor_per_step']:.3g})".rstrip("0"))
    median, low = (cell["quantiles"][share][drawn[1]] for share in ("0.5", "0.1"))
    expect(page.locator("#live")).to_contain_text(f"{float(f'{median:.2g}')} [{float(f'{low:.2g}')}, ")


def test_distances_zeros_and_clipping_are_explained(open_page: Open, documents: Callable[[str], Document]) -> None:
    document = documents("lstm")
    page = open_page(document, view=VIEW).page
    for tab in ("flow-summary", "norms"):
        show(page, tab)
        panel = page.locator(f".panel-{tab}")
        expect(panel).to_contain_text("the recurrent steps from reading source piece j to predicting target token i")
        expect(panel).to_contain_text("The state at i is the one after token i − 1 was read.")
        expect(panel).not_to_contain_text("The gradient at distance 0 is zero")
    for flow in document["flows"]:
        if flow["side"] == "decoder" and flow["layer"] == 1:
            flow["mean"][0] = 0.0
    document["clipping"] = None
    page = open_page(document, view=VIEW).page
    expect(page.locator(".panel-flow-summary")).to_contain_text("this decoder predicts token i from the previous state")
    expect(page.locator(".model")).to_contain_text("clipping not recorded")


def test_norms_stand_on_a_logarithmic_scale(open_page: Open, documents: Callable[[str], Document]) -> None:
    """Ratios of medians are distances on the page, in a straight line through all points of a curve."""
    document = documents("rnn")
    page = open_page(document, view=VIEW).page
    show(page, "norms")
    flow = next(flow for flow in document["flows"] if flow["side"] == "decoder")
    medians = [
        median for median, pairs in zip(flow["quantiles"]["0.5"], flow["count"], strict=True) if pairs >= 5 and median
    ]
    heights = [y for _, y in points(page, 'section[aria-label^="Decoder"] .chart-plane')][: len(medians)]
    logarithms = [math.log(median) for median in medians]
    slope = (heights[-1] - heights[0]) / (logarithms[-1] - logarithms[0])
    assert slope < 0, "larger is higher"
    expected = [heights[0] + slope * (value - logarithms[0]) for value in logarithms]
    assert heights == pytest.approx(expected, abs=0.01)


def test_eigenvalues_stand_about_a_round_unit_circle(open_page: Open, documents: Callable[[str], Document]) -> None:
    document = documents("rnn")
    item = document["recurrences"][0]
    page = open_page(document, view=VIEW).page
    show(page, "eigenvalues")
    places = points(page, ".chart-grid > section:first-child")
    circle = page.locator(".chart-grid > section:first-child .circle").evaluate(
        "item => [item.cx, item.cy, item.rx, item.ry].map((length) => length.baseVal.value)"
    )
    assert circle[2] == pytest.approx(circle[3], abs=1e-3)
    eigenvalues = item["matrices"][0]["eigenvalues"]
    assert len(places) == len(eigenvalues)
    for (x, y), (real, imaginary) in zip(places, eigenvalues, strict=True):
        assert [(x - circle[0]) / circle[2], (circle[1] - y) / circle[2]] == pytest.approx([real, imaginary], abs=1e-3)
    panel = page.locator(".panel-eigenvalues")
    expect(panel).to_contain_text(f"ρ = {minus(item['matrices'][0]['spectral_radius'])}")
    expect(panel).to_contain_text(f"≤ {minus(item['bound']['per_step'])}")
    last = document["recurrences"][-1]
    panel.locator("select").select_option(str(len(document["recurrences"]) - 1))
    expect(panel).to_contain_text(f"ρ = {minus(last['matrices'][0]['spectral_radius'])}")
    show(page, "jacobians")
    expect(page.locator(".panel-jacobians .reference + text")).to_contain_text("bound")


def test_summaries_have_the_numbers_of_the_document(open_page: Open, documents: Callable[[str], Document]) -> None:
    document = documents("lstm")
    page = open_page(document, view=VIEW).page
    rows = page.locator(".panel-flow-summary table").first.locator("tbody tr")
    encoder = [flow for flow in document["flows"] if flow["side"] == "encoder"]
    assert rows.count() == len(encoder)
    for row, flow in zip(rows.all(), encoder, strict=True):
        assert float(row.locator("td").first.inner_text()) == pytest.approx(flow["factor_per_step"], rel=5e-3)
    show(page, "jacobians")
    forget = document["recurrences"][0]["gates"]["forget gate"]
    expect(page.locator(".panel-jacobians table tbody tr").first).to_contain_text(minus(forget["mean"]))
    show(page, "clipping")
    assert len(points(page, ".panel-clipping")) == len(document["clipping"]["steps"])


def test_missing_numbers_break_nothing(open_page: Open, documents: Callable[[str], Document]) -> None:
    for name in ("lstm", "rnn"):
        page = open_page(without_numbers(documents(name)), view=VIEW).page
        for tab in RECURRENT:
            show(page, tab)
            assert "NaN" not in page.locator(f".panel-{tab}").inner_html()
    document = documents("lstm")
    flow = document["flows"][0]
    flow["quantiles"]["0.5"][1] = None
    flow["quantiles"]["0.5"][2] = 0.0
    flow["quantiles"]["0.1"][3] = 0.0
    document["recurrences"][0]["jacobian"] = None
    document["recurrences"][0]["gates"] = {}
    document["clipping"] = None
    page = open_page(document, view=VIEW).page
    for tab in RECURRENT[:-1]:
        show(page, tab)
        assert re.search("NaN|Infinity", page.locator(f".panel-{tab}").inner_html()) is None
    show(page, "norms")
    path = page.locator(".panel-norms .chart-plane .line.series-1").first.get_attribute("d") or ""
    assert path.count("M") == 2, "a line is interrupted where numbers are missing"


def test_hostile_text_stays_text(open_page: Open, documents: Callable[[str], Document]) -> None:
    document = documents("lstm")
    document["model"] |= {"name": HOSTILE, "architecture": HOSTILE}
    item = document["recurrences"][0]
    item |= {"cell": HOSTILE, "gates": {HOSTILE: item["gates"]["forget gate"]}, "bound": {"of": HOSTILE, "per_step": 2}}
    item["matrices"][0]["gate"] = item["jacobian"]["of"] = HOSTILE
    item["jacobian"]["gains"] = {HOSTILE: item["jacobian"]["gains"]["direct"], **item["jacobian"]["gains"]}
    page = open_page(document, view=VIEW).page
    for tab in RECURRENT:
        show(page, tab)
        assert page.locator("main img, main script").count() == 0
    assert page.title() == "calque inspect"
