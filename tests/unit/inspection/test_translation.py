"""What inspection shows of a translation is what the translator computes: texts, scores, probabilities, attention."""

import json

import pytest
import torch
from tests.conftest import learning, made_once, still_and, toy_corpus, toy_values

import calque
from calque import Request, SearchConfig, Translator
from calque.errors import ConfigError, TextError
from calque.inspection.attention_maps import MEAN
from calque.inspection.beam_tree import BeamTree
from calque.inspection.document import as_base64, as_lists, inspection_document, model_summary, sentence_values
from calque.inspection.translation import inspect_translation
from calque.inspection.what_if import Move

MODELS = ["luong", "transformer", "plain"]
TEXT = "a b c d"
SEARCH = SearchConfig(beam=4, coverage=0.2, end_normalisation=0.1, reward=0.05)


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Translator]:
    folder = tmp_path_factory.mktemp("inspected")
    corpus = toy_corpus(folder, pairs=150, change=list)

    def values(model: str) -> dict[str, object]:
        return toy_values(corpus, model, *learning(steps=20, rate=0.01), *still_and(width=16))

    make = made_once(values, folder=lambda: folder / f"run{len(list(folder.iterdir()))}")
    return {name: calque.load(make(name).folder) for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_the_view_is_of_the_translation_that_is_returned_otherwise(
    name: str, translators: dict[str, Translator]
) -> None:
    translator = translators[name]
    search = SEARCH if translator.attends else SEARCH.model_copy(update={"coverage": 0.0})
    request = Request(TEXT, search=search, detail=True)
    best = translator.engine().answer(request).candidates[0]
    view = inspect_translation(translator, request)
    assert (view.target, view.is_cut, view.confidence) == (best.text, best.cut, best.confidence)
    assert view.log_prob == best.log_prob
    assert view.score is not None
    assert view.score.total == pytest.approx(best.score, abs=1e-5)
    assert best.detail is not None
    assert [step.log_prob for step in view.steps] == pytest.approx(best.detail.log_probs, abs=1e-5)
    assert view.source_pieces == [*best.detail.source, "</s>"]
    assert view.target_pieces == [*best.detail.pieces, *([] if best.cut else ["</s>"])]
    assert view.alignment == best.detail.alignment
    if best.detail.attention is not None:
        torch.testing.assert_close(view.maps[0].weights[0], torch.tensor(best.detail.attention), rtol=0, atol=1e-5)
    assert bool(view.saliency) == (not translator.attends)


@pytest.mark.parametrize("name", MODELS)
def test_the_beam_leads_to_the_answer_and_narrower_beams_are_searched(
    name: str, translators: dict[str, Translator]
) -> None:
    translator = translators[name]
    search = SearchConfig(beam=4)
    view = inspect_translation(translator, Request(TEXT, search=search))
    beam = view.beam
    assert beam is not None
    by_id = {candidate.id: candidate for step in beam.tree.steps for candidate in step.candidates}
    path = [by_id[id] for id in beam.answer]
    assert [beam.pieces[candidate.token] for candidate in path] == view.target_pieces
    assert path[-1].log_prob == pytest.approx(view.log_prob, abs=1e-5)
    assert [narrower.beam for narrower in beam.narrower] == [1, 2, 3]
    for narrower in beam.narrower:
        assert narrower.text == translator.translate(TEXT, beam=narrower.beam)
        assert narrower.finds == (narrower.text == view.target)


@pytest.mark.parametrize("name", MODELS)
def test_runners_up_are_the_likeliest_other_pieces(name: str, translators: dict[str, Translator]) -> None:
    view = inspect_translation(translators[name], TEXT)
    for step in view.steps:
        others = [alternative.log_prob for alternative in step.runners_up]
        assert len(others) == 5
        assert others == sorted(others, reverse=True)
        assert step.piece not in [alternative.piece for alternative in step.runners_up]
        assert sum(value > step.log_prob for value in others) == min(step.rank - 1, 5)
        assert step.entropy >= 0


def test_a_given_translation_is_scored_as_the_translator_scores_it(translators: dict[str, Translator]) -> None:
    for translator in translators.values():
        view = inspect_translation(translator, TEXT, target="d c b a")
        (scored,) = translator.score([TEXT], ["d c b a"])
        assert view.is_given
        assert [step.log_prob for step in view.steps] == pytest.approx(scored.log_probs, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_given_translation_stands_beside_the_models_own(name: str, translators: dict[str, Translator]) -> None:
    translator = translators[name]
    search = SEARCH if translator.attends else SEARCH.model_copy(update={"coverage": 0.0})
    request = Request(TEXT, search=search)
    own = inspect_translation(translator, request)
    view = inspect_translation(translator, request, target="d c b a")
    assert view.own is not None and own.own is None
    assert view.score is not None and own.score is not None
    assert (view.own.text, view.own.log_prob) == (own.target, own.log_prob)
    assert view.own.score == pytest.approx(own.score.total, abs=1e-5)
    assert view.beam == own.beam
    assert [outcome.beam for outcome in view.own.beams] == list(range(1, search.beam + 1))
    for outcome in view.own.beams:
        narrow = inspect_translation(
            translator, request._replace(search=search.model_copy(update={"beam": outcome.beam}))
        )
        assert narrow.beam is not None
        kept = kept_prefixes(narrow.beam.tree)
        lost = next((size for size in range(1, 6) if tuple(view.target_ids[:size]) not in kept), None)
        assert (outcome.text, outcome.lost_at) == (narrow.target, None if outcome.finds else lost)
        assert outcome.finds == (narrow.target_ids == view.target_ids)
        assert outcome.is_stopped == (lost is not None and lost > len(narrow.beam.tree.steps))
    assert any(outcome.lost_at is not None for outcome in view.own.beams)


@pytest.mark.parametrize("name", MODELS)
def test_a_models_own_translation_has_the_same_score_when_it_is_given(
    name: str, translators: dict[str, Translator]
) -> None:
    translator = translators[name]
    search = SEARCH if translator.attends else SEARCH.model_copy(update={"coverage": 0.0})
    for text in ("a b c d", "d a b", "c c b a d a"):
        request = Request(text, search=search)
        own = inspect_translation(translator, request)
        view = inspect_translation(translator, request, target=own.target)
        assert view.own is not None
        assert view.score is not None
        assert view.score.total == pytest.approx(view.own.score, abs=1e-4)
        assert view.own.beams[-1].finds


def kept_prefixes(tree: BeamTree) -> set[tuple[int, ...]]:
    """The tokens of every candidate that was kept or ended."""
    tokens: dict[int, tuple[int, ...]] = {0: ()}
    kept = set()
    for step in tree.steps:
        for candidate in step.candidates:
            tokens[candidate.id] = (*tokens[candidate.parent], candidate.token)
            if candidate.fate != "dropped":
                kept.add(tokens[candidate.id])
    return kept


@pytest.mark.parametrize("name", MODELS)
def test_hypotheses_that_ended_are_listed_with_what_they_score(name: str, translators: dict[str, Translator]) -> None:
    translator = translators[name]
    search = SEARCH.model_copy(update={"coverage": 0.0})
    view = inspect_translation(translator, Request(TEXT, search=search))
    assert view.beam is not None and view.score is not None
    ended = view.beam.ended
    scores = [item.score.total for item in ended]
    assert (ended[0].text, scores[0]) == (view.target, pytest.approx(view.score.total, abs=1e-5))
    assert scores == sorted(scores, reverse=True)
    wide = Request(TEXT, search=search, nbest=2)
    best = translator.engine().answer(wide).candidates
    assert [item.text for item in best if not item.cut][:1] == [ended[0].text]
    for item, scored in zip(ended, translator.score([TEXT] * len(ended), [item.text for item in ended]), strict=True):
        assert item.log_prob == pytest.approx(scored.log_prob, abs=1e-4)


def test_an_ensemble_shows_the_probabilities_of_all_its_models(translators: dict[str, Translator]) -> None:
    luong = translators["luong"]
    both = luong.with_ensemble([translators["plain"]])
    view = inspect_translation(both, TEXT)
    best = both.engine().answer(Request(TEXT, detail=True)).candidates[0]
    assert best.detail is not None
    assert [step.log_prob for step in view.steps] == pytest.approx(best.detail.log_probs, abs=1e-5)


@pytest.mark.parametrize("name", ["luong", "transformer"])
def test_attention_that_is_moved_changes_one_position_and_what_follows(
    name: str, translators: dict[str, Translator]
) -> None:
    translator = translators[name]
    before = inspect_translation(translator, TEXT, target="a b c d")
    after = inspect_translation(translator, TEXT, target="a b c d", moves=[Move(2, 4)])
    for first, second in zip(before.maps, after.maps, strict=True):
        if second.kind == "source" and second.name != MEAN:
            expected = torch.zeros(second.weights.shape[2])
            expected[3] = 1
            assert torch.equal(second.weights[:, 1], expected.expand(second.heads, -1))
        if first.kind == "source":
            torch.testing.assert_close(first.weights[:, 0], second.weights[:, 0], rtol=0, atol=1e-5)
    assert before.steps[0].log_prob == pytest.approx(after.steps[0].log_prob, abs=1e-5)
    assert before.steps[1].log_prob != pytest.approx(after.steps[1].log_prob, abs=1e-5)
    searched = inspect_translation(translator, TEXT, moves=[Move(1, 3)])
    assert searched.log_prob == pytest.approx(sum(step.log_prob for step in searched.steps), abs=1e-4)


def test_what_cannot_be_inspected_is_refused(translators: dict[str, Translator]) -> None:
    with pytest.raises(TextError, match="the text is empty"):
        inspect_translation(translators["luong"], " ")
    with pytest.raises(ConfigError, match="this model has no attention"):
        inspect_translation(translators["plain"], TEXT, moves=[Move(1, 1)])
    with pytest.raises(ConfigError, match="source piece 9: the source has only 5 pieces"):
        inspect_translation(translators["luong"], TEXT, moves=[Move(1, 9)])
    for text in ("3", "3:0", "a:b", "3:5:1", "٣:1"):
        with pytest.raises(ConfigError, match="is not a move of attention"):
            Move.parse(text)


@pytest.mark.parametrize("name", MODELS)
def test_documents_are_json(name: str, translators: dict[str, Translator]) -> None:
    translator = translators[name]
    view = inspect_translation(translator, TEXT, saliency=True)
    summary = model_summary(translator, name="run")
    for weights in (as_lists, as_base64):
        document = inspection_document([sentence_values(view, weights=weights)], task="translation", models=[summary])
        assert json.loads(json.dumps(document, allow_nan=False)) == document
    sentence = sentence_values(view)
    assert sentence["source"]["words"][0] == [0, 0]
    assert (sentence["attention"] is None) == (not translator.attends)
    assert len(sentence["saliency"]) == 2
    assert sum(len(step["candidates"]) for step in sentence["beam"]["steps"]) == len(
        {candidate["id"] for step in sentence["beam"]["steps"] for candidate in step["candidates"]}
    )


def test_base64_weights_are_sixteen_bits_each() -> None:
    import base64

    import numpy as np

    weights = torch.rand(2, 3, 4)
    encoded = as_base64(weights)
    values = np.frombuffer(base64.b64decode(encoded["uint16"]), dtype="<u2").reshape(encoded["shape"]) / 65535
    np.testing.assert_allclose(values, weights.numpy(), atol=0.5 / 65535 + 1e-9)
