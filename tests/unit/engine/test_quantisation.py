"""Model folders in 8 bits: the answers of the original with 8-bit products, and a quarter of its size."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.unit.engine.test_tagger import tagger

from calque.config import check
from calque.engine import (
    Tagger,
    TextGenerator,
    Translator,
    load,
    load_translator,
    save_language_model,
    save_model,
    save_tagger,
)
from calque.engine.folder import has_int8_weights
from calque.engine.model_files import INT8_FORMAT, WEIGHTS, write_model_folder
from calque.engine.quantisation import quantise_model
from calque.errors import ConfigError, FolderError
from calque.experiment.averaging import average_run
from calque.experiment.warm_start import refuse_unfit_start
from calque.folders import MANIFEST
from calque.layers import int8
from calque.layers.int8_linear import Int8Linear, from_levels, to_levels
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.search.settings import SearchConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.text import Tokenizers
from calque.text.bytes import BytesTokenizer

EARLIER = Path(__file__).parents[2] / "formats" / "pairs_only" / "models"
LINES = ["a station", "Größe!", "x", "the trains are late today, all of them", "no", "a station is open"]
WIDE = {"layers": 2, "width": 128, "embedding": 128}
TRANSFORMER = {"kind": "transformer", "layers": 2, "width": 128, "heads": 4, "feed_forward": 512}
MODELS = {
    "transformer": {"tie": "all", "encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "lstm": {
        "encoder": {"kind": "recurrent", **WIDE, "width": 256},
        "decoder": {"kind": "luong", "input_feeding": True, **WIDE, "width": 256},
    },
    "gru": {
        "encoder": {"kind": "recurrent", "cell": "gru", **WIDE, "width": 256},
        "decoder": {"kind": "bahdanau", "width": 256, "embedding": 128},
    },
    "convolutional": {
        "encoder": {"kind": "convolutional", **WIDE, "maximum_positions": 80},
        "decoder": {"kind": "convolutional", **WIDE, "maximum_positions": 80},
    },
}
SEARCH = SearchConfig(maximum=12, beam=4)


def save(path: Path, name: str, *, seed: int = 3) -> Path:
    """The folder of an untrained translation model."""
    torch.manual_seed(seed)
    tokenizer = BytesTokenizer()
    size = len(tokenizer.vocabulary)
    config = check(ModelConfig, MODELS[name], origin=name)
    model = Model(config, sizes=Sizes(size, size, True)).eval()
    save_model(path, Translator(model, Tokenizers(tokenizer, tokenizer), config=config, search=SEARCH), card="# x\n")
    return path


@pytest.fixture(scope="module", params=MODELS)
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model folder and the same one in 8 bits; tests must not change them."""
    place = tmp_path_factory.mktemp("folders")
    quantise_model(save(place / "float", request.param), place / "int8")
    return place / "float", place / "int8"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A model folder in 8 bits that a test may damage."""
    quantise_model(save(tmp_path / "float", "transformer"), tmp_path / "int8")
    return tmp_path / "int8"


def answers(translator: Translator, *, beam: int) -> list[tuple[str, float, float]]:
    search = SEARCH.model_copy(update={"beam": beam})
    return [
        (candidate.text, candidate.log_prob, candidate.score)
        for translation in translator.stream(LINES, search=search, nbest=min(2, beam))
        for candidate in translation.candidates
    ]


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_the_original_with_8_bit_products(folders: tuple[Path, Path], beam: int) -> None:
    original, stored = (
        load_translator(folders[0], device="cpu", precision="int8"),
        load_translator(folders[1], device="cpu"),
    )
    assert any(isinstance(module, Int8Linear) for module in stored.model.modules())
    assert answers(stored, beam=beam) == answers(original, beam=beam)
    assert list(stored.score(LINES, LINES[::-1])) == list(original.score(LINES, LINES[::-1]))
    assert answers(load_translator(folders[1], device="cpu", precision="int8"), beam=beam) == answers(stored, beam=beam)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_have_the_same_bits_in_every_batch(folders: tuple[Path, Path], beam: int) -> None:
    translator = load_translator(folders[1], device="cpu")
    search = SEARCH.model_copy(update={"beam": beam})
    together = [translation.candidates[0] for translation in translator.stream(LINES, search=search)]
    alone = [next(translator.stream([line], search=search)).candidates[0] for line in LINES]
    assert [(item.text, item.log_prob) for item in together] == [(item.text, item.log_prob) for item in alone]


def test_in_float_the_weights_are_the_rounded_ones(folders: tuple[Path, Path]) -> None:
    exact, rounded = (load_translator(path, device="cpu", precision="float32") for path in folders)
    expected = dict(exact.model.named_parameters())
    for name, value in rounded.model.named_parameters():
        own = expected[name]
        assert torch.equal(value, from_levels(to_levels(own)) if int8.is_rounded(own) else own)
    for one, other in zip(exact.score(LINES, LINES), rounded.score(LINES, LINES), strict=True):
        assert other.log_prob == pytest.approx(one.log_prob, rel=0.05)
    assert load(folders[1], device="cpu", precision="float64").model.output.weight.dtype == torch.float64


def test_the_folder_is_small_and_says_what_it_is(folders: tuple[Path, Path]) -> None:
    before, after = ((folder / WEIGHTS).stat().st_size for folder in folders)
    assert after < 0.29 * before
    manifest = json.loads((folders[1] / MANIFEST).read_text())
    assert (manifest["kind"], manifest["format"], manifest["details"]) == ("model", 4, {"weights": "int8"})
    assert "rounded to 8 bits" in (folders[1] / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in folders[0].iterdir()}
    assert {path.name for path in folders[1].iterdir()} == names
    assert has_int8_weights(folders[1]) and not has_int8_weights(folders[0])


def test_ensembles_mix_precisions(tmp_path: Path, small: Path) -> None:
    other = load_translator(save(tmp_path / "other", "lstm", seed=4), device="cpu")
    rounded = load_translator(small, device="cpu")
    exact = load_translator(small.parent / "float", device="cpu")
    mixed = answers(rounded.with_ensemble([other]), beam=4)
    assert mixed != answers(rounded, beam=4)
    close = answers(exact.with_ensemble([other]), beam=4)
    assert mixed[0][1] == pytest.approx(close[0][1], rel=0.05)


def test_language_models_and_taggers(tmp_path: Path) -> None:
    torch.manual_seed(5)
    tokenizer = BytesTokenizer()
    config = check(LanguageModelConfig, {"network": TRANSFORMER}, origin="test")
    model = LanguageModel(config, vocabulary_size=len(tokenizer.vocabulary)).eval()
    generator = TextGenerator(model, tokenizer, config=config, task=LanguageModellingConfig(), search=SEARCH)
    save_language_model(tmp_path / "language", generator, card="")
    quantise_model(tmp_path / "language", tmp_path / "language8")
    rounded, stored = (
        load(tmp_path / "language", device="cpu", precision="int8"),
        load(tmp_path / "language8", device="cpu"),
    )
    assert isinstance(rounded, TextGenerator) and isinstance(stored, TextGenerator)
    assert list(stored.score(LINES)) == list(rounded.score(LINES)) != list(generator.score(LINES))

    save_tagger(tmp_path / "tagger", tagger(dtype=torch.float32), card="")
    with pytest.raises(FolderError, match="none of its weights has at least 64 rows"):
        quantise_model(tmp_path / "tagger", tmp_path / "tagger8")
    assert not (tmp_path / "tagger8").exists()


def test_a_tagger_in_8_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "NARROWEST", 2)
    save_tagger(tmp_path / "tagger", tagger(dtype=torch.float32), card="", artefacts={"confusion.json": b"[]"})
    quantise_model(tmp_path / "tagger", tmp_path / "tagger8")
    rounded, stored = (
        load(tmp_path / "tagger", device="cpu", precision="int8"),
        load(tmp_path / "tagger8", device="cpu"),
    )
    assert isinstance(rounded, Tagger) and isinstance(stored, Tagger)
    assert stored.tag("They watch .") == rounded.tag("They watch .")
    assert (tmp_path / "tagger8" / "confusion.json").exists()


@pytest.mark.parametrize("name", ["luong-copying", "convolutional"])
def test_a_folder_of_an_earlier_format(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "NARROWEST", 2)
    earlier = EARLIER / name / "model"
    quantise_model(earlier, tmp_path / "int8")
    rounded, stored = (
        load_translator(earlier, device="cpu", precision="int8"),
        load_translator(tmp_path / "int8", device="cpu"),
    )
    assert stored.translate(["a be cab", "dad"]) == rounded.translate(["a be cab", "dad"])
    assert stored.length_profile == rounded.length_profile is not None


def reseal(folder: Path, *, change: Callable[[dict[str, torch.Tensor]], object], format: int = INT8_FORMAT) -> None:
    """Changes the weights of a folder and writes a manifest that fits them."""
    weights = load_file(folder / WEIGHTS)
    change(weights)

    def fill(new: Path) -> None:
        shutil.copytree(folder, new, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))
        save_file(weights, new / WEIGHTS)

    write_model_folder(folder, fill=fill, format=format)


NAME = "encoder.embedding.weight"  # and, as all are tied, that of the decoder and of the output layer
DAMAGES: dict[str, tuple[Callable[[dict[str, torch.Tensor]], object], str]] = {
    "no scales": (lambda weights: weights.pop(f"{NAME}.scales"), f"{NAME}.scales is missing"),
    "too few scales": (
        lambda weights: weights.update({f"{NAME}.scales": torch.ones(3)}),
        rf"{NAME}.scales has shape \(3,\) of torch.float32, expected \(\d+,\) of torch.float32",
    ),
    "scales in another type": (
        lambda weights: weights.update({f"{NAME}.scales": weights[f"{NAME}.scales"].double()}),
        "of torch.float64, expected",
    ),
    "negative scales": (lambda weights: weights[f"{NAME}.scales"].neg_(), "not all scales are positive"),
    "infinite weights": (lambda weights: weights[f"{NAME}.scales"].fill_(1e38), "not all scales are positive"),
    "scales that are not numbers": (
        lambda weights: weights[f"{NAME}.scales"].fill_(torch.nan),
        "values that are not finite",
    ),
    "scales of nothing": (lambda weights: weights.update({"x.scales": torch.ones(3)}), "x.scales is unknown"),
    "scales without levels": (lambda weights: weights.pop(NAME), f"{NAME} is missing"),
    "another shape": (
        lambda weights: weights.update({NAME: weights[NAME][:, :5].contiguous()}),
        rf"{NAME} has shape \(\d+, 5\)",
    ),
    "levels of a vector": (
        lambda weights: weights.update({"output.bias": weights["output.bias"].to(torch.int8)}),
        "output.bias has shape .*, expected a matrix",
    ),
    "other integers": (lambda weights: weights.update({NAME: weights[NAME].long()}), f"{NAME} has dtype torch.int64"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_weights_that_do_not_fit_together_are_named(small: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    reseal(small, change=change)
    with pytest.raises(FolderError, match=message):
        load(small, device="cpu")


def test_a_manifest_and_weights_that_disagree_are_rejected(small: Path) -> None:
    reseal(small, change=lambda _: None, format=2)
    with pytest.raises(FolderError, match=r"the weights do not fit the model:(.|\n)*\.scales is unknown"):
        load(small, device="cpu")


def test_a_manifest_without_its_details_is_rejected(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("calque.engine.model_files.INT8_DETAILS", {})
        reseal(small, change=lambda _: None)
    with pytest.raises(FolderError, match=r"is damaged:\n  manifest.json: expected the details"):
        load(small, device="cpu")


def test_what_cannot_be_rounded_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="its weights are already 8-bit"):
        quantise_model(small, tmp_path / "new")
    with pytest.raises(FolderError, match="already exists; choose another folder"):
        quantise_model(tmp_path / "float", small)
    with pytest.raises(FolderError, match="no such run or model folder"):
        quantise_model(tmp_path / "missing", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_training_refuses_rounded_weights(small: Path, tmp_path: Path) -> None:
    translator = load_translator(tmp_path / "float", device="cpu")
    with pytest.raises(
        ConfigError, match="8-bit weights, which can only be used for decoding; use the model from which"
    ):
        refuse_unfit_start(translator.model, translator.tokenizers, config=translator.config, path=small)
    run = tmp_path / "run"
    shutil.copytree(small, run / "model")
    (run / "config.toml").write_text("")
    with pytest.raises(FolderError, match="its model has weights rounded to 8 bits"):
        average_run(run, of="last", count=None, output=tmp_path / "mean")
