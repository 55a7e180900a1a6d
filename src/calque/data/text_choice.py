"""The text settings that suit character-level pairs, such as inflected forms."""

from typing import NamedTuple

from calque.config import Values
from calque.data.character_level import CharacterLevel, recognise, sample_pairs
from calque.data.corpora import DataConfig
from calque.errors import DataError

OVERRIDE = "text.kind=sentencepiece trains on subwords"


class ChosenText(NamedTuple):
    """The text section of a config, and a message with the reason for it."""

    section: Values
    message: str


def chosen_text(data: DataConfig, *, joint: bool) -> ChosenText | None:
    """The text section for character-level pairs; `joint` says if the model needs one vocabulary for both sides.

    None for all other corpora and for corpora that cannot be read, which the preparation of the data reports.
    """
    level = _recognised(data)
    section = None if level is None else _section(level, joint=joint)
    if level is None or section is None:
        return None
    return ChosenText(section, f"{_assignments(level)}: {level.evidence}; {OVERRIDE}")


def suggestion(data: DataConfig) -> str:
    """The text settings of character-level pairs, with a reason; empty for all other corpora."""
    level = _recognised(data)
    return "" if level is None else f"{_assignments(level)} would suit these pairs better: {level.evidence}"


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
