"""Model folders: written atomically, verified before anything in them is used."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from calque.config import Config, Values, check, read_toml
from calque.devices import DeviceName, PrecisionName, choose_device, choose_precision, multiplies_int8
from calque.engine.captioner import Captioner
from calque.engine.captioner_folder import CaptionerFolder, read_captioner
from calque.engine.language_model_folder import LanguageModelFolder, read_language_model
from calque.engine.model_files import FORMATS, INT8_DETAILS, INT8_FORMAT, KIND, WEIGHTS
from calque.engine.phrase_folder import PhraseFolder, read_phrase_translator
from calque.engine.phrase_translator import PhraseTranslator
from calque.engine.recogniser import Recogniser
from calque.engine.recogniser_folder import RecogniserFolder, read_recogniser
from calque.engine.recommender import Recommender
from calque.engine.recommender_folder import RecommenderFolder, read_recommender
from calque.engine.sentence_encoder import SentenceEncoder
from calque.engine.sentence_encoder_folder import SentenceEncoderFolder, read_sentence_encoder
from calque.engine.tagger import Tagger
from calque.engine.tagger_folder import TaggerFolder, read_tagger
from calque.engine.text_generator import TextGenerator
from calque.engine.translation_folder import TranslationFolder, read_translator
from calque.engine.translator import Translator
from calque.errors import ConfigError, FolderError, TextError, shell_path
from calque.folders import MANIFEST, verify_folder
from calque.folders.manifest import decode, read_manifest
from calque.folders.upgrades import upgrade_model
from calque.layers.convolution import keep_normalised
from calque.layers.int8 import quantise
from calque.layers.packed import pack
from calque.layers.padded import pad
from calque.models.tagger import TaggerConfig
from calque.search.graphs import Graphs

AnyLoaded = TypeVar(
    "AnyLoaded",
    Translator,
    TextGenerator,
    Tagger,
    PhraseTranslator,
    SentenceEncoder,
    Recommender,
    Recogniser,
    Captioner,
)
Loaded = Translator | TextGenerator | Tagger | PhraseTranslator | SentenceEncoder | Recommender | Recogniser | Captioner
"""What `calque.load` returns, depending on the task that the model was trained for."""


def load(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Loaded:
    """Loads the model of a run (its `model/`) or a model folder. The folder is verified before any of it is used.

    Returns a translator (neural or statistical), a text generator, a tagger, a sentence encoder, a recommender, a
    speech recogniser or a captioner, depending on the task. Weights are stored and multiplied in `precision`;
    probabilities are computed in at least float32. With int8, which is for CPUs, large matrix products are
    computed in 8 bits: about 1.5 times as fast in large batches, with slightly different translations. With auto, the
    precision is int8 on a CPU if `calque quantise` wrote the folder, and float32 otherwise.

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
    """Loads a translation model. For any other model, raises an error that names the command to use instead."""
    return _load_kind(Translator, path, purpose="translate", device=device, precision=precision)


def load_text_generator(
    path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto"
) -> TextGenerator:
    """Loads a language model. For any other model, raises an error that names the command to use instead."""
    return _load_kind(TextGenerator, path, purpose="generate text", device=device, precision=precision)


