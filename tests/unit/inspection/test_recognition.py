"""What an inspected recording shows: the scores that search used part by part, alignments, posteriors and attention."""

import json
import math
from itertools import product
from pathlib import Path

import pytest
import soundfile
import torch
from recipes.digits.tones import WORDS
from tests.unit.engine.test_recogniser import HEADS, RATE, language, recogniser, sound

from calque.commands.inspect_questions import Question
from calque.commands.inspect_recognisers import RecordingInspection, recording_lines
from calque.commands.inspect_task import ViewOptions
from calque.engine import TextGenerator
from calque.errors import ConfigError, DataError
from calque.inspection.document import as_base64
from calque.inspection.recognition import inspect_recording, log_prob, recogniser_summary, recording_values
from calque.inspection.recognition_pictures import RECORDING_PICTURES, draw_recording
from calque.inspection.what_if import WhatIf
from calque.layers.ctc import BLANK
from calque.search.ctc_prefix import collapse
from calque.search.ctc_scoring import prefix_log_prob
from calque.search.settings import SearchConfig
from calque.tensors import Padded
from calque.text import EOS

SEARCH = SearchConfig(beam=4, maximum=9, length_penalty=0.0)


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "clip.wav", sound(3, words=2).samples, RATE)
    return tmp_path / "clip.wav"


def all_alignments(log_probs: list[list[float]], tokens: list[int]) -> float:
    """log P of a text by CTC: the forward algorithm over states, with probabilities that are not logarithms."""
    states = [BLANK]
    for token in tokens:
        states += [token, BLANK]
    row = [math.exp(log_probs[0][state]) if place < 2 else 0.0 for place, state in enumerate(states)]
    for scores in log_probs[1:]:
        before = row
        row = []
        for place, state in enumerate(states):
            total = before[place] + (before[place - 1] if place else 0.0)
            if place > 1 and state not in (BLANK, states[place - 2]):
                total += before[place - 2]
            row.append(total * math.exp(scores[state]))
    return math.log(sum(row[-2:]))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("head", ["attention", "hybrid"])
def test_a_transcript_that_was_cut_is_scored_without_an_end(audio: Path, head: str, fused: bool) -> None:
    model = recogniser(head)
    with torch.no_grad():
        model.model.speller.output.bias[EOS] -= 8
    generator = language(model) if fused else None
    search = SearchConfig(beam=3, maximum=4, length_penalty=0.0)
    view = inspect_recording(model, audio, search=search, language=generator)
    found = model.transcribe(audio, search=search, nbest=3, language=generator).candidates
    assert view.best.cut and recording_values(view)["target"]["cut"] and recording_values(view)["candidates"][0]["cut"]
    weighted = [log_prob(item, view.weights) for item in view.candidates]
    assert weighted == pytest.approx([item.log_prob for item in found], abs=1e-3)
    assert len(view.steps) == len(view.tokens) == view.attention.shape[0] == 4
    assert sum(step.log_prob for step in view.steps) == pytest.approx(view.best.decoder, abs=1e-5)
    assert f"{view.text} (cut)" in "\n".join(recording_lines(view))
    given = inspect_recording(model, audio, search=search, target=" ".join(list(WORDS)[:4]))
    assert not given.best.cut and len(given.steps) == 5


def test_the_prefix_probability_of_ctc_sums_over_all_texts_that_begin_so(seed: int) -> None:
    log_probs = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)).double().log_softmax(dim=1)
    texts = {path: collapse(list(path), blank=BLANK) for path in product(range(4), repeat=4)}
    labels = [label for label in range(4) if label != BLANK]
    for tokens in [(), *product(labels), *product(labels, repeat=2), (labels[0],) * 3]:
        total = sum(
            math.exp(sum(float(log_probs[place, label]) for place, label in enumerate(path)))
            for path, text in texts.items()
            if tuple(text[: len(tokens)]) == tokens
        )
        found = prefix_log_prob(log_probs, tokens, blank=BLANK)
        assert found == pytest.approx(math.log(total) if total else -math.inf, abs=1e-9)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_parts_add_up_to_the_log_probability_of_search(audio: Path, head: str, fused: bool) -> None:
    model = recogniser(head)
    generator = language(model) if fused else None
    view = inspect_recording(model, audio, search=SEARCH, language=generator)
    found = model.transcribe(audio, search=SEARCH, nbest=4, language=generator).candidates
    assert [item.text for item in view.candidates] == [item.text for item in found]
    assert [item.score for item in view.candidates] == pytest.approx([item.score for item in found], abs=1e-4)
    if head != "ctc":  # CTC alone is ranked by the alignments that its search kept
        weighted = [log_prob(item, view.weights) for item in view.candidates]
        assert weighted == pytest.approx([item.log_prob for item in found], abs=1e-3)
        steps = sum(step.log_prob for step in view.steps)
        assert steps == pytest.approx(view.best.decoder or 0.0, abs=1e-5)
    assert (view.best.language is not None) == fused


