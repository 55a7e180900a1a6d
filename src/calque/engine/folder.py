"""Model folders: written whole or not at all, checked before anything in them is used."""

import json
import math
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from calque.config import Config, check, read_toml, to_toml
from calque.devices import DeviceName, PrecisionName, choose_device, choose_precision
from calque.engine.translator import Translator
from calque.errors import ConfigError, FolderError, TextError, first_few
from calque.evaluation.confidence import Confidence
from calque.folders import MANIFEST, verify_folder, write_folder
from calque.models.model import Model, ModelConfig, Sizes
from calque.search.settings import SearchConfig
from calque.tensors import weightless
from calque.text import UNK, Tokenizers, load_tokenizers, save_tokenizers
from calque.text.splitting import LengthProfile

KIND, FORMAT = "model", 1
WEIGHTS, CONFIDENCE, USUAL = "weights.safetensors", "confidence.json", "usual.json"


class ModelFolder(Config):
    """What a model folder says of itself, in its config.toml."""

    source_pieces: int
    target_pieces: int
    joint: bool
    model: ModelConfig
    search: SearchConfig


def save_model(path: Path, translator: Translator, *, card: str) -> None:
    """Writes a model folder, whole or not at all: config, tokenizer, weights, manifest and a card for its readers."""
    source, target = translator.tokenizers
    sizes = Sizes(len(source.vocabulary), len(target.vocabulary), translator.tokenizers.joint)
    described = ModelFolder(
        source_pieces=sizes.source,
        target_pieces=sizes.target,
        joint=sizes.joint,
        model=translator.config,
        search=translator.search,
    )

    def fill(folder: Path) -> None:
        (folder / "config.toml").write_text(to_toml(described), encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")
        (folder / "tokenizer").mkdir()
        save_tokenizers(translator.tokenizers, folder / "tokenizer")
        save_file(weights_of(translator.model), folder / WEIGHTS)
        if translator.confidence is not None:
            (folder / CONFIDENCE).write_text(json.dumps(translator.confidence._asdict()), encoding="ascii")
        if translator.length_profile is not None:
            (folder / USUAL).write_text(json.dumps(translator.length_profile._asdict()), encoding="ascii")

    write_folder(path, kind=KIND, format=FORMAT, fill=fill, replace=True)


def load(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "float32") -> Translator:
    """The translator in a run folder (its `model/`) or a model folder; checked before anything in it is used.

    `precision` is what its weights are kept and multiplied in; probabilities are in float32 at least.
    """
    folder = Path(path)
    for _ in range(5):
        try:
            before = _identity(folder)
            return _load(folder, device=device, precision=precision)
        except FolderError:
            if _identity(folder) == before:
                raise  # otherwise a training run put a better model in its place while this one was read
    return _load(folder, device=device, precision=precision)


def _identity(folder: Path) -> tuple[int, ...]:
    """Changes when another folder takes the place of a run's model."""
    return tuple(one.stat().st_ino for one in (folder, folder / "model") if one.exists())


def _load(folder: Path, *, device: DeviceName, precision: PrecisionName) -> Translator:
    if (folder / "model").is_dir():
        folder = folder / "model"
    if not folder.is_dir():
        found = "is a file, and no run or model folder" if folder.exists() else "no such run or model folder"
        raise FolderError(f"{folder}: {found}")
    if (folder / "config.toml").is_file() and not any((folder / name).exists() for name in (MANIFEST, WEIGHTS)):
        raise FolderError(f"{folder}: no model here yet; `calque train --resume {folder}` goes on until there is one")
    chosen = choose_device(device)
    kind = choose_precision(precision, device=chosen)
    verify_folder(folder, kind=KIND, formats={FORMAT})
    try:
        described = check(
            ModelFolder, read_toml(folder / "config.toml"), origin=str(folder / "config.toml"), written=True
        )
        tokenizers = load_tokenizers(folder / "tokenizer")
        model = _fill(described, tokenizers, folder=folder)
    except (ConfigError, TextError) as error:
        raise FolderError(f"{folder} cannot be used:\n{error}") from None
    model.to(device=chosen, dtype=kind).eval()
    translator = Translator(model, tokenizers, config=described.model, search=described.search)
    translator.confidence = _read_confidence(folder / CONFIDENCE)
    translator.length_profile = _read_usual(folder / USUAL)
    return translator


def _fill(described: ModelFolder, tokenizers: Tokenizers, *, folder: Path) -> Model:
    """The model that a folder describes, with its weights; nothing is allocated before all sizes fit."""
    sizes = Sizes(described.source_pieces, described.target_pieces, described.joint, UNK)
    if (len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary), tokenizers.joint) != sizes[:3]:
        raise FolderError(f"{folder}: the tokenizer and config.toml disagree on the pieces")
    weights = _read_weights(folder / WEIGHTS)
    origin = str(folder / WEIGHTS)
    wild = [name for name, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if wild:
        told = "\n  ".join(first_few(sorted(wild)))
        raise FolderError(f"{origin}: the training that made it went wrong; not all are finite numbers in\n  {told}")
    with weightless():
        refuse_unfit(Model(described.model, sizes=sizes), weights, origin=origin)
    model = Model(described.model, sizes=sizes)
    load_weights_into(model, weights, origin=origin)
    return model


def weights_of(model: Model) -> dict[str, Tensor]:
    """Every parameter once, by its first name, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}


def load_weights_into(model: Model, weights: dict[str, Tensor], *, origin: str) -> None:
    """Puts weights into a model that has exactly these parameters; otherwise says what differs."""
    refuse_unfit(model, weights, origin=origin)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(weights[name])
    if fault := model.output.fault():
        raise FolderError(f"{origin}: the weights do not fit the model: output.{fault}")


def refuse_unfit(model: Model, weights: dict[str, Tensor], *, origin: str) -> None:
    """Raises a FolderError that says where a model's parameters and the weights differ."""
    expected = dict(model.named_parameters())
    problems = [f"{name} is missing" for name in expected.keys() - weights.keys()]
    problems += [f"{name} is unknown" for name in weights.keys() - expected.keys()]
    problems += [
        f"{name} has shape {tuple(weights[name].shape)}, expected {tuple(value.shape)}"
        for name, value in expected.items()
        if name in weights and weights[name].shape != value.shape
    ]
    problems += [
        f"{name} is of {weights[name].dtype}, expected {value.dtype}"
        for name, value in expected.items()
        if name in weights and weights[name].is_floating_point() != value.is_floating_point()
    ]
    if problems:
        told = "\n  ".join(first_few(sorted(problems)))
        raise FolderError(f"{origin}: the weights do not fit the model:\n  {told}")


def _read_confidence(path: Path) -> Confidence | None:
    if not path.exists():
        return None
    try:
        knots = tuple((float(x), float(y)) for x, y in json.loads(path.read_text(encoding="ascii"))["knots"])
        if knots and all(math.isfinite(x) and 0 <= y <= 1 for x, y in knots) and list(knots) == sorted(knots):
            return Confidence(knots)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise FolderError(f"{path}: damaged: expected knots of growing numbers")


def _read_usual(path: Path) -> LengthProfile | None:
    if not path.exists():
        return None
    try:
        found = LengthProfile(**json.loads(path.read_text(encoding="ascii")))
        if all(type(value) is int and value > 0 for value in found):
            return found
    except (ValueError, TypeError, RecursionError):
        pass
    raise FolderError(f"{path}: damaged: expected numbers of pieces and sentences")


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FolderError(f"{path}: not a safetensors file: {error}") from None
