"""The nearest states of a translation in a browser, of documents that a real model and index gave."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from calque.engine import Request
from calque.inspection.document import as_base64, inspection_document, model_summary, sentence_values
from calque.inspection.state_index import build_index
from calque.inspection.states import states_of_view, states_values
from calque.inspection.translation import inspect_translation
from tests.unit.inspection.test_states import corpus, translator_of
from tests.web.documents import Document
from tests.web.test_inspection import AXE, Open, minus, show

HOSTILE = """<img src=x onerror="document.title='changed'"></script><script>document.title='changed'</script>"""
LATE = """() => {
  const Observer = window.ResizeObserver;
  window.ResizeObserver = class extends Observer {
    constructor(callback) {
      super((...changes) => setTimeout(() => callback(...changes), 400));
    }
  };
}"""
"""A busy machine: charts learn their widths, and are drawn, long after the panel is on the page."""
PLACES = "items => items.map(item => item.getAttribute('transform').match(/-?[0-9.]+/g).map(Number))"


@pytest.fixture
def document(tmp_path: Path) -> Document:
    translator = translator_of()
    index = build_index(translator, tmp_path / "states", data=corpus(tmp_path / "corpus"), seed=1)
    view = inspect_translation(translator, Request("a b c <b> h"), target="h <b> c b a")
    values = sentence_values(view, weights=as_base64)
    values["states"] = states_values(states_of_view(translator, view, index=index))
    return inspection_document([values], task="translation", models=[model_summary(translator, name="runs/toy")])


def test_states_are_shown_in_both_languages(open_page: Open, document: Document) -> None:
    page = open_page(document).page
    show(page, "states")
    texts = []
    for language in ("en", "zh"):
        page.locator(f'[data-value="{language}"]').click()
        texts.append(page.locator(".panel-states").inner_text())
        assert re.search(r"\b(states|tab|summary|chart)\.[a-z]", texts[-1]) is None
    assert texts[0] != texts[1]
    states = document["sentences"][0]["states"]
    index = states["index"]
    share = f"{100 * index['pairs'] / index['of']:.1f} %" if index["pairs"] < index["of"] else "100 %"
    assert f"{index['pairs']} of {index['of']} training pairs ({share})" in texts[0]
    (first, *_) = states["words"]["encoder"]
    assert f"{first['word']}\u2069 {first['occurrences']}" in texts[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page: Open, document: Document, axe: str, theme: str) -> None:
    page = open_page(document, color_scheme=theme).page
    page.evaluate(axe)
    show(page, "states")
    page.wait_for_selector(".chart-plane .marker")
    assert page.evaluate(AXE) == []


def test_a_phone_scrolls_only_downwards(open_page: Open, document: Document) -> None:
    page = open_page(document, width=360).page
    show(page, "states")
    page.wait_for_selector(".chart-plane .marker")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_points_and_neighbours_are_those_of_the_document(open_page: Open, document: Document) -> None:
    """Places on the page are an affine map of the document's, and the decoder's are joined in order."""
    states = document["sentences"][0]["states"]
    page = open_page(document).page
    show(page, "states")
    for side, lines in (("encoder", 0), ("decoder", 1)):
        page.locator(f'[data-value="{side}"]').click()
        points = states[side]["points"]
        page.wait_for_selector(".chart-plane .marker.series-1")
        places = page.locator(".chart-plane .marker.series-1").evaluate_all(PLACES)
        for axis, (key, sign) in enumerate((("x", 1), ("y", -1))):
            values = [point[key] for point in points]
            first, last = values.index(min(values)), values.index(max(values))
            unit = (places[last][axis] - places[first][axis]) / (values[last] - values[first])
            assert unit * sign > 0
            expected = [places[first][axis] + unit * (value - values[first]) for value in values]
            assert [place[axis] for place in places] == pytest.approx(expected, abs=1e-2)
        assert page.locator(".chart-plane .line.series-1").count() == lines
        dots = page.locator(".chart-plane .dots").get_attribute("d") or ""
        assert dots.count("M") == len(states[side]["background"])
        assert page.locator(".chart-plane .marker.series-2").count() == sum(len(item["neighbours"]) for item in points)


@pytest.mark.parametrize("busy", [False, True])
def test_the_keyboard_chooses_a_piece(open_page: Open, document: Document, busy: bool) -> None:
    """In the picture with Enter, and in the select."""
    states = document["sentences"][0]["states"]
    page = open_page(document).page
    if busy:
        page.evaluate(LATE)
    show(page, "states")
    rows = page.locator(".panel-states tbody tr")
    for side, name in (("encoder", "source"), ("decoder", "target")):
        page.locator('.panel-states [role="radio"][aria-checked="true"]').focus()
        if side == "decoder":
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Tab")
        expect(page.locator(".panel-states .chart-plane")).to_be_focused()
        page.wait_for_selector(".chart-plane .marker")  # an empty picture has no points to go to
        for key in ("ArrowRight", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        expect(page.locator(".panel-states .chart-plane")).to_be_focused()
        expect(page.locator(".panel-states select")).to_have_value("2")
        page.keyboard.press("Tab")
        expect(page.locator(".panel-states select")).to_be_focused()
        page.keyboard.press("ArrowDown")
        point = states[side]["points"][3]
        expect(page.locator(".panel-states .table-caption")).to_contain_text(point["piece"])
        assert rows.count() == len(point["neighbours"]) == page.locator(".chart-plane .link").count()
        line = page.locator(".chart-plane .link").first
        ends = line.evaluate("item => [item.x1, item.y1].map((length) => length.baseVal.value)")
        assert ends == pytest.approx(page.locator(".chart-plane .marker.series-1").evaluate_all(PLACES)[3], abs=1e-2)
        for row, neighbour in zip(rows.all(), point["neighbours"], strict=True):
            sentence = states["sentences"][neighbour["sentence"]]
            expect(row).to_contain_text(minus(neighbour["distance"]))
            expect(row.locator("mark")).to_have_text(sentence[f"{name}_pieces"][neighbour["position"]])
            expect(row.locator("td").nth(2)).to_have_text(sentence["source"])
            expect(row.locator("td").nth(4)).to_have_text(f"corpus 1, line {sentence['line']}")
        expect(page.locator("#live")).to_contain_text(minus(point["neighbours"][0]["distance"]))


def test_hostile_and_missing_values(open_page: Open, document: Document) -> None:
    states = document["sentences"][0]["states"]
    for sentence in states["sentences"]:
        sentence |= {"source": HOSTILE, "target": f"שלום {HOSTILE}", "source_pieces": [HOSTILE] * 9}
    first, second, *_ = states["encoder"]["points"]
    first |= {"piece": HOSTILE, "x": None}
    second["neighbours"] = []
    page = open_page(document).page
    show(page, "states")
    page.wait_for_selector(".chart-plane .marker")
    for place in ("0", "1"):
        page.locator(".panel-states select").select_option(place)
        assert "NaN" not in page.locator(".panel-states").inner_html()
        assert page.locator("main img, main script").count() == 0
    assert page.title() == "calque inspect"
