"""Model folders: written atomically, verified before anything in them is used."""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from safetensors.torch import save_file
from torch import Tensor, nn

from calque.config import Config, Values, check, read_toml, to_toml
from calque.devices import DeviceName, PrecisionName, choose_device, choose_precision, multiplies_int8
from calque.engine.int8_weights import from_int8
from calque.engine.shortlist import SHORTLIST, read_shortlist, shortlist_bytes
from calque.engine.tagger import Tagger, tagger_sizes
from calque.engine.text_generator import TextGenerator
from calque.engine.translator import Translator
from calque.errors import ConfigError, FolderError, TextError, shell_path
from calque.evaluation.confidence import Confidence
from calque.folders import MANIFEST, verify_folder, write_folder
from calque.folders.manifest import decode, read_manifest
from calque.folders.upgrades import upgrade_length_profile, upgrade_model
from calque.folders.weights import give_weights_to, read_weights, weights_of
from calque.layers.convolution import keep_normalised
from calque.layers.int8 import quantise
from calque.layers.packed import pack
from calque.layers.padded import pad
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.tagger import TaggerConfig, TaggerModel
from calque.parsing import parse_json
from calque.search.graphs import Graphs
from calque.search.settings import LARGEST, SearchConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.tagging import TaggingConfig
from calque.tasks.translation import TranslationConfig
from calque.tensors import weightless
from calque.text import FormsConfig, TaggerVocabularies, load_tokenizer, load_tokenizers, save_columns, save_tokenizers
from calque.text.length_profile import LengthProfile, TargetLimit

AnyModel = TypeVar("AnyModel", bound=nn.Module)

KIND, FORMAT, INT8_FORMAT = "model", 3, 4
FORMATS = (1, 2, FORMAT, INT8_FORMAT)
INT8_DETAILS = {"weights": "int8"}  # in the manifest of a folder whose large weights have 8 bits
WEIGHTS, CONFIDENCE, CONFUSION = "weights.safetensors", "confidence.json", "confusion.json"
PROFILE, EARLIER_PROFILE = "length_profile.json", "usual.json"


class TranslationFolder(Config):
    """The config.toml of a translation model's folder."""

    task: TranslationConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column."""
    joint: bool = False
    """Whether source and target have the same pieces."""
    model: ModelConfig
    search: SearchConfig


class LanguageModelFolder(Config):
    """The config.toml of a language model's folder."""

    task: LanguageModellingConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column."""
    model: LanguageModelConfig
    search: SearchConfig


class TaggerFolder(Config):
    """The config.toml of a tagger's folder."""

    task: TaggingConfig
    text: FormsConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column, labels included."""
    columns: tuple[str, ...] = ()
    """The names of the columns of the training files; empty for CoNLL-U."""
    model: TaggerConfig


AnyLoaded = TypeVar("AnyLoaded", Translator, TextGenerator, Tagger)
Loaded = Translator | TextGenerator | Tagger
"""What `calque.load` returns, depending on the task that the model was trained for."""


def save_model(path: Path, translator: Translator, *, card: str, artefacts: Mapping[str, bytes] | None = None) -> None:
    """Writes a model folder atomically: config, tokenizer, weights, manifest and a model card.

    `artefacts` are files that a validation produced, such as the model's confidence; they replace earlier ones.
    """
    confidence = {} if translator.confidence is None else {CONFIDENCE: confidence_bytes(translator.confidence)}
    tokenizers = translator.tokenizers
    folder_config = TranslationFolder(
        task=TranslationConfig(),
        vocabularies={name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()},
        joint=tokenizers.joint,
        model=translator.config,
        search=translator.search,
    )

    def fill(folder: Path) -> None:
        save_tokenizers(tokenizers, folder / "tokenizer")
        if translator.shortlist is not None:
            (folder / SHORTLIST).write_bytes(shortlist_bytes(translator.shortlist, tokenizers))
        if translator.length_profile is not None:
            (folder / PROFILE).write_text(json.dumps(translator.length_profile._asdict()), encoding="ascii")
        write_parts(
            folder, folder_config, model=translator.model, card=card, artefacts={**confidence, **(artefacts or {})}
        )

    write_model_folder(path, fill=fill)


def confidence_bytes(confidence: Confidence) -> bytes:
    """The content of a model folder's confidence.json."""
    return json.dumps(confidence._asdict()).encode("ascii")


