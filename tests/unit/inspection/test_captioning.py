"""What an inspected image shows: the probabilities that search used, and attention where it lies."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.captioned import picture
from tests.laws.captioners import DECODERS, ENCODERS, IMAGE_LAYERS

from calque.engine import Captioner
from calque.errors import DataError
from calque.inspection.captioning import caption_values, draw_caption, inspect_caption
from calque.inspection.document import as_base64
from calque.inspection.image_attention import overlaid, smooth_map
from calque.models.captioner import CaptionerConfig, CaptionerModel
from calque.search.settings import SearchConfig
from calque.tasks.captioning import CaptioningConfig
from calque.text import WordsConfig, WordsTokenizer

SEARCH = SearchConfig(beam=3, maximum=6)


def build(decoder: str = "soft") -> Captioner:
    """An untrained captioner of images of 12 × 12 pixels."""
    torch.manual_seed(1)
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=["a red square at the top left", "<b>bold</b> corner"])
    config = CaptionerConfig(image=IMAGE_LAYERS["grid"], encoder=ENCODERS["none"], decoder=DECODERS[decoder])
    model = CaptionerModel(config, vocabulary_size=len(tokenizer.vocabulary)).double().eval()
    return Captioner(model, tokenizer, config=config, task=CaptioningConfig(size=12), search=SEARCH, longest=7)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    picture("red", "top left", size=24).save(tmp_path / "image.png")
    return tmp_path / "image.png"


@pytest.mark.parametrize("decoder", ["soft", "hard", "transformer", "recurrent"])
def test_steps_add_up_to_the_caption(image: Path, decoder: str) -> None:
    view = inspect_caption(build(decoder), image, search=SEARCH)
    assert sum(step.log_prob for step in view.steps) == pytest.approx(view.best.log_prob, abs=1e-8)
    assert len(view.candidates) == 3
    assert (view.words is None) == (decoder == "recurrent")
    for word, attention in view.words or ():
        assert word and attention.shape == (9,) and attention.sum() == pytest.approx(1)


def test_values_are_complete_and_pages_have_pictures(image: Path) -> None:
    view = inspect_caption(build(), image, search=SEARCH)
    values = caption_values(view)
    assert values["source"] == {"text": str(image), "width": 24, "height": 24}
    assert [len(word["weights"]) for word in values["attention"]["words"]] == [9] * len(view.words or ())
    page = caption_values(view, weights=as_base64)
    url = page["source"]["picture"]
    content = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    assert np.array_equal(np.array(Image.open(io.BytesIO(content))), view.picture.pixels)
    assert all(word["picture"].startswith("data:image/png") for word in page["attention"]["words"])


def test_an_image_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none: no such file"):
        inspect_caption(build(), tmp_path / "none", search=SEARCH)


def test_a_map_is_brightest_where_attention_is() -> None:
    for cell in range(16):
        bright = smooth_map(np.eye(16)[cell], side=4, size=64)
        row, column = divmod(int(bright.argmax()), 64)
        assert (row // 16, column // 16) == divmod(cell, 4) and bright.max() == 1 and bright.min() >= 0
    even = smooth_map(np.full(16, 1 / 16), side=4, size=64)
    assert np.allclose(even, 1)
    white = np.full((64, 64, 3), 255, dtype=np.uint8)
    assert (overlaid(white, np.full(16, 1 / 16), side=4) == 255).all()
    shown = overlaid(white, np.eye(16)[5], side=4)
    assert shown[24, 24].min() > 200 and shown[60, 60].max() < 50


def test_attention_is_drawn(image: Path, tmp_path: Path) -> None:
    view = inspect_caption(build(), image, search=SEARCH)
    assert draw_caption(tmp_path / "attention.png", view, picture="attention") == []
    with Image.open(tmp_path / "attention.png") as drawn:
        assert drawn.width > drawn.height > 100
