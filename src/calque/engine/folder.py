"""Model folders: written whole or not at all, checked before anything in them is used."""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from safetensors.torch import save_file
from torch import nn

from calque.config import Config, Values, check, read_toml, to_toml
from calque.devices import DeviceName, PrecisionName, choose_device, choose_precision
from calque.engine.tagger import Tagger, tagger_sizes
from calque.engine.text_generator import TextGenerator
from calque.engine.translator import Translator
from calque.errors import ConfigError, FolderError, TextError
from calque.evaluation.confidence import Confidence
from calque.folders import MANIFEST, verify_folder, write_folder
from calque.folders.upgrades import upgrade_model
from calque.folders.weights import load_weights_into, read_weights, refuse_unfit, weights_of
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.tagger import TaggerConfig, TaggerModel
from calque.search.settings import SearchConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.tagging import TaggingConfig
from calque.tasks.translation import TranslationConfig
from calque.tensors import weightless
from calque.text import FormsConfig, TaggerVocabularies, load_tokenizer, load_tokenizers, save_columns, save_tokenizers
from calque.text.splitting import LengthProfile

AnyModel = TypeVar("AnyModel", bound=nn.Module)

KIND, FORMAT, FORMATS = "model", 2, (1, 2)
WEIGHTS, CONFIDENCE, CONFUSION = "weights.safetensors", "confidence.json", "confusion.json"
PROFILE, EARLIER_PROFILE = "length_profile.json", "usual.json"


class TranslationFolder(Config):
    """What the folder of a translation model says of itself, in its config.toml."""

    task: TranslationConfig
    vocabularies: dict[str, int]
    """How many pieces each column has."""
    joint: bool = False
    """Whether source and target have the same pieces."""
    model: ModelConfig
    search: SearchConfig


class LanguageModelFolder(Config):
    """What the folder of a language model says of itself."""

    task: LanguageModellingConfig
    vocabularies: dict[str, int]
    """How many pieces each column has."""
    model: LanguageModelConfig
    search: SearchConfig


class TaggerFolder(Config):
    """What the folder of a tagger says of itself."""

    task: TaggingConfig
    text: FormsConfig
    vocabularies: dict[str, int]
    """How many ids each column has, labels included."""
    columns: tuple[str, ...] = ()
    """The names of the columns of the files it was trained on; empty for CoNLL-U."""
    model: TaggerConfig


Loaded = Translator | TextGenerator | Tagger
"""What `calque.load` gives: by the task that the model was trained for."""


def save_model(path: Path, translator: Translator, *, card: str, artefacts: Mapping[str, bytes] | None = None) -> None:
    """Writes a model folder, whole or not at all: config, tokenizer, weights, manifest and a card for its readers.

    `artefacts` are what a validation learnt about the model, such as its confidence, in place of what was known before.
    """
    known = {} if translator.confidence is None else {CONFIDENCE: confidence_bytes(translator.confidence)}
    tokenizers = translator.tokenizers
    described = TranslationFolder(
        task=TranslationConfig(),
        vocabularies={name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()},
        joint=tokenizers.joint,
        model=translator.config,
        search=translator.search,
    )

    def fill(folder: Path) -> None:
        save_tokenizers(tokenizers, folder / "tokenizer")
        if translator.length_profile is not None:
            (folder / PROFILE).write_text(json.dumps(translator.length_profile._asdict()), encoding="ascii")
        write_parts(folder, described, model=translator.model, card=card, artefacts={**known, **(artefacts or {})})

    write_model_folder(path, fill=fill)


def confidence_bytes(confidence: Confidence) -> bytes:
    """What a model folder says of confidence, in the file of that name."""
    return json.dumps(confidence._asdict()).encode("ascii")


