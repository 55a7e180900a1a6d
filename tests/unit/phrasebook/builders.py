"""Meanings by hand: lexemes by their English words, and short ways to put them together."""

from calque_phrasebook.lexicon import people, places, times, verbs
from calque_phrasebook.lexicon.adjectives import ADJECTIVES
from calque_phrasebook.lexicon.lexemes import Noun, Person, Phrase, Place, Verb
from calque_phrasebook.lexicon.nouns import CLASSES
from calque_phrasebook.meaning import (
    Action,
    Clause,
    Determiner,
    DeterminerKind,
    Falling,
    Named,
    Nominal,
    Predicate,
    Pronoun,
    Quality,
    Statement,
)

I, YOU, HE, SHE, WE, THEY = (Pronoun(person) for person in people.PERSONS)  # noqa: E741


def noun(english: str) -> Noun:
    groups = (*CLASSES.values(), people.RELATIVES, people.COMPANIONS, people.PROFESSIONS)
    return next(noun for group in groups for noun in group if noun.key == english)


def verb(english: str, group: str) -> Verb:
    return next(verb for verb in verbs.VERBS[group] if verb.key.removesuffix(verb.chinese).rstrip() == english)


def phrase(english: str) -> Phrase:
    return next(phrase for group in times.PHRASES.values() for phrase in group if phrase.key == english)


def place(english: str) -> Place:
    return next(place for place in (*places.PLACES, *places.TOWNS) if " ".join(place.english) == english)


def thing(english: str, kind: DeterminerKind, number: str | None = None, quality: str | None = None) -> Nominal:
    determiner = Determiner(kind, phrase(number) if number else None)
    return Nominal(noun(english), determiner, ADJECTIVES[quality] if quality else None)


def own(owner: Person, english: str) -> Nominal:
    return Nominal(noun(english), Determiner("own", None, owner))


def named(english: str) -> Named:
    name = next(name for name in (*people.WOMEN, *people.MEN) if name.key == english)
    return Named(name, name in people.WOMEN)


def state(subject: Pronoun | Nominal | Named | None, predicate: Predicate) -> Statement:
    return Statement(Clause(subject, predicate))


BUY = verb("buy", "action")
MOTHER = own(people.I, "mother")
BROTHER = own(people.SHE, "older brother")
BERLIN = place("Berlin")
RAIN = Falling(times.PRECIPITATION[0], BERLIN)
TIRED = Quality(ADJECTIVES["tired"])
TELEVISION = Action(verb("watch television", "activity"))
YESTERDAY, TOMORROW = phrase("yesterday"), phrase("tomorrow")
