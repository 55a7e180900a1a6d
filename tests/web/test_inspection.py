"""The page of `calque inspect` in a browser: every view, keyboard, themes, widths, languages, hostile text."""

import math
import re
import struct
from base64 import b64decode
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Opened
from tests.web.documents import ARABIC, CHINESE, GERMAN, LONG, Document, inspection, translation

Open = Callable[..., Opened]
TABS = ("summary", "attention", "saliency", "alignment", "steps", "beam")
DOCUMENTS: dict[str, Callable[[], Document]] = {
    "german": lambda: inspection(translation(*GERMAN)),
    "right to left": lambda: inspection(translation(*ARABIC, seed=1)),
    "chinese": lambda: inspection(translation(*CHINESE, seed=2, lists=True)),
    "without attention": lambda: inspection(translation(*GERMAN, attends=False), attends=False),
    "given target": lambda: inspection(translation(*GERMAN, given=True)),
    "two": lambda: inspection(translation(*GERMAN), translation(*ARABIC, layers=1, heads=1)),
    "three": lambda: inspection(translation(*GERMAN), translation(*CHINESE), translation(*ARABIC)),
}
INSIDE = """lists => lists.every(
    (list) => list.getBoundingClientRect().right <= list.closest("table").getBoundingClientRect().right + 0.5
)"""
AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter((item) => ["serious", "critical"].includes(item.impact))
    .map((item) => `${item.id}: ${item.nodes.map((node) => node.html).join(" ")}`)"""


def show(page: Page, tab: str) -> bool:
    """Opens a tab; False if the page has none of that name."""
    buttons = page.locator(f'[role="tab"][data-name="{tab}"]')
    if buttons.count() == 0:
        return False
    buttons.first.evaluate("button => button.click()")  # faster than the mouse, which one test uses
    return True


def minus(value: float, digits: int = 3) -> str:
    """A number as the page writes it."""
    return f"{value:.{digits}f}".replace("-", "−")


def weight(sentence: Document, *, index: int, head: int, row: int, column: int) -> float:
    """A weight of a map, decoded here a second time; head −1 is the mean."""
    packed = sentence["attention"]["maps"][index]["weights"]
    heads, rows, columns = packed["shape"]
    integers = struct.unpack(f"<{heads * rows * columns}H", b64decode(packed["uint16"]))
    values = [integers[(number * rows + row) * columns + column] / 65535 for number in range(heads)]
    return values[head] if head >= 0 else sum(values) / heads


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_view_is_drawn_in_both_languages(open_page: Open, name: str) -> None:
    document = DOCUMENTS[name]()
    page = open_page(document).page
    texts = {}
    for language in ("en", "zh"):
        page.locator(f'[data-value="{language}"]').click()
        assert page.evaluate("document.documentElement.lang").startswith(language)
        for tab in filter(lambda tab: show(page, tab), TABS):
            assert page.locator(f".panel-{tab}").first.is_visible()
            texts[tab, language] = page.locator(f".panel-{tab}").first.inner_text()
            assert len(texts[tab, language]) > 20
            assert re.search(r"\b(summary|beam|attention|steps|score|facts)\.[a-z]", texts[tab, language]) is None
    assert all(texts[tab, "en"] != texts[tab, "zh"] for tab, _ in texts)
    expected = {"summary", "attention", "alignment", "steps", "beam"}
    if name == "without attention":
        expected = expected - {"attention"} | {"saliency"}
        assert "no attention" in texts["saliency", "en"]
        assert "The methods may disagree." in texts["saliency", "en"]
    assert {tab for tab, _ in texts} == expected


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page: Open, axe: str, theme: str) -> None:
    """Short sentences with all kinds of parts: axe takes seconds for long ones."""
    with_attention = translation("Guten Tag .", "Hello .", layers=2, heads=2, beam=2)
    without = translation("שלום עולם .", "مرحبا .", attends=False, beam=2)
    page = open_page(inspection(with_attention, without), color_scheme=theme).page
    page.evaluate(axe)
    for tab in TABS:
        assert show(page, tab)
        for candidate in page.locator(".candidate.dropped:visible").all()[:1]:
            candidate.click()
        assert page.evaluate(AXE) == [], tab


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_phone_never_scrolls_sideways(open_page: Open, name: str) -> None:
    page = open_page(DOCUMENTS[name](), width=360, device_scale_factor=2, has_touch=True).page
    for tab in TABS:
        if show(page, tab):
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab
            assert page.evaluate("document.body.scrollWidth") <= 360, tab
            assert page.locator(".runners-up:visible").evaluate_all(INSIDE), tab
            for width in page.locator(".heatmap-rows:visible").evaluate_all(
                "items => items.map(item => item.offsetWidth)"
            ):
                assert 20 < width < 140


def test_the_keyboard_reads_attention(open_page: Open) -> None:
    sentence = translation(*GERMAN)
    page = open_page(inspection(sentence)).page
    press_until(page, "Tab", '[role="tab"]')
    page.keyboard.press("ArrowRight")
    expect(page.locator(".panel-attention")).to_be_visible()
    press_until(page, "Tab", ".heatmap-plane")
    assert outline(page) > 0
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    value = weight(sentence, index=0, head=-1, row=1, column=2)
    expect(page.locator("#live")).to_contain_text(f"{value:.3f}")
    expect(page.locator("#live")).to_contain_text(sentence["target"]["pieces"][1])
    expect(page.locator("#live")).to_contain_text(sentence["source"]["pieces"][2])
    expect(page.locator(".tooltip")).to_contain_text(f"{value:.3f}")
    press_until(page, "Tab", ".multiple")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):  # from the mean of layer 1 to head 2 of layer 2
        page.keyboard.press(key)
    expect(page.locator(".multiple:focus")).to_have_attribute("aria-label", "layer 2, head 2")
    press_until(page, "Shift+Tab", ".heatmap-plane")
    value = weight(sentence, index=1, head=1, row=0, column=0)
    expect(page.locator("#live")).to_contain_text(f"{value:.3f}")


def test_the_keyboard_walks_the_beam_tree(open_page: Open) -> None:
    sentence = translation(*GERMAN, beam=5)
    beam = sentence["beam"]
    candidates = {item["id"]: item for step in beam["steps"] for item in step["candidates"]}
    page = open_page(inspection(sentence)).page
    press_until(page, "Tab", '[role="tab"]')
    page.keyboard.press("End")
    expect(page.locator(".panel-beam")).to_be_visible()
    press_until(page, "Tab", ".candidate")
    for number in beam["answer"]:
        page.keyboard.press("ArrowRight")
        focused = page.locator(".candidate:focus")
        expect(focused).to_have_attribute("data-id", str(number))
        expect(page.locator(".tree-details")).to_contain_text(minus(candidates[number]["log_prob"]))
    details = page.locator(".tree-details")
    for term in ("length", "coverage", "total"):
        expect(details).to_contain_text(minus(candidates[beam["answer"][-1]]["score"][term]))
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".candidate:focus")).to_have_attribute("data-id", str(beam["answer"][-2]))
    column = [item["id"] for item in beam["steps"][-2]["candidates"]]
    here = column.index(beam["answer"][-2])
    page.keyboard.press("ArrowDown")
    expect(page.locator(".candidate:focus")).to_have_attribute("data-id", str(column[here + 1]))
    page.keyboard.press("Home")
    expect(page.locator(".candidate.start")).to_be_focused()


def test_the_beam_tree_shows_every_candidate_and_its_fate(open_page: Open) -> None:
    sentence = translation(*GERMAN, beam=4)
    beam = sentence["beam"]
    page = open_page(inspection(sentence)).page
    show(page, "beam")
    shown = page.locator(".tree-plane .candidate:not(.start)").evaluate_all(
        """items => items.map(item => [Number(item.dataset.id),
            ['kept', 'ended', 'dropped'].find(fate => item.classList.contains(fate)),
            item.classList.contains('answer'), item.querySelector('.fate').textContent])"""
    )
    glyphs = {"kept": "●", "ended": "■", "dropped": "×"}
    expected = [
        [item["id"], item["fate"], item["id"] in beam["answer"], glyphs[item["fate"]]]
        for step in beam["steps"]
        for item in step["candidates"]
    ]
    assert sorted(shown) == sorted(expected)
    assert page.locator(".edge").count() == len(expected)
    assert page.locator(".edge.answer").count() == len(beam["answer"])
    dropped = next(item for item in beam["steps"][1]["candidates"] if item["reason"])
    page.locator(f'.candidate[data-id="{dropped["id"]}"]').click()
    expect(page.locator(".tree-details")).to_contain_text(
        "the beam is full of better candidates" if dropped["reason"] == "rank" else "it ends, but"
    )
    rows = page.locator(".narrower tbody tr")
    assert rows.count() == len(beam["narrower"])
    rows.first.locator("button").click()
    expect(page.locator(".candidate:focus")).to_have_attribute("data-id", str(beam["answer"][1]))
    page.locator(".panel-beam .checkbox").click()
    assert page.locator(".tree-plane .candidate.dropped:not(.answer)").count() == 0
    page.locator('[data-value="zh"]').click()
    page.locator(".panel-beam .checkbox").click()
    page.locator(f'.candidate[data-id="{dropped["id"]}"]').click()
    expect(page.locator(".tree-details")).to_contain_text("已有足够多更好的候选继续")


def test_lines_end_at_parents(open_page: Open) -> None:
    sentence = translation(*ARABIC, beam=3)  # right to left: the start is on the right
    page = open_page(inspection(sentence)).page
    show(page, "beam")
    boxes = page.locator(".tree-plane .candidate").evaluate_all(
        """items => items.map(item => [Number(item.dataset.id),
            item.offsetLeft, item.offsetTop, item.offsetWidth, item.offsetHeight])"""
    )
    place = {number: box for number, *box in boxes}
    paths = page.locator(".edge").evaluate_all("items => items.map(item => item.getAttribute('d'))")
    drawn = {tuple(round(float(number)) for number in re.findall(r"-?[\d.]+", path))[::1] for path in paths}
    ends = {(path[0], path[1], path[-2], path[-1]) for path in drawn}
    for step in sentence["beam"]["steps"]:
        for item in step["candidates"]:
            left, top, _, height = place[item["parent"]]
            child_left, child_top, child_width, _ = place[item["id"]]
            assert (left, top + height // 2, child_left + child_width, child_top + height // 2) in ends
    assert max(place, key=lambda number: place[number][0]) == 0


def test_columns_of_right_to_left_text_run_leftwards(open_page: Open) -> None:
    sentence = translation(*ARABIC, seed=1)
    page = open_page(inspection(sentence)).page
    assert page.locator(".texts dd").first.get_attribute("dir") == "rtl"
    assert page.locator(".chips").get_attribute("dir") == "rtl"
    show(page, "attention")
    lefts = page.locator(".heatmap-columns .heatmap-label").evaluate_all("items => items.map(item => item.offsetLeft)")
    assert lefts == sorted(lefts, reverse=True)
    page.locator(".heatmap-plane").focus()
    page.keyboard.press("ArrowLeft")
    value = weight(sentence, index=0, head=-1, row=0, column=1)
    expect(page.locator("#live")).to_contain_text(f"{value:.3f}")


def test_cells_have_the_colour_of_their_weight(open_page: Open) -> None:
    """Hovering says the number of the cell, and a darker cell is a larger number."""
    sentence = translation(*GERMAN)
    for theme, towards in (("light", -1), ("dark", 1)):
        page = open_page(inspection(sentence), color_scheme=theme).page
        show(page, "attention")
        canvas = page.locator(".heatmap-plane canvas")
        rows, columns = len(sentence["target"]["pieces"]), len(sentence["source"]["pieces"])
        brightness = canvas.evaluate(
            """(canvas, [rows, columns]) => {
            const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return Array.from({length: rows * columns}, (_, index) => {
                const [across, down] = [canvas.width / columns, canvas.height / rows];
                const x = Math.floor((index % columns + 0.4) * across);
                const y = Math.floor((Math.floor(index / columns) + 0.4) * down);
                return image.slice(4 * (y * canvas.width + x)).slice(0, 3).reduce((sum, value) => sum + value, 0);
            })}""",
            [rows, columns],
        )
        weights = [
            weight(sentence, index=0, head=-1, row=row, column=column)
            for row in range(rows)
            for column in range(columns)
        ]
        order = sorted(range(len(weights)), key=weights.__getitem__)
        steps = [towards * (brightness[b] - brightness[a]) for a, b in pairwise(order)]
        assert min(steps) >= -1  # rounding to 256 colours
        assert towards * (brightness[order[-1]] - brightness[order[0]]) > 200
        box = canvas.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 2.5 * box["width"] / columns, box["y"] + 3.5 * box["height"] / rows)
        expect(page.locator(".tooltip")).to_contain_text(f"{weights[3 * columns + 2]:.3f}")


@pytest.mark.parametrize(("theme", "least"), [("light", 1.2), ("dark", 1.5)])
def test_weak_weights_can_be_told_from_none(open_page: Open, theme: str, least: float) -> None:
    """The contrast (WCAG's formula) between a tenth of the largest weight and none; dark colours need more of it."""
    sentence = translation(*GERMAN, layers=1, heads=1, lists=True, kinds=["source"])
    (shown,) = sentence["attention"]["maps"]
    rows, columns = len(sentence["target"]["pieces"]), len(sentence["source"]["pieces"])
    shown["weights"] = [[[0.0] * columns for _ in range(rows)]]
    shown["weights"][0][0][0], shown["weights"][0][1][0] = 1.0, 0.1
    page = open_page(inspection(sentence), color_scheme=theme).page
    show(page, "attention")
    weak, none = page.locator(".heatmap-plane canvas").evaluate(
        """(canvas, [rows, columns]) => {
        const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return [1, 3].map((row) => {
            const [x, y] = [0.4 * canvas.width / columns, (row + 0.3) * canvas.height / rows].map(Math.floor);
            return [...image.slice(4 * (y * canvas.width + x)).slice(0, 3)];
        })}""",
        [rows, columns],
    )
    lighter, darker = sorted(map(luminance, (weak, none)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= least


def luminance(colour: list[int]) -> float:
    """The relative luminance of an sRGB colour (WCAG 2)."""
    linear = [value / 3294.6 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_themes_follow_the_system_and_the_switch(open_page: Open) -> None:
    page = open_page(DOCUMENTS["german"](), color_scheme="dark").page
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.locator('[data-value="light"]').click()
    light = page.evaluate(background)
    assert brightness_of(dark) < 150 < 600 < brightness_of(light)
    page.locator('[data-value="auto"]').click()
    assert page.evaluate(background) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(background) == light
    page.locator('[data-value="auto"]').press("ArrowRight")
    page.locator('[data-value="light"]').press("ArrowRight")
    assert page.evaluate(background) == dark
    assert page.evaluate("document.activeElement.dataset.value") == "dark"


def test_steps_show_probabilities_and_runners_up(open_page: Open) -> None:
    sentence = translation(*GERMAN)
    page = open_page(inspection(sentence)).page
    show(page, "steps")
    rows = page.locator(".steps tbody tr")
    assert rows.count() == len(sentence["steps"])
    for index, step in enumerate(sentence["steps"]):
        text = rows.nth(index).inner_text()
        for item in (step, *step["runners_up"]):
            assert item["piece"] in text.replace("\n", "")
            assert f"{math.exp(item['log_prob']):.3f}" in text
        share = (
            rows.nth(index)
            .locator(".share-bar")
            .evaluate("bar => parseFloat(getComputedStyle(bar, '::before').width) / bar.clientWidth")
        )
        assert share == pytest.approx(math.exp(step["log_prob"]), abs=0.02)


def test_the_summary_adds_up(open_page: Open) -> None:
    sentence = translation(*GERMAN)
    page = open_page(inspection(sentence)).page
    text = page.locator(".panel-summary").inner_text()
    for term in ("log_prob", "length", "coverage", "end", "reward", "total"):
        assert minus(sentence["score"][term]) in text
    assert sentence["source"]["text"] in text
    assert sentence["target"]["text"] in text
    assert "0.71" in text
    assert f"Log-probability, total\t{minus(sentence['log_prob'])}" in text
    assert "|X| and |Y| are their numbers of pieces" in text
    page.locator(".chips").focus()
    page.keyboard.press("End")
    expect(page.locator("#live")).to_contain_text(f"{math.exp(sentence['steps'][-1]['log_prob']):.3f}")


def test_a_given_target_stands_beside_the_models_own(open_page: Open) -> None:
    sentence = translation(*GERMAN, given=True, beam=4)
    own, pieces = sentence["own"], sentence["target"]["pieces"]
    page = open_page(inspection(sentence)).page
    panel = page.locator(".panel-summary")
    expect(panel.locator(".texts dd").last).to_have_text(own["text"])
    difference = sentence["score"]["total"] - own["score"]
    verdict = "A search error" if difference > 0 else "The model prefers its own translation"
    expect(panel).to_contain_text(verdict)
    expect(panel).to_contain_text(minus(abs(difference)))
    rows = panel.locator(".narrower tbody tr")
    assert rows.count() == 4
    for index, outcome in enumerate(own["beams"]):
        expect(rows.nth(index)).to_contain_text(outcome["text"])
        expect(rows.nth(index)).to_contain_text(pieces[outcome["lost_at"] - 1])
        where = "search had stopped before piece" if outcome["is_stopped"] else "at piece"
        expect(rows.nth(index)).to_contain_text(f"{where} {outcome['lost_at']}")


def test_hypotheses_that_ended_are_listed_best_first(open_page: Open) -> None:
    sentence = translation(*GERMAN, beam=4)
    ended = sentence["beam"]["ended"]
    page = open_page(inspection(sentence)).page
    show(page, "beam")
    shown = page.locator(".ended tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    assert shown == [
        [str(place), minus(item["score"]["total"]), minus(item["log_prob"]), item["text"]]
        for place, item in enumerate(ended, start=1)
    ]
    assert len(shown) > 1


@pytest.mark.parametrize(
    ("reason", "part", "text"),
    [
        ("group", {"group": 2, "penalty": 0.0}, "its group is full of better candidates"),
        ("penalty", {"group": 2, "penalty": 0.5}, "an earlier group has chosen this piece"),
        ("end-group", {"group": 1, "penalty": 0.0}, "not among the best of its group"),
        ("bank", {"matched": 3}, "more or fewer pieces of the required phrases"),
    ],
)
def test_a_candidate_says_what_decided_about_it(open_page: Open, reason: str, part: Document, text: str) -> None:
    sentence = translation(*GERMAN, beam=4)
    dropped = next(item for item in sentence["beam"]["steps"][1]["candidates"] if item["fate"] == "dropped")
    dropped |= {"reason": reason, **part}
    page = open_page(inspection(sentence)).page
    show(page, "beam")
    page.locator(f'.candidate[data-id="{dropped["id"]}"]').click()
    details = page.locator(".tree-details")
    expect(details).to_contain_text(text)
    shown = dict(
        details.locator(".pairs div").evaluate_all(
            "items => items.map(item => [...item.children].map(part => part.innerText))"
        )
    )
    assert shown.get("Group") == (str(part["group"]) if "group" in part else None)
    assert shown.get("Penalty: earlier groups chose this piece") == ("−0.500" if part.get("penalty") else None)
    assert shown.get("Pieces of required phrases") == (str(part["matched"]) if "matched" in part else None)


def test_sentences_are_sorted_by_log_probability_and_chosen(open_page: Open) -> None:
    sentences = [translation(*pair, seed=seed) for seed, pair in enumerate((GERMAN, CHINESE, ARABIC, GERMAN))]
    page = open_page(inspection(*sentences)).page
    page.get_by_text("All sentences, to sort and choose from").click()
    column = page.locator(".overview tbody tr td:nth-child(2)")
    head = page.locator(".overview thead th:nth-child(2) button")
    values = [sentence["log_prob"] for sentence in sentences]
    for is_descending in (True, False):
        head.click()
        assert column.all_inner_texts() == [minus(value) for value in sorted(values, reverse=is_descending)]
    worst = values.index(min(values))
    page.locator(".overview tbody tr").first.get_by_role("button").click()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(str(worst))
    expect(page.locator(".panel-summary .texts dd").first).to_have_text(sentences[worst]["source"]["text"])
    assert page.locator(".overview").is_visible()


def test_two_sentences_stand_side_by_side(open_page: Open) -> None:
    page = open_page(DOCUMENTS["two"]()).page
    page.locator('[role="tab"][data-name="steps"]').last.click()
    assert page.locator(".panel-steps:visible").count() == 2
    sides = page.locator(".side")
    assert sides.count() == 2
    left, right = (sides.nth(index).bounding_box() for index in (0, 1))
    assert left is not None
    assert right is not None
    assert left["x"] + left["width"] <= right["x"]
    assert left["y"] == right["y"]
    show(page, "beam")
    assert page.locator(".panel-beam:visible").count() == 2
    page.get_by_label("Two side by side").uncheck()
    assert page.locator(".side").count() == 1
    page.get_by_label("Sentence", exact=True).select_option(index=1)
    expect(page.locator(".panel-beam")).to_be_visible()
    assert page.locator(".candidate.answer").count() > 1


def test_hostile_text_stays_text(open_page: Open) -> None:
    evil = "<script>window.hacked = 1</script> </script> <img src=x onerror=hacked=1> \" ' & \u2028 \x07 \u202e {t} "
    evil += "\\u003c"
    sentence = translation(*GERMAN)
    for side in ("source", "target"):
        sentence[side]["text"] = evil
        sentence[side]["pieces"] = [f"▁{part}" for part in evil.split(" ")] + ["</s>"]
        sentence[side]["words"] = [[index, index] for index in range(len(sentence[side]["pieces"]) - 1)]
    sentence["model"] = evil
    for step in sentence["steps"]:
        step["piece"] = evil
        step["runners_up"][0]["piece"] = evil
    for step in sentence["beam"]["steps"]:
        for candidate in step["candidates"]:
            candidate["piece"] = evil
            candidate["reason"] = evil
    sentence["beam"]["stop"] = evil
    for narrower in sentence["beam"]["narrower"]:
        narrower["text"] = evil
    document = inspection(sentence, sentence)
    document["model"] = {**document["model"], "name": evil, "architecture": evil}
    page = open_page(document).page
    shown = evil.replace("\u2028", "⟨U+2028⟩").replace("\x07", "␇").replace("\u202e", "⟨U+202E⟩")
    assert page.locator(".texts .sentence").first.text_content() == shown
    for tab in TABS:
        if show(page, tab):
            assert page.evaluate("window.hacked") is None
    page.locator(".candidate.answer").nth(1).click()
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("window.hacked") is None


def test_sixty_pieces_and_sixty_four_heads(open_page: Open) -> None:
    page = open_page(inspection(translation(*LONG, layers=8, heads=8, beam=5, kinds=["source"]))).page
    show(page, "attention")
    assert page.locator(".multiple").count() == 8 * 9
    page.set_viewport_size({"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    plane = page.locator(".heatmap-plane")
    plane.focus()
    for key in ("End", "PageDown"):  # the frame follows
        page.keyboard.press(key)
    cursor, rows = page.locator(".heatmap-cursor").bounding_box(), page.locator(".heatmap-rows").bounding_box()
    assert cursor is not None
    assert rows is not None
    assert rows["width"] > 20
    assert rows["x"] + rows["width"] <= cursor["x"] <= 360
    assert 0 <= cursor["y"] <= 640
    blank = page.locator(".multiple canvas").evaluate_all(
        """items => items.filter(item => {
            const image = item.getContext('2d').getImageData(0, 0, item.width, item.height);
            return new Set(new Uint32Array(image.data.buffer)).size < 5;
        }).length"""
    )
    assert blank == 0
    show(page, "beam")
    assert page.locator(".tree-plane .candidate").count() > 500


def test_print_has_every_view_in_light(open_page: Open) -> None:
    page = open_page(DOCUMENTS["german"](), width=690, color_scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # comes while the screen's styles still apply
    corner = "canvas => canvas.getContext('2d').getImageData(canvas.width - 4, 1, 1, 1).data[0]"
    assert page.locator(".heatmap-plane canvas").evaluate(corner) > 150
    page.emulate_media(media="print")
    for tab in ("summary", "attention", "alignment", "steps", "beam"):
        assert page.locator(f".panel-{tab}").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 690
    assert brightness_of(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 600
    assert len(page.pdf()) > 10_000


def test_an_unknown_task_is_reported(open_page: Open) -> None:
    page = open_page({**DOCUMENTS["german"](), "task": "juggling"}).page
    expect(page.get_by_role("alert")).to_contain_text("juggling")


def press_until(page: Page, key: str, selector: str) -> None:
    """Presses a key until the focus is on such an element."""
    for _ in range(40):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{key} never reaches {selector}")


def outline(page: Page) -> float:
    """The width of the outline around the focused element."""
    width: Any = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
    return float(width)


def brightness_of(colour: str) -> float:
    return sum(float(number) for number in re.findall(r"[\d.]+", colour)[:3])