@pytest.mark.parametrize("head", ["ctc", "hybrid"])
def test_ctc_sums_over_all_alignments(audio: Path, head: str) -> None:
    model = recogniser(head)
    if model.model.speller is not None:
        with torch.no_grad():
            model.model.speller.output.bias[EOS] += 8  # no transcript is cut
    view = inspect_recording(model, audio, search=SEARCH)
    samples = torch.from_numpy(model.samples(audio))[None]
    with torch.inference_mode():
        heard = model.model(Padded(samples, torch.tensor([samples.shape[1]])))
        log_probs = model.model.ctc_log_probs(heard)[0].double()
    for item in view.candidates:
        assert not item.cut
        tokens = model.tokenizer.encode(item.text) if item.text else []
        assert item.ctc == pytest.approx(all_alignments(log_probs.tolist(), tokens), abs=1e-4)
    assert view.posteriors is not None and view.labels[0] == "(blank)"
    assert view.posteriors[:, 0].tolist() == pytest.approx(log_probs[:, BLANK].exp().tolist())


@pytest.mark.parametrize("head", HEADS)
def test_words_and_tokens_are_placed_as_transcripts_have_them(audio: Path, head: str) -> None:
    model = recogniser(head)
    view = inspect_recording(model, audio, search=SEARCH)
    answer = model.transcribe(audio, search=SEARCH, timestamps=True)
    assert view.text == answer.text and view.words == answer.words and view.seconds == answer.seconds
    assert all(token.first < token.end for token in view.tokens)
    if view.attention is not None:
        assert view.attention.shape[0] == len(view.tokens) + (not view.best.cut) == len(view.steps)
        assert view.attention.sum(dim=1).tolist() == pytest.approx([1.0] * len(view.steps), abs=1e-5)
    assert view.features.shape == (math.ceil(view.seconds / view.frame), 12)
    assert view.frequencies == sorted(view.frequencies) and view.frequencies[-1] < RATE / 2


@pytest.mark.parametrize("head", HEADS)
def test_a_given_text_is_aligned(audio: Path, head: str) -> None:
    first, second = list(WORDS)[:2]
    view = inspect_recording(recogniser(head), audio, search=SEARCH, target=f"{first} {second}")
    assert view.is_given and view.text == f"{first} {second}" == view.best.text
    assert [token.piece for token in view.tokens] == [first, second]
    assert view.tokens[0].first <= view.tokens[1].first
    lines = "\n".join(recording_lines(view))
    assert "(given)" in lines and "given " in lines


def test_a_text_that_does_not_fit_is_impossible_for_ctc(audio: Path) -> None:
    word = next(iter(WORDS))
    view = inspect_recording(recogniser("ctc"), audio, search=SEARCH, target=" ".join([word] * 500))
    assert view.best.ctc == -math.inf
    assert recording_values(view)["candidates"][0]["ctc"] is None


@pytest.mark.parametrize("head", HEADS)
def test_values_and_pictures_are_complete(audio: Path, tmp_path: Path, head: str) -> None:
    view = inspect_recording(recogniser(head), audio, search=SEARCH)
    values = json.loads(json.dumps(recording_values(view), allow_nan=False))
    assert len(values["features"]["values"]) == len(view.features) and len(values["tokens"]) == len(view.tokens)
    if values["ctc"] is not None:
        assert values["ctc"]["total"] == len(recogniser(head).tokenizer.vocabulary) >= len(values["ctc"]["labels"])
    assert (values["ctc"] is None) == (head == "attention") and (values["attention"] is None) == (head == "ctc")
    json.dumps(recording_values(view, weights=as_base64), allow_nan=False)
    assert recogniser_summary(recogniser(head), name="runs/a")["head"] == head
    for name in RECORDING_PICTURES:
        path = tmp_path / f"{name}.svg"
        if (name, head) in {("posteriors", "attention"), ("attention", "ctc")}:
            with pytest.raises(DataError, match=r"this model has no (CTC|decoder)"):
                draw_recording(path, view, picture=name)
            continue
        assert draw_recording(path, view, picture=name) == []
        assert "seconds" in path.read_text(encoding="utf-8")


def test_the_language_model_is_loaded_with_the_precision_that_was_asked_for(
    audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, loaded = recogniser("ctc"), []

    def spy(path: Path, **how: str) -> TextGenerator:
        loaded.append({"path": path, **how})
        return language(model)

    monkeypatch.setattr("calque.commands.inspect_recognisers.load_language_model", spy)
    options = ViewOptions(["beam=2"], WhatIf(), None, False, None, Path("english"), "cpu", "float64")
    (view,) = RecordingInspection().views({"a": model}, [Question(str(audio))], options)
    assert view.view.best.language is not None and loaded == [
        {"path": Path("english"), "device": "cpu", "precision": "float64"}
    ]


def test_recordings_that_cannot_be_shown_are_errors(audio: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"at most 0\.2 s \(task\.longest\) can be inspected"):
        inspect_recording(recogniser("ctc", longest=0.2), audio)
    with pytest.raises(DataError, match="no such file"):
        inspect_recording(recogniser("ctc"), tmp_path / "none.wav")
    with pytest.raises(ConfigError, match="for speech recognisers; set it to 'beam'"):
        inspect_recording(recogniser("ctc"), audio, search=SearchConfig(method="sample"))
