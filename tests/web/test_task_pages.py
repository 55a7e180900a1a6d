"""The pages of language models and taggers in a browser, of documents that real models gave."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from calque.engine import Sentence
from calque.inspection.document import as_base64, as_lists, inspection_document, model_summary
from calque.inspection.language_model import inspect_text
from calque.inspection.phrase_view import PhraseStep, PhraseView, phrase_values
from calque.inspection.sentence_similarity import encoder_summary, inspect_similarity, similarity_values
from calque.inspection.tagging import inspect_tagging
from calque.inspection.task_documents import tagger_summary, tagging_values, text_values
from tests.unit.engine.test_sentence_vectors import sentence_encoder
from tests.unit.engine.test_text_generator import BEAM
from tests.unit.engine.test_text_generator import build as build_generator
from tests.unit.inspection.test_tagging import build as build_tagger
from tests.web.documents import Document
from tests.web.test_inspection import AXE, Open, minus, show

HOSTILE = "<img/src=x/onerror=alert(1)>"


def text_page(network: str) -> Document:
    generator = build_generator(network)
    view = inspect_text(generator, "w3 w1 w1 w6", search=BEAM, maximum=4)
    values = text_values(view, weights=as_base64)
    return inspection_document(
        [values], task="language-modelling", models=[model_summary(generator, name="runs/english")]
    )


def tagging_page(head: str, encoder: str, *, weights: Callable[..., object] = as_base64) -> Document:
    tagger = build_tagger(head, encoder=encoder)
    words = ["the", HOSTILE, "dog", "看见"]
    view = inspect_tagging(tagger, Sentence(words, {"pos": ["O", "B-NP", "I-NP", "O"]}))
    values = tagging_values(view, weights=weights)
    return inspection_document([values], task="tagging", models=[tagger_summary(tagger, name="runs/chunks")])


def phrases_page() -> Document:
    features = {"phrase_target": -1.5, "words": 2.0, "unknown": 0.0}
    weights = {"phrase_target": 0.5, "words": 1.0, "unknown": -10.0}
    steps = [
        PhraseStep(HOSTILE, "zwei Wörter", 1, 2, False, features, 1.25),
        PhraseStep("dog", "dog", 0, 1, True, {**features, "unknown": 1.0}, -8.75),
        PhraseStep("", "", None, None, False, dict.fromkeys(features, 0.0), 0.0),
    ]
    sums = {"phrase_target": -3.0, "words": 4.0, "unknown": 1.0}
    candidates = [("zwei Wörter dog", -7.5), (HOSTILE, -8.0)]
    view = PhraseView("dog x", ["dog", "x"], False, "zwei Wörter dog", -7.5, weights, sums, steps, candidates)
    summary = {"name": "runs/koehn2003", "architecture": "phrase-based", "parameters": 10, "attends": False}
    return inspection_document([phrase_values(view)] * 3, task="statistical translation", models=[summary])


def similarity_page(targets: list[str] | None) -> Document:
    encoder = sentence_encoder()
    view = inspect_similarity(encoder, ["w1 w2", HOSTILE, "w0 看见 w2"], targets)
    values = similarity_values(view, weights=as_base64)
    return inspection_document([values], task="embedding", models=[encoder_summary(encoder, name="runs/captions")])


PAGES: dict[str, tuple[Callable[[], Document], set[str]]] = {
    "lstm": (lambda: text_page("lstm"), {"summary", "steps", "saliency", "continuation", "beam"}),
    "transformer": (lambda: text_page("transformer"), {"summary", "steps", "attention", "continuation", "beam"}),
    "crf": (
        lambda: tagging_page("crf", "recurrent"),
        {"summary", "marginals", "transitions", "emissions", "saliency"},
    ),
    "softmax": (
        lambda: tagging_page("softmax", "transformer", weights=as_lists),
        {"summary", "marginals", "emissions", "attention"},
    ),
    "phrases": (phrases_page, {"summary", "features"}),
    "similarity": (lambda: similarity_page(None), {"summary", "similarity", "projection"}),
    "partners": (lambda: similarity_page(["w1", "w2", "w2 w1"]), {"summary", "similarity", "projection"}),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_view_is_drawn_in_both_languages(open_page: Open, axe: str, name: str) -> None:
    build, tabs = PAGES[name]
    page = open_page(build()).page
    page.evaluate(axe)
    texts = {}
    for language in ("en", "zh"):
        page.locator(f'[data-value="{language}"]').click()
        shown = {tab.get_attribute("data-name") for tab in page.locator('[role="tab"]').all()}
        assert shown == tabs
        for tab in sorted(tabs):
            assert show(page, tab)
            texts[tab, language] = page.locator(f".panel-{tab}").inner_text()
            keys = r"\b(tab|text|tagging|summary|attention|steps|phrases|similarity)\.[a-z]"
            assert re.search(keys, texts[tab, language]) is None
            assert page.evaluate(AXE) == []
    assert all(texts[tab, "en"] != texts[tab, "zh"] for tab in tabs)


def test_the_page_of_a_text_shows_the_documents_numbers(open_page: Open) -> None:
    document = text_page("transformer")
    (text,) = document["sentences"]
    page = open_page(document).page
    summary = page.locator(".panel-summary")
    expect(summary).to_contain_text(minus(text["perplexity"]["per_token"], 2))
    expect(summary).to_contain_text(minus(text["log_prob"]))
    show(page, "attention")
    plane = page.locator(".panel-attention .heatmap-plane").first
    plane.focus()
    page.keyboard.press("End")
    expect(page.locator(".heatmap-columns .active")).to_have_text(text["inputs"][-1])
    columns = page.locator(".panel-attention .heatmap-columns .heatmap-label").all_inner_texts()
    rows = page.locator(".panel-attention .heatmap-rows .heatmap-label").all_inner_texts()
    assert (rows, columns) == (text["pieces"], text["inputs"]), "what is read, not what is predicted, is attended to"


def test_the_page_of_a_tagger_shows_the_documents_numbers(open_page: Open) -> None:
    document = tagging_page("crf", "recurrent", weights=as_lists)
    (sentence,) = document["sentences"]
    page = open_page(document).page
    rows = page.locator(".panel-summary table").first.locator("tbody tr")
    for row, word, label in zip(rows.all(), sentence["words"], sentence["predicted"], strict=True):
        expect(row).to_contain_text(word)
        expect(row).to_contain_text(label)
    expect(page.locator(".panel-summary")).to_contain_text(minus(sentence["runner_up"]["score"]))
    assert page.locator("main img").count() == 0, "a word is text"
    for tab, values in (("marginals", sentence["marginals"]), ("transitions", None)):
        show(page, tab)
        page.locator(f".panel-{tab} details summary").click()
        cells = page.locator(f".panel-{tab} details tbody tr").first.locator("td")
        start = document["model"]["transitions"]["start"]
        expected = [*start, 0.0] if values is None else values[0]
        expect(cells).to_have_text([minus(value) for value in expected])


def test_the_page_of_a_statistical_model_shows_the_documents_numbers(open_page: Open) -> None:
    page = open_page(phrases_page()).page
    expect(page.locator(".panel-summary").first).to_contain_text("(copied)")
    expect(page.locator(".panel-summary").first).to_contain_text(minus(-8.75))
    assert page.locator("main img").count() == 0, "a word is text"
    show(page, "features")
    weights = page.locator(".panel-features tbody tr").last
    expect(weights).to_contain_text("−10.00")


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_scrolls_only_downwards(open_page: Open, name: str) -> None:
    build, tabs = PAGES[name]
    page = open_page(build(), width=360).page
    for tab in sorted(tabs):
        show(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab
