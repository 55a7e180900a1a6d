"""The captioner: complete requests in, a caption or an error for each of them out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.captioned import captioning_values, picture, write_images
from tests.conftest import without_plots

import calque
from calque.data.batching import BatchConfig, Planned
from calque.data.buckets import Size
from calque.data.caption_batch import collate_captions
from calque.data.image_manifests import Box
from calque.data.images import Picture, read_image
from calque.data.prepare import open_prepared
from calque.engine import Captioner, CaptionRequest
from calque.engine.captioner_boxes import box_attention, manifest_entries, piece_ends, square_box
from calque.errors import CalqueError, ConfigError, DataError, OutOfMemory, TextError
from calque.experiment import train
from calque.objectives.cross_entropy import loss_of
from calque.search.settings import SearchConfig
from calque.text import WordsConfig, WordsTokenizer
from calque.training.runs import STORE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captioner")
    with without_plots():
        train(captioning_values(folder, captions=2), run=folder / "run", quiet=True)
    return folder


@pytest.fixture
def captioner(folder: Path) -> Captioner:
    loaded = calque.load(folder / "run", device="cpu")
    assert isinstance(loaded, Captioner)
    return loaded


@pytest.fixture
def files(folder: Path) -> list[Path]:
    return [folder / "valid" / f"{number}.png" for number in range(6)]


def test_paths_bytes_and_arrays_are_captioned_alike(captioner: Captioner, files: list[Path]) -> None:
    text = captioner.caption(files[0])
    assert isinstance(text, str) and text
    pixels = read_image(files[0], size=16).pixels
    assert captioner.caption([str(files[0]), files[0].read_bytes(), pixels]) == [text] * 3
    best = captioner.caption(files[0], nbest=3)
    assert best[0] == text and len(set(best)) == 3
    with pytest.raises(TypeError, match="did you mean nbest"):
        captioner.caption(files[0], n_best=3)  # type: ignore[call-overload]
    assert "Captioner(grid to bahdanau" in repr(captioner)


def test_a_caption_does_not_depend_on_its_company(captioner: Captioner, files: list[Path]) -> None:
    captioner.model.double()
    alone = [next(captioner.answers([CaptionRequest(path, nbest=2, detail=True)])) for path in files]
    small = captioner.search.model_copy(update={"batch_tokens": 40})
    for search in (captioner.search, small):
        together = list(captioner.answers(CaptionRequest(path, search, nbest=2, detail=True) for path in files))
        for one, other in zip(alone, together, strict=True):
            assert not isinstance(one, CalqueError) and not isinstance(other, CalqueError)
            for left, right in zip(one.candidates, other.candidates, strict=True):
                assert left.text == right.text and left.log_prob == pytest.approx(right.log_prob, abs=1e-9)
                assert left.detail is not None and right.detail is not None
                assert np.allclose(left.detail.attention, right.detail.attention, atol=1e-9)


def test_details_add_up_to_what_search_found(captioner: Captioner, files: list[Path]) -> None:
    captioner.model.double()
    for answer in captioner.answers(CaptionRequest(path, nbest=2, detail=True) for path in files):
        assert not isinstance(answer, CalqueError)
        for candidate in answer.candidates:
            assert candidate.detail is not None and candidate.detail.attention is not None
            assert sum(candidate.detail.log_probs) == pytest.approx(candidate.log_prob, abs=1e-8)
            attention = np.array(candidate.detail.attention)
            assert attention.shape == (candidate.pieces, 16) and np.allclose(attention.sum(axis=1), 1)


def test_an_error_concerns_its_request_alone(captioner: Captioner, files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    beam = captioner.search.model_copy(update={"beam": 2})
    requests = [
        CaptionRequest(files[0]),
        CaptionRequest(tmp_path / "bad.png"),
        CaptionRequest(files[1], beam, nbest=3),
        CaptionRequest(b"nothing", name="upload"),
        CaptionRequest(files[1], SearchConfig(method="sample")),
        CaptionRequest(files[2]),
    ]
    answers = list(captioner.answers(requests))
    assert [type(answer).__name__ for answer in answers] == [
        "Caption",
        "DataError",
        "TextError",
        "DataError",
        "ConfigError",
        "Caption",
    ]
    assert str(answers[3]).startswith("upload: not an image")
    assert answers[5].text == captioner.caption(files[2])  # type: ignore[union-attr]
    for request, kind in ((requests[1], DataError), (requests[4], ConfigError), (requests[2], TextError)):
        with pytest.raises(kind):
            raise next(captioner.answers([request]))  # type: ignore[misc]
    with pytest.raises(DataError, match=r"bad\.png: "):
        captioner.caption([files[0], tmp_path / "bad.png"])


def test_a_batch_too_large_for_memory_is_halved(captioner: Captioner, files: list[Path], monkeypatch) -> None:
    expected = captioner.caption(list(files))
    encode = Captioner.encode

    def limited(self: Captioner, pixels: list[np.ndarray]) -> object:
        if len(pixels) > 2 or pixels[0].sum() == poison:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return encode(self, pixels)

    poison = -1
    monkeypatch.setattr(Captioner, "encode", limited)
    assert captioner.caption(list(files)) == expected
    poison = int(read_image(files[3], size=16).pixels.sum())
    answers = list(captioner.answers(CaptionRequest(path) for path in files))
    assert isinstance(answers[3], OutOfMemory)


def test_lengths_are_limited(captioner: Captioner, files: list[Path]) -> None:
    short = captioner.search.model_copy(update={"maximum": 2})
    long = captioner.search.model_copy(update={"minimum": 9, "maximum": 9})
    for search, least, most in ((short, 0, 2), (long, 9, 9)):
        answer = next(captioner.answers([CaptionRequest(files[0], search, detail=True)]))
        assert not isinstance(answer, CalqueError) and answer.candidates[0].detail is not None
        assert least <= len(answer.candidates[0].detail.pieces) <= most
    assert captioner.longest == 7  # a red square at the top left


def test_the_loss_of_a_store_is_that_of_all_its_captions(captioner: Captioner, folder: Path) -> None:
    """One caption at a time, without batches."""
    captioner.model.double()
    store = open_prepared(folder / "run" / STORE).valid
    total, tokens = 0.0, 0
    for row in range(len(store)):
        for turn in range(2):
            one = collate_captions(store, Planned(np.array([row]), Size(1, (16, 8))), turn=turn)
            with torch.no_grad():
                output = captioner.model(one.source, one.target_input)
                total += float(loss_of(captioner.model, output, one, smoothing=0.0).cross_entropy)
            tokens += one.weight
    loss = captioner.store_loss(store, batch=BatchConfig(tokens=100))
    assert loss == pytest.approx(total / tokens, abs=1e-9)


def test_attention_is_measured_at_the_words_that_name_an_object(captioner: Captioner, folder: Path) -> None:
    entries = manifest_entries(folder / "valid" / "manifest.jsonl")
    named = list(box_attention(captioner, entries))
    assert len(named) == len(entries) and all(item.area == pytest.approx(0.25) for item in named)
    entry = entries[0]
    words = entry.captions[0].split()
    scores = captioner.score([read_image(entry.image, size=16)], [entry.captions[0]])[0]
    assert scores.attention is not None
    grid = scores.attention[words.index("square")].view(4, 4)
    left, top = (int(side) // 4 for side in entry.boxes[0][:2])
    assert named[0].inside == pytest.approx(float(grid[top : top + 2, left : left + 2].sum()), abs=1e-6)


def test_boxes_move_with_the_image() -> None:
    """A wide image lies in the middle of its square."""
    wide = Picture(np.zeros((64, 64, 3), dtype=np.uint8), 200, 100)
    assert square_box(Box(0, 0, 200, 100, (0, 1)), wide) == pytest.approx((0, 0.25, 1, 0.75))
    assert square_box(Box(100, 50, 150, 100, (0, 1)), wide) == pytest.approx((0.5, 0.5, 0.75, 0.75))


def test_pieces_end_where_their_text_does() -> None:
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=["a red circle"])
    assert piece_ends(tokenizer, tokenizer.encode("a red circle")) == [1, 5, 12]


def test_manifests_to_evaluate_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('\n{"image": 1}\n')
    with pytest.raises(DataError, match=r"m\.jsonl: line 2: expected"):
        manifest_entries(path)
    path.write_text("\n")
    with pytest.raises(DataError, match="no images"):
        manifest_entries(path)
    manifest = write_images(tmp_path / "some", images=2)
    assert [entry.image.name for entry in manifest_entries(manifest)] == ["0.png", "1.png"]
    assert picture("red", "top left").size == (16, 16)
