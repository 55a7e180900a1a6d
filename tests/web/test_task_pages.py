"""The pages of the tasks beside translation in a browser, most of them of documents that real models gave."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import soundfile
import torch
from playwright.sync_api import expect

from calque.data.audio import Sound
from calque.engine import Sentence
from calque.inspection.attention_maps import AttentionMap
from calque.inspection.captioning import caption_values, inspect_caption
from calque.inspection.document import as_base64, as_lists, inspection_document, model_summary
from calque.inspection.language_model import inspect_text
from calque.inspection.phrase_view import PhraseStep, PhraseView, phrase_values
from calque.inspection.recognition import inspect_recording, recogniser_summary, recording_values
from calque.inspection.recommendation import CandidateItem, RecommendationView, recommendation_values
from calque.inspection.sentence_similarity import encoder_summary, inspect_similarity, similarity_values
from calque.inspection.tagging import inspect_tagging
from calque.inspection.task_documents import tagger_summary, tagging_values, text_values
from calque.search.settings import SearchConfig
from tests.captioned import picture
from tests.unit.engine.test_recogniser import recogniser, sound
from tests.unit.engine.test_sentence_vectors import sentence_encoder
from tests.unit.engine.test_text_generator import BEAM
from tests.unit.engine.test_text_generator import build as build_generator
from tests.unit.inspection.test_captioning import SEARCH as CAPTION_SEARCH
from tests.unit.inspection.test_captioning import build as build_captioner
from tests.unit.inspection.test_tagging import build as build_tagger
from tests.web.documents import Document
from tests.web.test_inspection import AXE, Open, minus, show

KEYS = re.compile(
    r"\b(tab|text|tagging|summary|attention|steps|phrases|similarity|captioning|recognition|recommendation)\.[a-z]"
)
"""What a string without a translation would look like."""
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


def captioning_page(decoder: str) -> Document:
    captioner = build_captioner(decoder)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{HOSTILE.replace('/', ' ')}.png"
        picture("red", "top left").save(path)
        values = caption_values(inspect_caption(captioner, path, search=CAPTION_SEARCH), weights=as_base64)
    return inspection_document([values], task="captioning", models=[model_summary(captioner, name="runs/scenes")])


def recognition_page(head: str, *, weights: Callable[..., object] = as_base64, target: str | None = None) -> Document:
    model = recogniser(head)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{HOSTILE.replace('/', ' ')}.wav"
        given: Sound = sound(3, words=2)
        soundfile.write(path, given.samples, given.rate)
        view = inspect_recording(model, path, search=SearchConfig(beam=3, maximum=6), target=target)
    values = recording_values(view, weights=weights)
    return inspection_document([values], task="recognition", models=[recogniser_summary(model, name="runs/speech")])


def recommendation_page(*, attends: bool, histories: int = 1) -> Document:
    """Histories as a recommender would show them; the last has no known item."""
    items = ["shampoo", HOSTILE, "香皂"]
    candidates = [
        CandidateItem("conditioner", math.log(0.5), 12, False),
        CandidateItem(HOSTILE, math.log(0.3), 1200, True),
        CandidateItem("comb", math.log(0.1), 3, False),
    ]
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.2, 0.3, 0.5]]])
    maps = [AttentionMap("blocks.0.attention", "decoder", 1, weights)] if attends else []
    contributions = [[0.25, -0.75, 1.5], [0.1, 0.2, 0.3], [-0.1, 0.0, 0.4]]
    known = RecommendationView(items, 1, False, True, candidates, contributions[0], contributions, maps)
    cold = RecommendationView([], 2, True, False, candidates, [], [[], [], []], [])
    views = [*[known] * (histories - 1 if histories > 1 else 1), *([cold] if histories > 1 else [])]
    model = {"name": "runs/shop", "architecture": "transformer recommender", "parameters": 3116, "items": 30}
    values = [recommendation_values(view, weights=as_base64) for view in views]
    return inspection_document(values, task="recommendation", models=[model | {"attends": attends}])


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
    "captions": (lambda: captioning_page("soft"), {"summary", "attention", "steps"}),
    "captions without attention": (lambda: captioning_page("recurrent"), {"summary", "steps"}),
    "ctc": (lambda: recognition_page("ctc"), {"summary", "posteriors", "tokens"}),
    "hybrid": (
        lambda: recognition_page("hybrid", weights=as_lists, target="low high"),
        {"summary", "posteriors", "attention", "tokens", "steps"},
    ),
    "attention decoder": (lambda: recognition_page("attention"), {"summary", "attention", "tokens", "steps"}),
    "recommendations": (lambda: recommendation_page(attends=True), {"summary", "contributions", "attention"}),
    "recommendations without attention": (
        lambda: recommendation_page(attends=False),
        {"summary", "contributions"},
    ),
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
            assert KEYS.search(texts[tab, language]) is None
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


def test_the_page_of_a_caption_has_a_picture_per_word(open_page: Open) -> None:
    document = captioning_page("soft")
    (image,) = document["sentences"]
    page = open_page(document).page
    expect(page.locator(".panel-summary")).to_contain_text(minus(image["log_prob"]))
    show(page, "attention")
    pictures = page.locator(".panel-attention img")
    words = [word["word"] for word in image["attention"]["words"]]
    expect(pictures).to_have_count(len(words) + 1)
    assert page.locator(".panel-attention figcaption").all_inner_texts()[1:] == words
    assert all(pictures.nth(place).evaluate("one => one.naturalWidth") == 12 for place in range(len(words) + 1))


def test_the_page_of_a_recording_shows_the_documents_numbers(open_page: Open) -> None:
    document = recognition_page("hybrid", weights=as_lists)
    (recording,) = document["sentences"]
    page = open_page(document).page
    summary = page.locator(".panel-summary")
    for candidate in recording["candidates"]:
        expect(summary).to_contain_text(minus(candidate["ctc"]))
        expect(summary).to_contain_text(minus(candidate["decoder"]))
    expect(page.locator(".panel-summary .time-name")).to_have_text([item["word"] for item in recording["words"]])
    expect(summary).to_contain_text("Transcripts that search found")
    cut = sum(candidate["cut"] for candidate in recording["candidates"]) + recording["target"]["cut"]
    assert cut and summary.inner_text().count("(cut at the maximum length)") == cut
    show(page, "posteriors")
    labels = recording["ctc"]["labels"]
    expect(page.locator(".panel-posteriors")).to_contain_text(f"of {len(labels)} of {recording['ctc']['total']} labels")
    expect(page.locator(".panel-posteriors .time-row")).to_have_text(labels)
    expect(page.locator(".panel-posteriors .time-frame")).to_have_count(len(recording["tokens"]))
    plane = page.locator(".panel-posteriors .time-plane")
    plane.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    value = recording["ctc"]["posteriors"][1][1]
    expect(page.locator(".tooltip")).to_contain_text(labels[1])
    expect(page.locator(".tooltip")).to_contain_text(f"{value:.3f}")
    expect(page.locator(".tooltip")).to_contain_text(f"at {recording['source']['position']:.2f} s")
    show(page, "attention")
    expect(page.locator(".panel-attention .time-row")).to_have_text(recording["attention"]["rows"])


def test_the_page_of_a_given_transcript_says_so(open_page: Open) -> None:
    summary = open_page(recognition_page("hybrid", target="low high")).page.locator(".panel-summary")
    expect(summary).to_contain_text("The given transcript, and those that search found")


def test_features_and_attention_are_drawn_where_they_are(open_page: Open) -> None:
    """The brightest pixel of attention to one position alone is at the time of that position."""
    document = recognition_page("attention", weights=as_lists)
    (recording,) = document["sentences"]
    rows, positions = len(recording["attention"]["rows"]), len(recording["attention"]["weights"][0])
    place = positions // 3
    recording["attention"]["weights"] = [[float(column == place) for column in range(positions)]] * rows
    page = open_page(document).page
    show(page, "attention")
    expect(page.locator(".panel-attention .time-row")).to_have_count(rows)  # drawn
    darkest = page.locator(".panel-attention canvas").evaluate(
        """canvas => {
            const {data} = canvas.getContext("2d").getImageData(0, canvas.height >> 1, canvas.width, 1);
            let best = 0;
            for (let x = 0; x < canvas.width; x += 1) if (data[4 * x] < data[4 * best]) best = x;
            return best / canvas.width;
        }"""
    )
    step = recording["source"]["position"] / recording["source"]["seconds"]
    assert place * step <= darkest + 0.01 and darkest <= (place + 1) * step


def test_the_page_of_a_recommendation_shows_the_documents_numbers(open_page: Open) -> None:
    document = recommendation_page(attends=True)
    (history,) = document["sentences"]
    page = open_page(document).page
    summary = page.locator(".panel-summary")
    expect(summary).to_contain_text("Influence on the recommendation of")
    rows = page.locator(".panel-summary table tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("yes")
    expect(rows.nth(0)).to_contain_text("0.500")
    plane = page.locator(".panel-summary .chart-plane")
    expect(plane.locator("svg")).to_have_count(1)  # keys are lost before it is drawn
    plane.focus()
    page.keyboard.press("End")
    expect(page.locator(".tooltip")).to_contain_text("1.500")
    show(page, "contributions")
    plane = page.locator(".panel-contributions .heatmap-plane")
    plane.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tooltip")).to_contain_text("−0.750")
    for tab in ("contributions", "attention"):
        show(page, tab)
        expect(page.locator(f".panel-{tab} .heatmap-columns .heatmap-label")).to_have_text(history["items"])


def test_histories_are_listed_and_cold_ones_say_so(open_page: Open) -> None:
    page = open_page(recommendation_page(attends=False, histories=3)).page
    page.locator("details summary").first.click()
    expect(page.locator("table.overview tbody tr")).to_have_count(3)
    page.locator("table.overview tbody tr").nth(2).locator("button").click()
    expect(page.locator(".panel-summary")).to_contain_text("the most popular items are recommended")
    assert {tab.get_attribute("data-name") for tab in page.locator('[role="tab"]').all()} == {"summary"}


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_scrolls_only_downwards(open_page: Open, name: str) -> None:
    build, tabs = PAGES[name]
    page = open_page(build(), width=360).page
    for tab in sorted(tabs):
        show(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab
