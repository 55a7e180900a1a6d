"""A model with 8-bit products: loaded from any folder, close to float32, independent of the batch, for CPUs alone."""

from pathlib import Path

import pytest
import torch

from calque.devices import choose_precision
from calque.engine import Translator, load_translator, save_model
from calque.errors import ConfigError
from calque.layers.int8_linear import Int8Linear
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from calque.search.settings import SearchConfig
from calque.text import Tokenizers
from calque.text.bytes import BytesTokenizer

LINES = ["a station", "Größe!", "x", "the trains are late today, all of them", "no", "a station is open"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    tokenizer = BytesTokenizer()
    size, settings = len(tokenizer.vocabulary), {"layers": 2, "width": 64, "heads": 4, "feed_forward": 128}
    config = ModelConfig(
        tie="all", encoder=TransformerEncoderConfig(**settings), decoder=TransformerDecoderConfig(**settings)
    )
    model = Model(config, sizes=Sizes(size, size, True)).eval()
    search = SearchConfig(maximum=12)
    path = tmp_path_factory.mktemp("int8") / "model"
    save_model(path, Translator(model, Tokenizers(tokenizer, tokenizer), config=config, search=search), card="")
    return path


def test_scores_are_close_and_do_not_depend_on_the_batch(folder: Path) -> None:
    exact, rounded = (load_translator(folder, device="cpu", precision=name) for name in ("float32", "int8"))
    assert any(isinstance(module, Int8Linear) for module in rounded.model.decoder.modules())
    assert isinstance(rounded.model.output.product, Int8Linear)
    targets = LINES[::-1]
    for one, other in zip(exact.score(LINES, targets), rounded.score(LINES, targets), strict=True):
        assert other.log_prob == pytest.approx(one.log_prob, rel=0.02)
        assert other.log_prob != one.log_prob
    for beam in (1, 4):
        search = SearchConfig(maximum=12, beam=beam)
        together = [translation.candidates[0] for translation in rounded.stream(LINES, search=search)]
        alone = [next(rounded.stream([line], search=search)).candidates[0] for line in LINES]
        assert [(item.text, item.log_prob) for item in together] == [(item.text, item.log_prob) for item in alone]


def test_integers_are_for_cpus() -> None:
    with pytest.raises(ConfigError, match="int8 works only on CPUs, but the device is cuda"):
        choose_precision("int8", device=torch.device("cuda"))
