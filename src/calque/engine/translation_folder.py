"""The model folder of a translation model."""

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from calque.config import Config
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.shortlist import SHORTLIST, read_shortlist, shortlist_bytes
from calque.engine.translator import Translator
from calque.errors import FolderError
from calque.evaluation.confidence import Confidence
from calque.folders.upgrades import upgrade_length_profile
from calque.models.model import Model, ModelConfig, Sizes
from calque.parsing import parse_json
from calque.search.settings import LARGEST, SearchConfig
from calque.tasks.translation import TranslationConfig
from calque.text import load_tokenizers, save_tokenizers
from calque.text.length_profile import LengthProfile, TargetLimit

CONFIDENCE = "confidence.json"
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


def read_translator(folder: Path, folder_config: TranslationFolder, *, format: int) -> Translator:
    tokenizers = load_tokenizers(folder / "tokenizer")
    sizes = {name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()}
    refuse_other_pieces(folder, sizes, folder_config.vocabularies, agree=tokenizers.joint == folder_config.joint)
    model_sizes = Sizes(sizes["source"], sizes["target"], tokenizers.joint)
    model = build_with_weights(partial(Model, folder_config.model, sizes=model_sizes), folder=folder, format=format)
    translator = Translator(model, tokenizers, config=folder_config.model, search=folder_config.search)
    translator.confidence = _read_confidence(folder / CONFIDENCE)
    translator.length_profile = _read_profile(folder / (PROFILE if format > 1 else EARLIER_PROFILE), format=format)
    translator.shortlist = read_shortlist(folder / SHORTLIST, tokenizers)
    return translator


def confidence_bytes(confidence: Confidence) -> bytes:
    """The content of a model folder's confidence.json."""
    return json.dumps(confidence._asdict()).encode("ascii")


def _read_confidence(path: Path) -> Confidence | None:
    if not path.exists():
        return None
    try:
        knots = tuple((float(x), float(y)) for x, y in parse_json(path.read_text(encoding="ascii"))["knots"])
        if knots and all(math.isfinite(x) and 0 <= y <= 1 for x, y in knots) and list(knots) == sorted(knots):
            return Confidence(knots)
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    raise FolderError(f"{path}: the file is damaged: expected pairs of log-probability and chrF in increasing order")


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
    raise FolderError(
        f"{path}: the file is damaged: expected positive numbers of pieces and sentences, and target limits sorted by "
        "source length"
    )
