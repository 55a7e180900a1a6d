"""The page of `calque compare` in a browser: every task and view, keyboard, both themes, a phone, hostile text."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from calque.evaluation.comparison.language_models import ScoredSystem, TextTest, compare_language_models
from calque.evaluation.comparison.recommendations import RankedSystem, RankedTest, compare_recommendations
from calque.evaluation.comparison.retrievals import RetrievalTest, compare_retrievals
from calque.evaluation.comparison.taggings import TaggedSystem, TaggedTest, compare_taggings
from calque.evaluation.comparison.transcripts import TranscribedSystem, compare_transcripts
from calque.evaluation.comparison.translations import EvaluationSet, Settings, System, compare_translations
from tests.unit.evaluation import test_comparison_of_retrieval as retrieval
from tests.unit.evaluation.corpora import make_corpus
from tests.unit.evaluation.test_comparison_of_transcripts import transcripts
from tests.web.conftest import Opened
from tests.web.test_inspection import AXE

Open = Callable[..., Opened]
VIEW = "calque/comparison"
QUICK = Settings(samples={"bootstrap": 50, "randomisation": 50})
HOSTILE = """<img src=x onerror="document.title='hacked'"> </script><script>document.title='hacked'</script> & \x00 ‮"""
FACTS: dict[str, Any] = {
    "kind": "run",
    "path": "runs/1",
    "model": {"architecture": "luong", "parameters": 12345, "bytes": 50000},
    "speed": {"seconds": 1.0, "sentences_per_second": 30.0, "words_per_second": 300.0, "device": "cpu"},
    "run": {"steps": 20, "seconds": 90.0, "tokens_per_second": 1000.0, "best_step": 20},
    "curves": {
        "train": {"step": [5, 10, 15, 20], "loss": [4.0, 3.0, None, 2.0]},
        "valid": {"step": [10, 20], "loss": [3.5, 2.5], "bleu": [1.0, 20.0]},
    },
}
KEYS = re.compile(
    r"\b(comparison|scores|section|sentences|significance|groups|details|size|ngrams|labels|retrieval|transcripts|rankings|tab)\.[a-z]"
)
"""What a string without a translation would look like."""
TABS = {
    "translation": ("scores", "buckets", "words", "ngrams", "sentences", "curves"),
    "tagging": ("scores", "labels", "confusion", "sentences"),
    "language-modelling": ("scores", "losses", "sentences"),
    "embedding": ("scores", "lengths", "sentences"),
    "recognition": ("scores", "confusion", "buckets", "sentences", "curves"),
    "recommendation": ("scores", "buckets", "users", "curves"),
}


def translations(*, hostile: bool = False) -> dict[str, Any]:
    """Three systems, two of them of one group."""
    corpus, other = make_corpus(sentences=45, rates=(0.1, 0.3), seed=9), make_corpus(sentences=45, seed=9)
    first, references = list(corpus.first), list(corpus.references)
    if hostile:
        first[3], references[3] = HOSTILE, f"{HOSTILE} right"
    systems = [
        System("a1", first, "a", FACTS),
        System(HOSTILE if hostile else "a2", other.first, "a", FACTS),
        System("b", corpus.second),
    ]
    sources = [line.upper() for line in references]
    test = EvaluationSet(references, sources, {"source": "test.de", "reference": "test.en"})
    return compare_translations(test, systems, settings=QUICK)


def taggings() -> dict[str, Any]:
    gold = [["D", "N", "V"], ["D", "A", "N"]] * 12
    other = [["D", "N", "N"], ["D", "A", "N"]] * 12
    words = [["the", "dog", "barks"], ["a", "red", "tree"]] * 12
    systems = [TaggedSystem("first", gold), TaggedSystem("second", other)]
    return compare_taggings(TaggedTest(words, gold, False, {"path": "test.conllu"}), systems, samples=50)


def language_models() -> dict[str, Any]:
    lines = ["a b c", "b c", "c c c c"] * 10
    losses = [
        [[1.0 + system * (place % 3)] * (len(line.split()) + 1) for place, line in enumerate(lines)]
        for system in (0, 1)
    ]
    systems = [ScoredSystem(name, rows, 120) for name, rows in zip(("first", "second"), losses, strict=True)]
    return compare_language_models(TextTest(lines, {"path": "test.txt"}), systems, samples=50)


def retrievals() -> dict[str, Any]:
    test = RetrievalTest([*retrieval.SOURCES[:-1], HOSTILE], retrieval.TEST.targets, {"path": "test.en"})
    return compare_retrievals(test, [retrieval.FIRST, retrieval.SECOND], samples=50)


def recordings() -> dict[str, Any]:
    """Two systems that make errors, in groups, and one that makes none."""
    test, (noisy, better) = transcripts(1)
    hostile = [f"{HOSTILE} {better.transcripts[0]}", *better.transcripts[1:]]
    systems = [
        noisy._replace(facts=FACTS, group="a"),
        better._replace(transcripts=hostile, group="b"),
        TranscribedSystem("right", test.references),
    ]
    return compare_transcripts(test, systems, samples=QUICK.samples)


def rankings() -> dict[str, Any]:
    """Two recommenders that rank the targets of twelve users, one of which the second does not rank at all."""
    first, second = [1, 5, 2, 40, 3, 9, 1, 2, 7, 11, 30, 4], [1, 1, 1, 12, 3, 2, 4, 1, 7, 0, 3, 1]
    test = RankedTest(
        [HOSTILE, *(f"u{number}" for number in range(11))],
        [f"item{number}" for number in range(12)],
        [number % 7 for number in range(12)],
        [3 * number for number in range(12)],
        {"path": "users.txt", "seen_excluded": True},
    )
    systems = [RankedSystem("popularity", first, FACTS), RankedSystem("sasrec", second)]
    return compare_recommendations(test, systems, samples=50)


DOCUMENTS = {
    "translation": translations,
    "tagging": taggings,
    "language-modelling": language_models,
    "embedding": retrievals,
    "recognition": recordings,
    "recommendation": rankings,
}


def show(page: Page, tab: str) -> None:
    page.locator(f'[role="tab"][data-name="{tab}"]').click()
    expect(page.locator(f".panel-{tab}")).to_be_visible()


@pytest.mark.parametrize("task", DOCUMENTS)
def test_every_view_is_drawn_in_both_languages(open_page: Open, task: str) -> None:
    page = open_page(DOCUMENTS[task](), view=VIEW).page
    texts = {}
    for language in ("en", "zh"):
        page.locator(f'[data-value="{language}"]').click()
        for tab in TABS[task]:
            show(page, tab)
            texts[tab, language] = page.locator(f".panel-{tab}").inner_text()
            assert len(texts[tab, language]) > 20
            assert KEYS.search(texts[tab, language]) is None
    assert all(texts[tab, "en"] != texts[tab, "zh"] for tab, _ in texts)


@pytest.mark.parametrize("task", ["tagging", "language-modelling", "embedding", "recommendation"])
def test_a_test_that_was_not_made_is_not_shown(open_page: Open, task: str) -> None:
    document = DOCUMENTS[task]()
    panel = open_page(document, view=VIEW).page.locator(".panel-scores")
    expect(panel).to_contain_text("p-values")
    cells = panel.locator("th, td").count()
    document["randomisation"]["samples"] = 0
    for system in document["systems"]:
        system |= {"p_values": None, "p_value": None}
    panel = open_page(document, view=VIEW).page.locator(".panel-scores")
    expect(panel).not_to_contain_text("p-value")
    assert 0 < panel.locator("th, td").count() < cells


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("task", DOCUMENTS)
def test_there_are_no_serious_barriers(open_page: Open, task: str, theme: str, axe: str) -> None:
    page = open_page(DOCUMENTS[task](), view=VIEW).page
    page.locator(f'[data-value="{theme}"]').click()
    page.evaluate(axe)
    for tab in TABS[task]:
        show(page, tab)
        assert page.evaluate(AXE) == [], tab


@pytest.mark.parametrize("task", DOCUMENTS)
def test_a_phone_does_not_scroll_sideways(open_page: Open, task: str) -> None:
    page = open_page(DOCUMENTS[task](), view=VIEW, width=390).page
    for tab in TABS[task]:
        show(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, tab


def test_scores_are_those_of_the_document(open_page: Open) -> None:
    document = translations()
    page = open_page(document, view=VIEW).page
    table = page.locator(".panel-scores table").first
    for system in document["systems"]:
        expect(table).to_contain_text(f"{system['scores']['bleu']:.2f}")
    for metric in document["metrics"]:
        expect(page.locator(".panel-scores")).to_contain_text(metric["signature"])


@pytest.mark.parametrize(("p_value", "stars"), [(0.04, True), (0.4, False)])
def test_the_star_is_explained_where_there_is_one(open_page: Open, p_value: float, stars: bool) -> None:
    document = translations()
    document["groups"] = None
    for test in document["significance"]:
        for results in test["systems"].values():
            for result in results[1:]:
                result["p_value"] = 0.4
    document["significance"][0]["systems"]["ter"][1]["p_value"] = p_value
    panel = open_page(document, view=VIEW).page.locator(".panel-scores")
    expect(panel.get_by_text("* p < 0.05")).to_have_count(int(stars))
    expect(panel.locator("table").first).not_to_contain_text("*")  # one test of two is not enough for a score
    expect(panel.locator("td", has_text="*")).to_have_count(int(stars))


def test_sentences_are_sorted_and_highlighted(open_page: Open) -> None:
    document = translations()
    page = open_page(document, view=VIEW).page
    show(page, "sentences")
    items = document["sentences"]["items"]

    def gain(item: dict[str, Any]) -> float:
        return float(item["systems"][1]["scores"]["bleu"] - item["systems"][0]["scores"]["bleu"])

    best, worst = max(items, key=gain), min(items, key=gain)
    assert page.locator(".compared").count() == 20
    expect(page.locator(".compared h3").first).to_contain_text(f"Line {best['line']}")
    page.get_by_label("Sort by").select_option("loss")
    expect(page.locator(".compared h3").first).to_contain_text(f"Line {worst['line']}")
    shown = page.locator(".compared").first.locator("dd").nth(2)
    assert shown.inner_text().split() == "".join(worst["systems"][0]["words"]).split()
    expected = [f"match-{length}" for length in worst["systems"][0]["matches"]]
    classes = shown.locator(".match").evaluate_all("spans => spans.map((span) => span.classList[1])")
    assert classes == expected
    page.locator('[data-value="differences"]').click()
    changed = [step for step in worst["systems"][1]["difference"] if step[0] != "="]
    marks = page.locator(".compared").first.locator("dd").nth(3).locator("ins, del")
    assert marks.count() >= len(changed)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("status").first).to_contain_text("21–40 of 45")


def test_the_keyboard_alone_reaches_everything(open_page: Open) -> None:
    page = open_page(translations(), view=VIEW).page
    page.locator('[role="tab"][aria-selected="true"]').focus()
    for tab in (*TABS["translation"][1:], TABS["translation"][0]):
        page.keyboard.press("ArrowRight")
        expect(page.locator(f'[role="tab"][data-name="{tab}"]')).to_be_focused()
        expect(page.locator(f".panel-{tab}")).to_be_visible()


def test_hostile_text_stays_text(open_page: Open) -> None:
    page = open_page(translations(hostile=True), view=VIEW).page
    for tab in TABS["translation"]:
        show(page, tab)
        assert page.locator("main img, main script").count() == 0
    assert page.title() == "calque inspect"


@pytest.mark.parametrize("task", DOCUMENTS)
def test_captions_are_whole_on_a_phone(open_page: Open, task: str) -> None:
    page = open_page(DOCUMENTS[task](), view=VIEW, width=360).page
    for tab in TABS[task]:
        show(page, tab)
        for item in page.locator(f".panel-{tab} .table-caption").all():
            box = item.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
            assert item.evaluate("item => item.scrollWidth <= item.clientWidth")
    show(page, "scores")
    if task != "translation":
        return
    first = page.locator(".panel-scores table").first
    assert first.evaluate("item => item.offsetWidth <= item.parentElement.clientWidth")


def test_every_tick_of_a_bucket_chart_has_a_name_and_undefined_measures_are_not_drawn(open_page: Open) -> None:
    document = translations()
    frequency = next(section for section in document["words"] if section["id"] == "word-frequency")
    for system in frequency["systems"]:
        system[0] |= {"reference": 0, "recall": 0.0}
    page = open_page(document, view=VIEW).page
    for tab in ("buckets", "words"):
        show(page, tab)
        page.wait_for_selector(f".panel-{tab} svg.chart")
        labels = page.locator(f".panel-{tab} .axis text[text-anchor=middle]").all_text_contents()
        assert labels and all(label.strip() for label in labels)
    block = page.locator(".panel-words section").first
    markers = block.locator(".chart-plane .marker")
    page.wait_for_selector(".panel-words .marker")
    before = markers.count()
    assert before == sum(len(system) for system in frequency["systems"])
    page.locator(".panel-words").get_by_label("Measure").select_option("recall")
    expect(markers).to_have_count(before - len(frequency["systems"]))


def test_errors_and_confusions_of_transcripts_are_those_of_the_document(open_page: Open) -> None:
    document = recordings()
    page = open_page(document, view=VIEW).page
    errors = document["systems"][0]["errors"]["wer"]
    row = page.locator(".panel-scores tr", has_text="words").filter(has_text=str(errors["length"])).first
    for kind in ("substitutions", "insertions", "deletions"):
        expect(row).to_contain_text(str(errors[kind]))
    show(page, "confusion")
    first = document["systems"][0]["substituted"][0]
    top = page.locator(".panel-confusion table").first.locator("tbody tr").first
    for text in (first["reference"], first["hypothesis"], str(first["count"])):
        expect(top).to_contain_text(text)
    page.locator(".panel-confusion select").select_option("2")
    expect(page.locator(".panel-confusion")).to_contain_text("This system makes no errors.")
    show(page, "sentences")
    expect(page.locator(".panel-sentences article").first.locator("del, ins").first).to_be_visible()


def test_ranks_are_those_of_the_document(open_page: Open) -> None:
    document = rankings()
    page = open_page(document, view=VIEW).page
    scores = document["systems"][1]["scores"]
    expect(page.locator(".panel-scores table").first).to_contain_text(f"{scores['ndcg@10']:.4f}")
    show(page, "users")
    rows = page.locator(".panel-users tbody tr")
    expect(rows).to_have_count(len(document["users"]["items"]))
    for place, item in enumerate(document["users"]["items"]):
        expect(rows.nth(place)).to_contain_text(item["target"])
        expect(rows.nth(place).locator("td").last).to_have_text(str(item["ranks"][1] or "none"))
