"""The people: pronouns, names, relatives and professions (people.toml).

Pronouns are defined here instead of in a table: there are six, and rules and realisers refer to them individually.
"""

from calque_phrasebook.lexicon.entries import noun, phrase
from calque_phrasebook.lexicon.lexemes import Noun, Person, Phrase
from calque_phrasebook.lexicon.tables import read_table

I = Person(("I", "me", "my"), ("ich", "mich", "mir"), "mein", "mich", "我", 0)  # noqa: E741
YOU = Person(("you", "you", "your"), ("du", "dich", "dir"), "dein", "dich", "你", 1)
HE = Person(("he", "him", "his"), ("er", "ihn", "ihm"), "sein", "sich", "他", 2)
SHE = Person(("she", "her", "her"), ("sie", "sie", "ihr"), "ihr", "sich", "她", 2)
WE = Person(("we", "us", "our"), ("wir", "uns", "uns"), "unser", "uns", "我们", 3)
THEY = Person(("they", "them", "their"), ("sie", "sie", "ihnen"), "ihr", "sich", "他们", 3)
PERSONS = (I, YOU, HE, SHE, WE, THEY)
# THEY is never an object or an owner, because German `sie` and `ihr` would be the same for SHE and THEY.
OBJECTS = (I, YOU, HE, SHE, WE)
OWNERS = (I, YOU, HE, SHE, WE)

_TABLE = read_table("people.toml")
WOMEN: tuple[Phrase, ...] = _TABLE.entries("woman", phrase)
MEN: tuple[Phrase, ...] = _TABLE.entries("man", phrase)
RELATIVES: tuple[Noun, ...] = _TABLE.entries("relative", noun)
COMPANIONS: tuple[Noun, ...] = _TABLE.entries("companion", noun)
PROFESSIONS: tuple[Noun, ...] = _TABLE.entries("profession", noun)
