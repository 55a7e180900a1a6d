"""Chooses the text settings of character-level corpora, such as inflected forms, if a config has no text section."""

from typing import Any, NamedTuple

from pydantic import ValidationError

from calque.config import Values
from calque.data.character_level import CharacterLevel, recognise, sample_pairs
from calque.data.corpora import DataConfig
from calque.errors import DataError
from calque.experiment.settings import Experiment, with_kinds
from calque.tasks.translation import TranslationConfig
from calque.text import SentencePieceConfig, WordsConfig

OVERRIDE = "text.kind=sentencepiece trains on subwords"


class TextChoice(NamedTuple):
    """The values of a config, and a message if a text section was chosen for them."""

    values: Values
    message: str = ""


def choose_text(values: Values) -> TextChoice:
    """`values` with a text section for character-level pairs, if they have none; all other values are left alone.

    Corpora that cannot be read are left to the preparation of the data, which reports them.
    """
    if values.get("text"):
        return TextChoice(values)
    level = _character_level(values)
    text = None if level is None else _section(level, joint=_needs_joint_vocabulary(values))
    if level is None or text is None:
        return TextChoice(values)
    return TextChoice({**values, "text": text}, f"{_assignments(level)}: {level.evidence}; {OVERRIDE}")


def suggested_text(experiment: Experiment) -> str:
    """Text settings that suit the pairs better than subwords or words, with a reason; empty if there are none."""
    if not isinstance(experiment.text, SentencePieceConfig | WordsConfig):
        return ""
    level = _recognised(experiment.data) if isinstance(experiment.task, TranslationConfig) else None
    return "" if level is None else f"{_assignments(level)} would suit these pairs better: {level.evidence}"


def _character_level(values: Values) -> CharacterLevel | None:
    """How source and target of the training pairs should be read; None if the pairs are not character-level."""
    task, training = with_kinds(values).get("task", {}), values.get("training", {})
    if not isinstance(task, dict) or task.get("kind", "translation") != "translation":
        return None
    if _lookup(training, "subwords", "kind", default="fixed") != "fixed":
        return None  # the other kinds sample segmentations into subwords
    try:
        data = DataConfig.model_validate(values.get("data", {}))
    except ValidationError:
        return None
    return _recognised(data)


def _recognised(data: DataConfig) -> CharacterLevel | None:
    try:
        return recognise(sample_pairs(data))
    except (DataError, OSError):
        return None


def _assignments(level: CharacterLevel) -> str:
    """The settings of character-level pairs, as they are written on the command line."""
    if level.source == level.target:
        return f"text.kind={level.source}"
    return f"text.source.kind={level.source} text.target.kind={level.target}"


def _section(level: CharacterLevel, *, joint: bool) -> Values | None:
    """The config's text section for pairs that are read by character.

    None if the model needs one vocabulary for both sides, but the two are split in different ways.
    """
    if level.source == level.target:
        return {"kind": level.source, **({"joint": True} if joint else {})}
    if joint:
        return None
    return {"kind": "columns", "source": {"kind": level.source}, "target": {"kind": level.target}}


def _needs_joint_vocabulary(values: Values) -> bool:
    model = values.get("model", {})
    return _lookup(model, "tie") in ("embeddings", "all") or bool(_lookup(model, "decoder", "copies"))


def _lookup(values: Any, *keys: str, default: Any = None) -> Any:
    """The value under nested keys of unchecked values; the default if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return default if values is None else values
