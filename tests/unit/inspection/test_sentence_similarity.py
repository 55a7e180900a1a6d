"""Compared sentences: cosines, ranks and points against the vectors, and what is written of them."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.unit.engine.test_sentence_vectors import sentence_encoder

from calque.commands.inspect_similarity import similarity_lines
from calque.errors import DataError
from calque.inspection.document import as_base64, inspection_document
from calque.inspection.sentence_similarity import (
    SIMILARITY_PICTURES,
    draw_similarity,
    encoder_summary,
    inspect_similarity,
    similarity_values,
)

SOURCES = ["w1 w2", "w3 <script>$\\alpha$ \x1b[31m\u2028漢", "w0 w1 w2", "w5"]
TARGETS = ["w1", "w2 w2", "w2 w1", "w1 w1 w1"]


def test_partners_are_compared_across_sides() -> None:
    encoder = sentence_encoder()
    view = inspect_similarity(encoder, SOURCES, TARGETS)
    rows, columns = encoder.embed(SOURCES, side="source"), encoder.embed(TARGETS, side="target")
    assert np.allclose(view.cosines, rows @ columns.T, atol=1e-6) and view.has_partners
    for row in range(4):
        order = sorted(range(4), key=lambda column: -view.cosines[row, column])
        assert view.nearest(row) == order[0] and view.ranks is not None
        assert view.ranks[row] == 1 + order.index(row)
    both = np.concatenate([rows, columns]).astype(np.float64)
    centred = both - both.mean(axis=0)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(np.abs(view.points), np.abs(centred @ directions[:2].T), atol=1e-5)
    assert view.explained == pytest.approx((values**2 / (values**2).sum())[:2], abs=1e-6)


def test_sentences_without_partners_are_compared_with_each_other() -> None:
    view = inspect_similarity(sentence_encoder(), SOURCES)
    assert np.allclose(view.cosines.diagonal(), 1, atol=1e-6) and view.ranks is None
    assert all(view.nearest(row) != row for row in range(4))
    assert inspect_similarity(sentence_encoder(), ["w1"]).nearest(0) == 0
    assert not any("rank" in line for line in similarity_lines(view))


def test_a_sentence_without_words_is_rejected() -> None:
    for sources, targets in (([" "], None), (["w1"], [""]), ([], None)):
        with pytest.raises(DataError, match="without words"):
            inspect_similarity(sentence_encoder(), sources, targets)


def test_documents_and_tables() -> None:
    encoder = sentence_encoder()
    view = inspect_similarity(encoder, SOURCES, TARGETS)
    summary = encoder_summary(encoder, name="runs/1")
    document = inspection_document([similarity_values(view)], task="embedding", models=[summary])
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert summary["pooling"] == "attention" and summary["width"] == 8
    (values,) = document["sentences"]
    assert np.allclose(values["cosines"], view.cosines, atol=1e-3) and len(values["points"]) == 8
    assert json.dumps(similarity_values(view, weights=as_base64))
    lines = list(similarity_lines(view, name="runs/1"))
    assert lines[0].endswith("runs/1") and len(lines) == 3 + 4
    assert not any("\x1b" in line or "\u2028" in line for line in lines)


@pytest.mark.parametrize("picture", SIMILARITY_PICTURES)
@pytest.mark.parametrize("targets", [None, TARGETS])
def test_pictures(tmp_path: Path, picture: str, targets: list[str] | None) -> None:
    view = inspect_similarity(sentence_encoder(), SOURCES, targets)
    draw_similarity(tmp_path / "p.svg", view, picture=picture)
    assert "w1 w2" in (tmp_path / "p.svg").read_text()
    long = inspect_similarity(sentence_encoder(), ["w1"] * 61)
    with pytest.raises(DataError, match="--limit 60"):
        draw_similarity(tmp_path / "q.svg", long, picture=picture)