def save_language_model(
    path: Path, generator: TextGenerator, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a language model, whole or not at all."""
    described = LanguageModelFolder(
        task=generator.task,
        vocabularies={"text": len(generator.tokenizer.vocabulary)},
        model=generator.config,
        search=generator.search,
    )

    def fill(folder: Path) -> None:
        save_columns({"text": generator.tokenizer}, folder / "tokenizer")
        write_parts(folder, described, model=generator.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def save_tagger(path: Path, tagger: Tagger, *, card: str, artefacts: Mapping[str, bytes] | None = None) -> None:
    """Writes the folder of a tagger, whole or not at all."""
    described = TaggerFolder(
        task=tagger.task,
        text=tagger.vocabularies.config,
        vocabularies=tagger.vocabularies.sizes(),
        columns=tagger.columns,
        model=tagger.config,
    )

    def fill(folder: Path) -> None:
        tagger.vocabularies.save(folder / "tokenizer")
        write_parts(folder, described, model=tagger.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def write_model_folder(path: Path, *, fill: Callable[[Path], None], format: int = FORMAT) -> None:
    """A model folder that `fill` writes, whole or not at all."""
    write_folder(path, kind=KIND, format=format, fill=fill, replace=True)


def write_parts(
    folder: Path, described: Config, *, model: nn.Module, card: str, artefacts: Mapping[str, bytes]
) -> None:
    """What every model folder holds."""
    (folder / "config.toml").write_text(to_toml(described), encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")
    save_file(weights_of(model), folder / WEIGHTS)
    for name, content in artefacts.items():
        (folder / name).write_bytes(content)


def load(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "float32") -> Loaded:
    """The model in a run folder (its `model/`) or a model folder; checked before anything in it is used.

    A translator, a text generator or a tagger, by its task. `precision` is what its weights are kept and multiplied in;
    probabilities are in float32 at least.
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


def load_translator(
    path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "float32"
) -> Translator:
    """`load` of a translation model; any other is refused with what it can do."""
    loaded = load(path, device=device, precision=precision)
    if isinstance(loaded, Translator):
        return loaded
    if isinstance(loaded, Tagger):
        raise FolderError(f"{path}: is a tagger, which translates nothing; `calque tag {path}` labels words with it")
    raise FolderError(
        f"{path}: is a language model, which translates nothing; `calque score {path} --target FILE` tells how "
        f"likely a text is, `calque generate {path}` writes text, and `calque translate RUN --language {path}` lets it "
        "help a translator"
    )


def _identity(folder: Path) -> tuple[int, ...]:
    """Changes when another folder takes the place of a run's model."""
    return tuple(one.stat().st_ino for one in (folder, folder / "model") if one.exists())


def _load(folder: Path, *, device: DeviceName, precision: PrecisionName) -> Loaded:
    if (folder / "model").is_dir():
        folder = folder / "model"
    if not folder.is_dir():
        found = "is a file, and no run or model folder" if folder.exists() else "no such run or model folder"
        raise FolderError(f"{folder}: {found}")
    if (folder / "config.toml").is_file() and not any((folder / name).exists() for name in (MANIFEST, WEIGHTS)):
        raise FolderError(f"{folder}: no model here yet; `calque train --resume {folder}` goes on until there is one")
    chosen = choose_device(device)
    kind = choose_precision(precision, device=chosen)
    manifest = verify_folder(folder, kind=KIND, formats=FORMATS)
    try:
        values = upgrade_model(read_toml(folder / "config.toml"), format=manifest.format, origin=str(folder))
        loaded = _read_folder(folder, values, format=manifest.format)
    except (ConfigError, TextError) as error:
        raise FolderError(f"{folder} cannot be used:\n{error}") from None
    loaded.model.to(device=chosen, dtype=kind).eval()
    return loaded


def _read_folder(folder: Path, values: Values, *, format: int) -> Loaded:
    origin = str(folder / "config.toml")
    task = values.get("task")
    match task.get("kind") if isinstance(task, dict) else None:
        case "language-modelling":
            return _read_language_model(folder, check(LanguageModelFolder, values, origin=origin, written=True))
        case "tagging":
            return _read_tagger(folder, check(TaggerFolder, values, origin=origin, written=True))
        case _:
            described = check(TranslationFolder, values, origin=origin, written=True)
            return _read_translator(folder, described, format=format)


def _read_translator(folder: Path, described: TranslationFolder, *, format: int) -> Translator:
    tokenizers = load_tokenizers(folder / "tokenizer")
    sizes = {name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()}
    _refuse_other_pieces(folder, sizes, described.vocabularies, agree=tokenizers.joint == described.joint)
    shape = Sizes(sizes["source"], sizes["target"], tokenizers.joint)
    model = _filled(partial(Model, described.model, sizes=shape), folder=folder)
    translator = Translator(model, tokenizers, config=described.model, search=described.search)
    translator.confidence = _read_confidence(folder / CONFIDENCE)
    translator.length_profile = _read_profile(folder / (PROFILE if format > 1 else EARLIER_PROFILE))
    return translator


def _read_language_model(folder: Path, described: LanguageModelFolder) -> TextGenerator:
    tokenizer = load_tokenizer(folder / "tokenizer", column="text")
    size = len(tokenizer.vocabulary)
    _refuse_other_pieces(folder, {"text": size}, described.vocabularies, agree=True)
    model = _filled(partial(LanguageModel, described.model, vocabulary_size=size), folder=folder)
    return TextGenerator(model, tokenizer, config=described.model, task=described.task, search=described.search)


def _read_tagger(folder: Path, described: TaggerFolder) -> Tagger:
    vocabularies = TaggerVocabularies.load(folder / "tokenizer", config=described.text)
    is_same = set(vocabularies.columns) == set(described.task.inputs)
    _refuse_other_pieces(folder, vocabularies.sizes(), described.vocabularies, agree=is_same)
    sizes = tagger_sizes(vocabularies, inputs=described.task.inputs)
    model = _filled(partial(TaggerModel, described.model, sizes=sizes), folder=folder)
    return Tagger(model, vocabularies, config=described.model, task=described.task, columns=described.columns)


def _refuse_other_pieces(folder: Path, found: dict[str, int], described: dict[str, int], *, agree: bool) -> None:
    if found != described or not agree:
        raise FolderError(f"{folder}: the tokenizer and config.toml disagree on the pieces")


def _filled(build: Callable[[], AnyModel], *, folder: Path) -> AnyModel:
    """The model that a folder describes, with its weights; nothing is allocated before all sizes fit."""
    origin = str(folder / WEIGHTS)
    weights = read_weights(folder / WEIGHTS)
    with weightless():
        refuse_unfit(build(), weights, origin=origin)
    model = build()
    load_weights_into(model, weights, origin=origin)
    return model


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


def _read_profile(path: Path) -> LengthProfile | None:
    if not path.exists():
        return None
    try:
        found = LengthProfile(**json.loads(path.read_text(encoding="ascii")))
        if all(type(value) is int and value > 0 for value in found):
            return found
    except (ValueError, TypeError, RecursionError):
        pass
    raise FolderError(f"{path}: damaged: expected numbers of pieces and sentences")
