"""The nouns, by the classes that verbs and adjectives select (nouns.toml)."""

from calque_phrasebook.lexicon.entries import noun
from calque_phrasebook.lexicon.lexemes import Noun
from calque_phrasebook.lexicon.tables import read_table

_TABLE = read_table("nouns.toml")
GROUPS: dict[str, tuple[Noun, ...]] = {group: _TABLE.entries(group, noun) for group in _TABLE.groups}
"""The nouns by group; every noun is in exactly one group."""


def _members(kind: str) -> tuple[Noun, ...]:
    return tuple(member for group in GROUPS.values() for member in group if kind in member.also)


CLASSES: dict[str, tuple[Noun, ...]] = {**GROUPS, "writing": _members("writing"), "tale": _members("tale")}

CUP, GLASS, BOTTLE, BOWL, PAIR, KILO = CLASSES["measure"]
