"""Documents, tables and pictures of texts and tagged sentences."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.engine.test_text_generator import BEAM
from tests.unit.engine.test_text_generator import build as build_generator
from tests.unit.inspection.test_tagging import ENCODERS, WORDS, sentence
from tests.unit.inspection.test_tagging import build as build_tagger

from calque.commands.inspect_language_models import text_lines
from calque.commands.inspect_taggers import tagging_lines
from calque.engine import Sentence
from calque.errors import DataError
from calque.inspection.document import as_base64, inspection_document, model_summary
from calque.inspection.language_model import inspect_text
from calque.inspection.tagging import inspect_tagging
from calque.inspection.task_documents import tagger_summary, tagging_values, text_values
from calque.inspection.task_pictures import TAGGING_PICTURES, TEXT_PICTURES, draw_tagging, draw_text
from calque.text import CharactersConfig, CharactersTokenizer

HOSTILE = "<script>$\\alpha$ \x1b[31m\u2028\u202e漢"


def as_json(values: dict[str, Any]) -> Any:
    return json.loads(json.dumps(values, allow_nan=False))


@pytest.mark.parametrize("network", ["lstm", "transformer"])
def test_the_document_of_a_text(network: str) -> None:
    generator = build_generator(network)
    view = inspect_text(generator, "w3 w1 w1", search=BEAM, maximum=3)
    summary = model_summary(generator, name="runs/1")
    document = inspection_document([text_values(view)], task="language-modelling", models=[summary])
    assert as_json(document) == document
    (text,) = document["sentences"]
    assert document["model"]["attends"] == (network == "transformer") == (text["saliency"] is None)
    assert (text["attention"] is None) == (network == "lstm")
    assert text["pieces"] == ["w3", "w1", "w1", "</s>"] and text["inputs"] == ["<s>", "w3", "w1", "w1"]
    assert text["words"] == [[0, 0], [1, 1], [2, 2]]
    assert [step["log_prob"] for step in text["steps"]] == [round(step.log_prob, 5) for step in view.steps]
    assert text["perplexity"]["tokens"] == 4 and text["perplexity"]["bytes"] == 9
    assert text["next"][0]["log_prob"] == max(item["log_prob"] for item in text["next"])
    beam, ids = text["continuation"]["beam"], {0}
    for step in beam["steps"]:
        assert {candidate["parent"] for candidate in step["candidates"]} <= ids
        ids |= {candidate["id"] for candidate in step["candidates"]}
    assert beam["steps"][0]["candidates"][0]["parent"] == 0


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_document_of_a_tagged_sentence(head: str, encoder: str) -> None:
    tagger = build_tagger(head, encoder=encoder)
    view, summary = inspect_tagging(tagger, sentence()), tagger_summary(tagger, name="runs/1")
    document = inspection_document([tagging_values(view)], task="tagging", models=[summary])
    assert as_json(document) == document
    (values,) = document["sentences"]
    labels = len(values["labels"])
    assert values["words"] == WORDS and values["labels"] == summary["labels"]
    assert [[len(row) for row in values[name]] for name in ("marginals", "emissions")] == [[labels] * 4] * 2
    assert values["best"]["score"] >= values["runner_up"]["score"] and values["changes"]
    assert (summary["transitions"] is None) == (head == "softmax")
    if summary["transitions"] is not None:
        assert summary["transitions"]["allowed"]["transitions"] == tagger.allowed.transitions.tolist()
        assert torch.tensor(summary["transitions"]["weights"]).shape == (labels, labels)


def test_a_page_gets_compact_weights() -> None:
    view = inspect_tagging(build_tagger(encoder="transformer"), sentence())
    values = tagging_values(view, weights=as_base64)
    packed = base64.b64decode(values["marginals"]["uint16"])
    marginals = torch.tensor([int.from_bytes(packed[at : at + 2], "little") / 65535 for at in range(0, len(packed), 2)])
    torch.testing.assert_close(marginals.view(values["marginals"]["shape"]), view.marginals.float(), rtol=0, atol=1e-5)


def test_tables_have_a_row_for_every_piece_and_word() -> None:
    view = inspect_text(build_generator(), "w3 w1", search=BEAM, maximum=3)
    lines = list(text_lines(view, name="runs/1"))
    assert lines[:2] == ["model        runs/1", "text         w3 w1"]
    assert [line.split()[0] for line in lines[6:9]] == view.pieces
    tagged = inspect_tagging(build_tagger(), sentence())
    lines = list(tagging_lines(tagged))
    rows = [line.split()[:2] for line in lines[3:7]]
    assert rows == [list(pair) for pair in zip(tagged.words, tagged.predicted, strict=True)]
    assert any(line.startswith("second-best sequence") for line in lines)
    assert "unknown words: unseen" in lines


@pytest.mark.parametrize("suffix", ["svg", "png"])
@pytest.mark.parametrize("network", ["lstm", "transformer"])
def test_every_picture_is_drawn(network: str, suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = inspect_text(build_generator(network), "w3 w1", search=BEAM, maximum=3)
    encoder = {"lstm": "recurrent", "transformer": "transformer"}[network]
    tagged = inspect_tagging(build_tagger(encoder=encoder), sentence())
    for picture in TEXT_PICTURES:
        if picture != "heads" or text.maps:
            assert draw_text(tmp_path / f"text-{picture}.{suffix}", text, picture=picture) == []
    for picture in TAGGING_PICTURES:
        if picture != "heads" or tagged.maps:
            assert draw_tagging(tmp_path / f"tagging-{picture}.{suffix}", tagged, picture=picture) == []
    assert all(path.stat().st_size > 1000 for path in tmp_path.iterdir())


def test_pictures_of_what_does_not_exist_are_rejected(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tagged = inspect_tagging(build_tagger("softmax"), sentence())
    with pytest.raises(DataError, match="independently"):
        draw_tagging(tmp_path / "a.svg", tagged, picture="transitions")
    text = inspect_text(build_generator(), "w3")
    with pytest.raises(DataError, match="no beam tree"):
        draw_text(tmp_path / "a.svg", text, picture="beam")
    with pytest.raises(DataError, match="no heads"):
        draw_text(tmp_path / "a.svg", text, picture="heads")
    assert not list(tmp_path.iterdir())


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    words = HOSTILE.split(" ")
    tagged = inspect_tagging(build_tagger(), Sentence(words, {"pos": ["O"] * len(words)}))
    tokenizer = CharactersTokenizer.train(CharactersConfig(), lines=[HOSTILE.replace("\u2028", "")])
    text = inspect_text(build_generator(tokenizer=tokenizer), HOSTILE)
    for line in (*tagging_lines(tagged), *text_lines(text)):
        assert "\x1b" not in line and "\u2028" not in line
    draw_tagging(tmp_path / "a.svg", tagged, picture="marginals")
    draw_text(tmp_path / "b.svg", text, picture="next")
    for path in tmp_path.iterdir():
        drawn = path.read_text(encoding="utf-8")
        assert "<script" not in drawn and "\x1b" not in drawn
