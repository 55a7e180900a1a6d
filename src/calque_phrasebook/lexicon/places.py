"""The places, cities and countries (places.toml), and the spatial relations of things.

Home and the relations are defined here instead of in a table: home has its own phrases, and rules refer to individual
relations.
"""

from calque_phrasebook.lexicon.entries import place, town
from calque_phrasebook.lexicon.lexemes import Place, Relation
from calque_phrasebook.lexicon.tables import read_table

_TABLE = read_table("places.toml")
PLACES: tuple[Place, ...] = _TABLE.entries("place", place)
CITIES: tuple[Place, ...] = _TABLE.entries("city", town)
COUNTRIES: tuple[Place, ...] = _TABLE.entries("country", town)
TOWNS = CITIES + COUNTRIES
HOME = Place(("home",), "at", "", "Hause", "zu", "nach", None, "家", "里", ())

KINDS: dict[str, tuple[Place, ...]] = {
    kind: tuple(place for place in PLACES if kind in place.kinds)
    for kind in dict.fromkeys(kind for place in PLACES for kind in place.kinds)
}

ON = Relation(("on",), "auf", "上")
IN = Relation(("in",), "in", "里")
UNDER = Relation(("under",), "unter", "下面")
BEHIND = Relation(("behind",), "hinter", "后面")
BESIDE = Relation(("next", "to"), "neben", "旁边")
BEFORE = Relation(("in", "front", "of"), "vor", "前面")
RELATIONS = (ON, IN, UNDER, BEHIND, BESIDE, BEFORE)
