"""Chooses the text settings of character-level corpora, such as inflected forms, if a config has no text section."""

from typing import Any, NamedTuple

from pydantic import ValidationError

from calque.config import Values
from calque.data.character_level import chosen_text, suggestion
from calque.data.corpora import DataConfig
from calque.experiment.settings import Experiment, with_kinds
from calque.tasks.translation import TranslationConfig
from calque.text import SentencePieceConfig, WordsConfig


class TextChoice(NamedTuple):
    """The values of a config, with a message if a text section was chosen automatically."""

    values: Values
    message: str = ""


def choose_text(values: Values) -> TextChoice:
    """Adds a `text` section for character-level pairs to a config if its corpora look like such pairs.

    These are, for example, inflected forms or pronunciations. Nothing is added if the config has text settings already.
    Corpora that cannot be read are ignored here; data preparation reports them.
    """
    data = None if values.get("text") else _pairs_of_subwords(values)
    chosen = None if data is None else chosen_text(data, joint=_needs_joint_vocabulary(values))
    if chosen is None:
        return TextChoice(values)
    return TextChoice({**values, "text": chosen.section}, chosen.message)


def suggested_text(experiment: Experiment) -> str:
    """Describes text settings that suit the pairs better than subwords or words; empty if there are none."""
    is_pairs = isinstance(experiment.task, TranslationConfig)
    if not is_pairs or not isinstance(experiment.text, SentencePieceConfig | WordsConfig):
        return ""
    return suggestion(experiment.data)


def _pairs_of_subwords(values: Values) -> DataConfig | None:
    """The data section if it is valid and the task is translation without subword sampling; otherwise None."""
    task, training = with_kinds(values).get("task", {}), values.get("training", {})
    if not isinstance(task, dict) or task.get("kind", "translation") != "translation":
        return None
    if _lookup(training, "subwords", "kind", default="fixed") != "fixed":
        return None  # the other kinds sample segmentations into subwords
    try:
        return DataConfig.model_validate(values.get("data", {}))
    except ValidationError:
        return None


def _needs_joint_vocabulary(values: Values) -> bool:
    model = values.get("model", {})
    return _lookup(model, "tie") in ("embeddings", "all") or bool(_lookup(model, "decoder", "copies"))


def _lookup(values: Any, *keys: str, default: Any = None) -> Any:
    """Looks up nested keys in unchecked values; returns the default if a key is missing."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return default if values is None else values