def load_tagger(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Tagger:
    """Loads a tagger. For any other model, raises an error that names the command to use instead."""
    return _load_kind(Tagger, path, purpose="label words", device=device, precision=precision)


def load_sentence_encoder(
    path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto"
) -> SentenceEncoder:
    """Loads a sentence encoder. For any other model, raises an error that names the command to use instead."""
    return _load_kind(SentenceEncoder, path, purpose="encode pairs", device=device, precision=precision)


def load_recommender(
    path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto"
) -> Recommender:
    """Loads a recommender. For any other model, raises an error that names the command to use instead."""
    return _load_kind(Recommender, path, purpose="recommend items", device=device, precision=precision)


def load_recogniser(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Recogniser:
    """Loads a recogniser. For any other model, raises an error that names the command to use instead."""
    return _load_kind(Recogniser, path, purpose="transcribe speech", device=device, precision=precision)


def load_captioner(path: str | Path, *, device: DeviceName = "auto", precision: PrecisionName = "auto") -> Captioner:
    """Loads a captioner. For any other model, raises an error that names the command to use instead."""
    return _load_kind(Captioner, path, purpose="describe images", device=device, precision=precision)


class ModelKind(NamedTuple):
    """The name of a kind of model in messages, and the commands that use such a model."""

    name: str
    usage: str


KINDS: dict[type[Loaded], ModelKind] = {
    Translator: ModelKind("a translation model", "`calque translate {path}` translates with it"),
    TextGenerator: ModelKind(
        "a language model",
        "`calque generate {path}` generates text with it, `calque score {path} --target FILE` scores text, and `calque "
        "translate RUN --language {path}` combines it with a translator",
    ),
    Tagger: ModelKind("a tagger", "`calque tag {path}` labels words with it"),
    PhraseTranslator: ModelKind("a statistical translation model", "`calque translate {path}` translates with it"),
    SentenceEncoder: ModelKind("a sentence encoder", "`calque embed {path}` computes sentence vectors with it"),
    Recommender: ModelKind("a recommender", "`calque recommend {path}` recommends items with it"),
    Recogniser: ModelKind("a speech recogniser", "`calque transcribe {path} FILES` transcribes speech with it"),
    Captioner: ModelKind("a captioner", "`calque caption {path} FILE` describes an image with it"),
}


def architecture(loaded: Loaded) -> str:
    """The architecture of a model in words, such as "transformer to luong" (from encoder to decoder)."""
    match loaded:
        case Translator():
            return f"{loaded.config.encoder.kind} to {loaded.config.decoder.kind}"
        case TextGenerator():
            return f"{loaded.config.network.kind} language model"
        case Tagger():
            config = loaded.config
            return f"{config.encoder.kind} to {config.head}" if isinstance(config, TaggerConfig) else config.kind
        case PhraseTranslator():
            return "phrase-based" if loaded.config.units == "phrases" else "word for word"
        case SentenceEncoder():
            return f"{loaded.config.encoder.kind} sentence encoder"
        case Recommender():
            return f"{loaded.config.network.kind} recommender"
        case Recogniser():
            return f"{loaded.config.encoder.kind} to {loaded.config.head}"
        case Captioner():
            return f"{loaded.config.image.kind} to {loaded.config.decoder.kind}"


def model_kind(loaded: Loaded) -> str:
    """The kind of a model in words, such as "a translation model"."""
    return KINDS[type(loaded)].name


def _load_kind(
    kind: type[AnyLoaded], path: str | Path, *, purpose: str, device: DeviceName, precision: PrecisionName
) -> AnyLoaded:
    loaded = load(path, device=device, precision=precision)
    if isinstance(loaded, kind):
        return loaded
    if isinstance(loaded, PhraseTranslator) and kind is Translator:
        raise FolderError(
            f"{path} is {model_kind(loaded)}, but only neural models are supported here; {_usage(loaded, path)}"
        )
    raise FolderError(f"{path} is {model_kind(loaded)} and cannot {purpose}; {_usage(loaded, path)}")


def _usage(loaded: Loaded, path: str | Path) -> str:
    """The part of an error message that names the commands for a model of this kind."""
    return KINDS[type(loaded)].usage.format(path=shell_path(path))


def _identity(folder: Path) -> tuple[int, ...]:
    """The inode numbers of a run folder and of its model, which change when another folder replaces either."""
    return tuple(path.stat().st_ino for path in (folder, folder / "model") if path.exists())


def model_folder(path: Path) -> Path:
    """The model folder in a run folder; a model folder is returned as it is."""
    return path / "model" if (path / "model").is_dir() else path


def has_int8_weights(path: Path) -> bool:
    """Whether a run or model folder has weights in 8 bits, according to its manifest, which is not verified."""
    with suppress(FolderError, OSError):
        folder = model_folder(path)
        return decode(read_manifest(folder), path=folder).get("format") == INT8_FORMAT
    return False


def is_own_run(run: Path) -> bool:
    """Whether a folder is a run of a custom task."""
    if (run / MANIFEST).exists() or not (run / "config.toml").is_file():
        return False
    with suppress(ConfigError):
        task = read_toml(run / "config.toml").get("task")
        return isinstance(task, dict) and task.get("kind") == "own"
    return False


def _own_model_error(model: Path) -> FolderError:
    """The error that says how to load the model of a custom task, which Calque cannot build."""
    how = f"load {model} with the code that saved it"
    if (model / WEIGHTS).is_file():
        weights = f"safetensors.torch.load_file({str(model / WEIGHTS)!r})"
        how = f"build the model in Python and load its weights: model.load_state_dict({weights}, strict=False)"
    return FolderError(f"{model} is the model of a custom task, which Calque cannot build; {how}")


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
        problem = " is a file, not a run or model folder" if folder.exists() else ": no such run or model folder"
        raise FolderError(f"{folder}{problem}")
    if (folder / "config.toml").is_file() and not any((folder / name).exists() for name in (MANIFEST, WEIGHTS)):
        raise FolderError(f"{folder}: no model here yet; `calque train --resume {folder}` trains until there is one")
    chosen_device = choose_device(device)
    dtype = choose_precision(precision, device=chosen_device)
    manifest = verify_folder(folder, kind=KIND, formats=FORMATS)
    is_int8 = manifest.format == INT8_FORMAT
    if is_int8 and manifest.details != INT8_DETAILS:
        raise FolderError(
            f"{folder} is damaged:\n  {MANIFEST}: expected the details {INT8_DETAILS} of a model with 8-bit weights; "
            f"found {manifest.details}"
        )
    if precision == "auto":
        precision = "int8" if is_int8 and chosen_device.type == "cpu" and multiplies_int8() else "float32"
    try:
        values = upgrade_model(read_toml(folder / "config.toml"), format=manifest.format, origin=str(folder))
        loaded = _read_folder(folder, values, format=manifest.format)
    except (ConfigError, TextError) as error:
        raise FolderError(f"{folder} cannot be used:\n{error}") from None
    if isinstance(loaded, PhraseTranslator):
        if precision not in ("auto", "float32"):
            raise ConfigError(
                f"precision {precision} is not supported for a statistical model, which uses float32; leave it out"
            )
        loaded.model.eval()
        return loaded
    loaded.model.to(device=chosen_device, dtype=dtype).eval()
    keep_normalised(loaded.model)
    if precision == "int8":
        quantise(loaded.model)
    elif precision == "float32" and chosen_device.type == "cpu":
        pack(loaded.model)
    elif chosen_device.type == "cuda":
        pad(loaded.model)
        if isinstance(loaded, Translator) and torch.version.hip is None and precision != "float64":
            loaded.graphs = Graphs()  # whose kernels add up log-probabilities in float32
    return loaded


def is_statistical(path: Path) -> bool:
    """Whether a run or model folder has a statistical translation model, according to its unverified config."""
    with suppress(ConfigError, OSError):
        return _is_statistical(read_toml(model_folder(path) / "config.toml"))
    return False


def _is_statistical(values: Values) -> bool:
    model = values.get("model")
    return isinstance(model, dict) and model.get("kind") == "phrase-based"


class _Reader(NamedTuple):
    """The config class of a kind of model folder, and the function that loads such a model."""

    config: type[Config]
    read: Callable[..., Loaded]


_READERS = {
    "language-modelling": _Reader(LanguageModelFolder, read_language_model),
    "tagging": _Reader(TaggerFolder, read_tagger),
    "embedding": _Reader(SentenceEncoderFolder, read_sentence_encoder),
    "recommendation": _Reader(RecommenderFolder, read_recommender),
    "recognition": _Reader(RecogniserFolder, read_recogniser),
    "captioning": _Reader(CaptionerFolder, read_captioner),
}
"""For each task except translation, how its model folders are read."""


def _read_folder(folder: Path, values: Values, *, format: int) -> Loaded:
    origin = str(folder / "config.toml")
    task = values.get("task")
    kind = task.get("kind") if isinstance(task, dict) else None
    if not isinstance(kind, str):
        kind = None  # a mistake that the config of a translation model reports
    if kind == "own":
        raise _own_model_error(folder)
    if kind not in _READERS and _is_statistical(values):
        return read_phrase_translator(folder, check(PhraseFolder, values, origin=origin, written=True))
    reader = _READERS.get(kind or "", _Reader(TranslationFolder, read_translator))
    return reader.read(folder, check(reader.config, values, origin=origin, written=True), format=format)