def save_language_model(
    path: Path, generator: TextGenerator, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a language model atomically."""
    folder_config = LanguageModelFolder(
        task=generator.task,
        vocabularies={"text": len(generator.tokenizer.vocabulary)},
        model=generator.config,
        search=generator.search,
    )

    def fill(folder: Path) -> None:
        save_columns({"text": generator.tokenizer}, folder / "tokenizer")
        write_parts(folder, folder_config, model=generator.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def save_tagger(path: Path, tagger: Tagger, *, card: str, artefacts: Mapping[str, bytes] | None = None) -> None:
    """Writes the folder of a tagger atomically."""
    folder_config = TaggerFolder(
        task=tagger.task,
        text=tagger.vocabularies.config,
        vocabularies=tagger.vocabularies.sizes(),
        columns=tagger.columns,
        model=tagger.config,
    )

    def fill(folder: Path) -> None:
        tagger.vocabularies.save(folder / "tokenizer")
        write_parts(folder, folder_config, model=tagger.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def write_model_folder(path: Path, *, fill: Callable[[Path], None], format: int = FORMAT) -> None:
    """Writes a model folder with the files that `fill` writes, atomically."""
    details = INT8_DETAILS if format == INT8_FORMAT else None
    write_folder(path, kind=KIND, format=format, fill=fill, details=details, replace=True)


def write_parts(
    folder: Path, folder_config: Config, *, model: nn.Module, card: str, artefacts: Mapping[str, bytes]
) -> None:
    """Writes the files that every model folder has (config, model card and weights), and the artefacts."""
    (folder / "config.toml").write_text(to_toml(folder_config), encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")
    save_file(weights_of(model), folder / WEIGHTS)
    for name, content in artefacts.items():
        (folder / name).write_bytes(content)


def load(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Loaded:
    """The model in a run folder (its `model/`) or a model folder; verified before anything in it is used.

    Returns a translator, a text generator or a tagger, depending on the task. Weights are stored and multiplied in
    `precision`; probabilities are computed in at least float32. With int8, for CPUs, large products are computed in
    8 bits: about 1.5 times as fast in large batches, with slightly different translations. With auto, the precision is
    float32 or, for a folder that `calque quantise` wrote and on a CPU, int8.

    >>> calque.load("runs/1", device="cpu").translate("Guten Morgen!")
    'Good morning!'
    """
    folder = Path(path)
    for _ in range(5):
        try:
            before = _identity(folder)
            return _load(folder, device=device, precision=precision)
        except FolderError:
            if _identity(folder) == before:
                raise  # otherwise a training run replaced the model while it was being read
    return _load(folder, device=device, precision=precision)


def load_translator(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Translator:
    """`load` for a translation model; for any other model, raises an error that names the command to use instead."""
    return _load_kind(Translator, path, purpose="translate", device=device, precision=precision)


def load_text_generator(
    path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto"
) -> TextGenerator:
    """`load` for a language model; for any other model, raises an error that names the command to use instead."""
    return _load_kind(TextGenerator, path, purpose="generate text", device=device, precision=precision)


def load_tagger(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Tagger:
    """`load` for a tagger; for any other model, raises an error that names the command to use instead."""
    return _load_kind(Tagger, path, purpose="label words", device=device, precision=precision)


def architecture(loaded: Loaded) -> str:
    """The kinds of a model's parts, such as "transformer to luong"."""
    match loaded:
        case Translator():
            return f"{loaded.config.encoder.kind} to {loaded.config.decoder.kind}"
        case TextGenerator():
            return f"{loaded.config.network.kind} language model"
        case Tagger():
            return f"{loaded.config.encoder.kind} to {loaded.config.head}"


def model_kind(loaded: Loaded) -> str:
    """The kind of a model in words, such as "a translation model"."""
    match loaded:
        case Translator():
            return "a translation model"
        case TextGenerator():
            return "a language model"
        case Tagger():
            return "a tagger"


def _load_kind(
    kind: type[AnyLoaded], path: str | Path, *, purpose: str, device: DeviceName, precision: PrecisionName
) -> AnyLoaded:
    loaded = load(path, device=device, precision=precision)
    if isinstance(loaded, kind):
        return loaded
    raise FolderError(f"{path}: is {model_kind(loaded)} and cannot {purpose}; {_usage(loaded, path)}")


def _usage(loaded: Loaded, path: str | Path) -> str:
    """A phrase for error messages that names the commands for a model."""
    argument = shell_path(path)
    match loaded:
        case Translator():
            return f"`calque translate {argument}` translates with it"
        case TextGenerator():
            return (
                f"`calque generate {argument}` generates text with it, `calque score {argument} --target FILE` scores "
                f"text, and `calque translate RUN --language {argument}` combines it with a translator"
            )
        case Tagger():
            return f"`calque tag {argument}` labels words with it"


def _identity(folder: Path) -> tuple[int, ...]:
    """The inode numbers of a run folder and of its model, which change when another folder replaces either."""
    return tuple(path.stat().st_ino for path in (folder, folder / "model") if path.exists())


def model_folder(path: Path) -> Path:
    """The model folder of a run folder; a model folder itself."""
    return path / "model" if (path / "model").is_dir() else path


def has_int8_weights(path: Path) -> bool:
    """Whether a run or model folder has weights in 8 bits, by its manifest, which is not verified."""
    with suppress(FolderError, OSError):
        folder = model_folder(path)
        return decode(read_manifest(folder), path=folder).get("format") == INT8_FORMAT
    return False


def is_own_run(run: Path) -> bool:
    """Whether a folder is a run of a user's own task."""
    if (run / MANIFEST).exists() or not (run / "config.toml").is_file():
        return False
    with suppress(ConfigError):
        task = read_toml(run / "config.toml").get("task")
        return isinstance(task, dict) and task.get("kind") == "own"
    return False


def _own_model_error(model: Path) -> FolderError:
    """The error for the model of a user's own task."""
    how = f"load {model} with the code that saved it"
    if (model / WEIGHTS).is_file():
        weights = f"safetensors.torch.load_file({str(model / WEIGHTS)!r})"
        how = f"build the model in Python and load its weights: model.load_state_dict({weights}, strict=False)"
    return FolderError(f"{model}: the model of a user's own task, which Calque cannot build; {how}")


def _load(folder: Path, *, device: DeviceName, precision: PrecisionName) -> Loaded:
    if is_own_run(folder):
        if not (folder / "model").is_dir():
            raise FolderError(
                f"{folder}: no model here yet; this run trains a custom task, so continue it in Python: "
                f"`calque.resume({str(folder)!r}, task=OwnTask(...))`"
            )
        raise _own_model_error(folder / "model")
    folder = model_folder(folder)
    if not folder.is_dir():
        problem = "is a file, not a run or model folder" if folder.exists() else "no such run or model folder"
        raise FolderError(f"{folder}: {problem}")
    if (folder / "config.toml").is_file() and not any((folder / name).exists() for name in (MANIFEST, WEIGHTS)):
        raise FolderError(f"{folder}: no model here yet; `calque train --resume {folder}` trains until there is one")
    chosen_device = choose_device(device)
    dtype = choose_precision(precision, device=chosen_device)
    manifest = verify_folder(folder, kind=KIND, formats=FORMATS)
    is_int8 = manifest.format == INT8_FORMAT
    if is_int8 and manifest.details != INT8_DETAILS:
        raise FolderError(f"{folder} is damaged:\n  {MANIFEST}: expected the details {INT8_DETAILS}")
    if precision == "auto":
        precision = "int8" if is_int8 and chosen_device.type == "cpu" and multiplies_int8() else "float32"
    try:
        values = upgrade_model(read_toml(folder / "config.toml"), format=manifest.format, origin=str(folder))
        loaded = _read_folder(folder, values, format=manifest.format)
    except (ConfigError, TextError) as error:
        raise FolderError(f"{folder} cannot be used:\n{error}") from None
    loaded.model.to(device=chosen_device, dtype=dtype).eval()
    keep_normalised(loaded.model)
    if precision == "int8":
        quantise(loaded.model)
    elif precision == "float32" and chosen_device.type == "cpu":
        pack(loaded.model)
    elif chosen_device.type == "cuda":
        pad(loaded.model)
        if isinstance(loaded, Translator):
            loaded.graphs = Graphs()
    return loaded


def _read_folder(folder: Path, values: Values, *, format: int) -> Loaded:
    origin = str(folder / "config.toml")
    task = values.get("task")
    match task.get("kind") if isinstance(task, dict) else None:
        case "language-modelling":
            return _read_language_model(
                folder, check(LanguageModelFolder, values, origin=origin, written=True), format=format
            )
        case "tagging":
            return _read_tagger(folder, check(TaggerFolder, values, origin=origin, written=True), format=format)
        case "own":
            raise _own_model_error(folder)
        case _:
            folder_config = check(TranslationFolder, values, origin=origin, written=True)
            return _read_translator(folder, folder_config, format=format)


def _read_translator(folder: Path, folder_config: TranslationFolder, *, format: int) -> Translator:
    tokenizers = load_tokenizers(folder / "tokenizer")
    sizes = {name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()}
    _refuse_other_pieces(folder, sizes, folder_config.vocabularies, agree=tokenizers.joint == folder_config.joint)
    model_sizes = Sizes(sizes["source"], sizes["target"], tokenizers.joint)
    model = _build_with_weights(partial(Model, folder_config.model, sizes=model_sizes), folder=folder, format=format)
    translator = Translator(model, tokenizers, config=folder_config.model, search=folder_config.search)
    translator.confidence = _read_confidence(folder / CONFIDENCE)
    translator.length_profile = _read_profile(folder / (PROFILE if format > 1 else EARLIER_PROFILE), format=format)
    translator.shortlist = read_shortlist(folder / SHORTLIST, tokenizers)
    return translator


def _read_language_model(folder: Path, folder_config: LanguageModelFolder, *, format: int) -> TextGenerator:
    tokenizer = load_tokenizer(folder / "tokenizer", column="text")
    size = len(tokenizer.vocabulary)
    _refuse_other_pieces(folder, {"text": size}, folder_config.vocabularies, agree=True)
    build = partial(LanguageModel, folder_config.model, vocabulary_size=size)
    model = _build_with_weights(build, folder=folder, format=format)
    return TextGenerator(
        model, tokenizer, config=folder_config.model, task=folder_config.task, search=folder_config.search
    )


def _read_tagger(folder: Path, folder_config: TaggerFolder, *, format: int) -> Tagger:
    vocabularies = TaggerVocabularies.load(folder / "tokenizer", config=folder_config.text)
    is_same = set(vocabularies.columns) == set(folder_config.task.inputs)
    _refuse_other_pieces(folder, vocabularies.sizes(), folder_config.vocabularies, agree=is_same)
    sizes = tagger_sizes(vocabularies, inputs=folder_config.task.inputs)
    model = _build_with_weights(partial(TaggerModel, folder_config.model, sizes=sizes), folder=folder, format=format)
    return Tagger(
        model, vocabularies, config=folder_config.model, task=folder_config.task, columns=folder_config.columns
    )


def _refuse_other_pieces(folder: Path, sizes: dict[str, int], expected: dict[str, int], *, agree: bool) -> None:
    if sizes != expected or not agree:
        raise FolderError(
            f"{folder}: the tokenizer's vocabulary is not the one that config.toml describes; the files do not belong "
            "together"
        )


def _build_with_weights(build: Callable[[], AnyModel], *, folder: Path, format: int) -> AnyModel:
    """Builds a model with the folder's weights; nothing is allocated before all sizes are known to fit."""
    weights = read_model_weights(folder, format=format)
    with weightless():
        model = build()
    give_weights_to(model, weights, origin=str(folder / WEIGHTS))
    return model


def read_model_weights(folder: Path, *, format: int) -> dict[str, Tensor]:
    """The weights in a model folder, in floating point."""
    weights = read_weights(folder / WEIGHTS)
    return from_int8(weights, origin=str(folder / WEIGHTS)) if format == INT8_FORMAT else weights


def _read_confidence(path: Path) -> Confidence | None:
    if not path.exists():
        return None
    try:
        knots = tuple((float(x), float(y)) for x, y in parse_json(path.read_text(encoding="ascii"))["knots"])
        if knots and all(math.isfinite(x) and 0 <= y <= 1 for x, y in knots) and list(knots) == sorted(knots):
            return Confidence(knots)
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    raise FolderError(f"{path}: damaged: expected pairs of log-probability and chrF in increasing order")


def _read_profile(path: Path, *, format: int) -> LengthProfile | None:
    if not path.exists():
        return None
    try:
        values = upgrade_length_profile(parse_json(path.read_text(encoding="ascii")), format=format)
        targets = tuple(TargetLimit(*limit) for limit in values.pop("targets"))
        profile = LengthProfile(**values, targets=targets)
        numbers = [profile.pieces, profile.sentences, *(number for limit in targets for number in limit)]
        sources = [limit.source for limit in targets]
        if all(type(number) is int and 0 < number <= LARGEST for number in numbers) and sources == sorted(set(sources)):
            return profile
    except (ValueError, TypeError, AttributeError, KeyError):
        pass
    raise FolderError(f"{path}: damaged: expected numbers of pieces and sentences, and target limits")
