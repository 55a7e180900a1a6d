"""Chinese noun phrases, places and times."""

from calque_phrasebook.lexicon.lexemes import Phrase, Place
from calque_phrasebook.lexicon.people import RELATIVES
from calque_phrasebook.meaning import (
    Asked,
    Both,
    Described,
    Gap,
    Hour,
    Measured,
    Named,
    Nominal,
    NounPhrase,
    Pronoun,
    Spot,
)  # fmt: skip
from calque_phrasebook.realisation.words import Part, Word, spell, spell_pieces


def noun_phrase(phrase: NounPhrase, *, at: Part) -> list[Word]:
    """Returns the words of a noun phrase; `Described` nouns are realised in `chinese.py`."""
    match phrase:
        case Pronoun(person):
            return spell(person.chinese, at / "person")
        case Named(name):
            return fixed(name, at=at / "name")
        case Nominal():
            return _nominal(phrase, at=at)
        case Measured(number, measure, stuff):
            amount = fixed(number, at=at / "number") or spell("一", at / "number")
            return [*amount, *spell(measure.chinese, at / "measure"), *spell(stuff.chinese, at / "stuff")]
        case Both(first, second):
            both = noun_phrase(first, at=at / "first"), noun_phrase(second, at=at / "second")
            return [*both[0], *spell("和", at / "conjunction"), *both[1]]
        case Gap():
            return []
        case Asked():
            return spell("谁", at)
        case Described():
            raise AssertionError("the noun needs a relative clause, but none was given")


def _nominal(phrase: Nominal, *, at: Part) -> list[Word]:
    noun, determiner = phrase.noun, phrase.determiner
    kind, owner = at / "determiner" / "kind", at / "determiner" / "owner"
    number = fixed(determiner.number, at=at / "determiner" / "number")
    quality = spell(" ".join(phrase.quality.chinese_attribute), at / "quality") if phrase.quality else []
    words = [*quality, *spell(noun.chinese, at / "noun", at / "noun" / "attribute")]
    counted = [*spell(noun.classifier), *words]
    match determiner.kind:
        case "the" | "bare":
            return words
        case "a":
            return [*spell("一", kind), *counted]
        case "this":
            return [*spell("这", kind), *counted]
        case "which":
            return [*spell("哪", kind), *counted]
        case "how many":
            return [*spell("几", kind, kind / "scale"), *counted]
        case "count":
            return [*number, *counted]
        case "these":
            return [*spell("这", kind), *number, *counted] if number else [*spell("这些", kind), *words]
        case "many":
            return [*spell("很多", kind), *words]
        case "some":
            return [*spell("一些", kind), *words]
        case "own":
            assert determiner.owner is not None
            particle = [] if noun in RELATIVES else spell("的", owner)
            return [*spell(determiner.owner.chinese, owner), *particle, *words]


# --- places and times -----------------------------------------------------------------------------------------------


def where(place: Place | Spot, *, at: Part) -> list[Word]:
    """Returns the place where something is, without 在: 公园 里, 桌子 上."""
    if isinstance(place, Spot):
        return [*spell(place.noun.chinese, at / "noun"), *spell(place.relation.chinese, at / "relation")]
    return [*spell(place.chinese, at), *spell(place.chinese_at, at / "preposition")]


def clock_time(hour: Hour, *, at: Part) -> list[Word]:
    """Returns a time of day: 三 点, 三 点 半."""
    half = spell("半", at / "half") if hour.half else []
    return [*spell(hour.hour.chinese, at / "hour"), *spell("点", at / "clock"), *half]


def fixed(phrase: Phrase | None, *, at: Part) -> list[Word]:
    """Returns the words of a fixed phrase, if there is one."""
    return spell_pieces(phrase.chinese, at=at, pieces=phrase.parts) if phrase else []
