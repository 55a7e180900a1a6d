"""The adjectives, and which nouns they describe (adjectives.toml)."""

from calque_phrasebook.lexicon.entries import adjective
from calque_phrasebook.lexicon.lexemes import Adjective
from calque_phrasebook.lexicon.nouns import CLASSES
from calque_phrasebook.lexicon.tables import Entry, among, read_table


def _named(entry: Entry) -> tuple[str, Adjective]:
    """Returns an adjective with its name in the lists: `sense` if there is one, otherwise the English word."""
    made = adjective(entry)
    return entry.text("sense", default="") or made.english, made


_TABLE = read_table("adjectives.toml")
ADJECTIVES: dict[str, Adjective] = dict(_TABLE.entries("adjective", _named))


def _lists(section: str) -> dict[str, tuple[Adjective, ...]]:
    lists = _TABLE.word_lists(section, known=ADJECTIVES)
    return {name: tuple(ADJECTIVES[word] for word in words) for name, words in lists.items()}


DESCRIPTIONS = _lists("describes")
"""Maps each class of nouns to the adjectives that can describe them."""
among("describes", DESCRIPTIONS, known=CLASSES)
_KINDS = _lists("kinds")
MOODS, CHARACTER = _KINDS["mood"], _KINDS["character"]
CLIMATE, WEATHER = _KINDS["climate"], _KINDS["weather"]
PRAISE, COMPARED = _KINDS["praise"], _KINDS["compared"]


def attributes(kind: str) -> tuple[Adjective, ...]:
    """Returns the adjectives that can precede the nouns of a class."""
    return tuple(adjective for adjective in DESCRIPTIONS[kind] if adjective in _KINDS["attribute"])


def core_attributes(kind: str) -> tuple[Adjective, ...]:
    """Returns the common adjectives of a class, which may precede its nouns in every case, the nominative included."""
    return tuple(adjective for adjective in DESCRIPTIONS[kind] if adjective in _KINDS["core_attribute"])
