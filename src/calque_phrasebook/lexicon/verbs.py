"""The verbs, grouped by the sentence patterns they take (verbs.toml)."""

from functools import partial

from calque_phrasebook.lexicon import entries
from calque_phrasebook.lexicon.lexemes import Modal, Verb
from calque_phrasebook.lexicon.nouns import CLASSES
from calque_phrasebook.lexicon.places import KINDS
from calque_phrasebook.lexicon.tables import read_table
from calque_phrasebook.lexicon.times import MANNERS

_TABLE = read_table("verbs.toml")
_verb = partial(entries.verb, objects=CLASSES, places=KINDS, manners=[manner.key for manner in MANNERS])
VERBS: dict[str, tuple[Verb, ...]] = {
    group: _TABLE.entries(group, _verb) for group in _TABLE.groups if group != "modal"
}
MODALS: tuple[Modal, ...] = _TABLE.entries("modal", entries.modal)

ACTIONS, EVENTS, DISPOSALS = VERBS["action"], VERBS["event"], VERBS["disposal"]
LAY, STAND = VERBS["placing"]
CONSUME_DRINK, CONSUME_BOWL, BUY_GROCERIES = VERBS["consuming"]
WEAR_CLOTHES, WEAR_ACCESSORY = VERBS["wearing"]
LANGUAGE_VERBS, SOCIAL = VERBS["language"], VERBS["social"]
GIVING, SERVING = VERBS["giving"], VERBS["serving"]
ACTIVITIES, ROUTINES, SKILLS = VERBS["activity"], VERBS["routine"], VERBS["skill"]
GO, RIDE, TRAVEL, FLY = VERBS["motion"]
HAVE, LIVE, COME = VERBS["basic"]
NEEDS, TASTES, ACQUAINTANCE = VERBS["need"], VERBS["taste"], VERBS["acquaintance"]
THAT_VERBS, WHETHER_VERBS = VERBS["that"], VERBS["whether"]
