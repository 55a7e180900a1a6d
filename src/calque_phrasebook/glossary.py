"""A bilingual dictionary of the lexicon: every form of a word in one language, and its translation in another.

It contains words and set phrases, but no grammar; word-by-word translation uses it.
"""

from collections.abc import Iterator
from functools import cache
from itertools import zip_longest

from calque_phrasebook.lexicon import nouns, people, places, times, verbs
from calque_phrasebook.lexicon.adjectives import ADJECTIVES
from calque_phrasebook.lexicon.lexemes import Adjective, Noun, Person, Phrase, Precipitation, Verb
from calque_phrasebook.lexicon.tables import Entry as TableEntry
from calque_phrasebook.lexicon.tables import read_table
from calque_phrasebook.realisation import german_phrases as de
from calque_phrasebook.surface import Language

Words = tuple[str, ...]
Entry = dict[Language, list[Words]]  # the forms of a word in each language, form by form

PUNCTUATION: dict[str, dict[Language, str]] = {
    mark: dict(zip(("zh", "en", "de"), marks, strict=True))
    for marks in (("。", ".", "."), ("？", "?", "?"), ("，", ",", ","))
    for mark in marks
}


@cache
def glossary(source: Language, target: Language) -> dict[Words, Words]:
    """Returns the translation of every word form and set phrase of the source language, in its first sense."""
    table: dict[Words, Words] = {}
    for entry in _entries():
        for form, counterpart in zip_longest(entry[source], entry[target]):
            if form:
                table.setdefault(form, counterpart if counterpart is not None else entry[target][0])
    return table


def _entries() -> Iterator[Entry]:
    yield from read_table("function_words.toml").entries("word", _function_word)
    for noun in _nouns():
        yield _noun(noun)
    for verb in (verb for group in verbs.VERBS.values() for verb in group):
        yield _verb(verb)
    for adjective in ADJECTIVES.values():
        yield _adjective(adjective)
    for place in (*places.PLACES, *places.TOWNS, places.HOME):
        yield {"en": [place.english], "de": [(place.german,)], "zh": [(place.chinese,)]}
    for relation in places.RELATIONS:
        yield {"en": [relation.english], "de": [(relation.german,)], "zh": [(relation.chinese,)]}
    for person in people.PERSONS:
        yield from _person(person)
    for modal in verbs.MODALS:
        english: list[Words] = [modal.english] if len(modal.english) == 1 else [("want", "to"), ("wants", "to")]
        yield {"en": english, "de": [(form,) for form in modal.german], "zh": [(modal.chinese,)]}
    for phrase in (phrase for group in times.PHRASES.values() for phrase in group):
        yield _phrase(phrase)
    for unit in (*times.SHORT_UNITS, *times.LONG_UNITS):
        yield {"en": [(unit.english,)], "de": [(unit.german,)], "zh": [(unit.classifier + unit.chinese,)]}
    for precipitation in times.PRECIPITATION:
        yield _precipitation(precipitation)
    for classifier in {noun.classifier: None for noun in _nouns()}:
        yield {"en": [()], "de": [()], "zh": [(classifier,)]}
    for name in (*people.WOMEN, *people.MEN):
        yield _phrase(name)


def _nouns() -> Iterator[Noun]:
    groups = {**nouns.GROUPS}
    measures = groups.pop("measure")
    for group in (*groups.values(), people.RELATIVES, people.COMPANIONS, people.PROFESSIONS, measures):
        yield from group


def _function_word(entry: TableEntry) -> Entry:
    english, german, chinese = (entry.words(language) for language in ("en", "de", "zh"))
    return {"en": [english], "de": [german], "zh": [chinese]}


def _phrase(phrase: Phrase) -> Entry:
    english, german, chinese = (" ".join(text).split() for text in (phrase.english, phrase.german, phrase.chinese))
    return {"en": [tuple(english)], "de": [tuple(german)], "zh": [("".join(chinese),)]}


def _precipitation(falling: Precipitation) -> Entry:
    english = (falling.english, falling.english_third, falling.english_past, falling.english_ing)
    german = (falling.german, falling.german_third, falling.german_participle)
    return {"en": [(form,) for form in english], "de": [(form,) for form in german], "zh": [(falling.chinese,)]}


def _noun(noun: Noun) -> Entry:
    attribute = (noun.german_attribute + "e",) if noun.german_attribute else ()
    german = [(*attribute, noun.german), (*attribute, noun.german_plural)]
    english = [f"{noun.english_attribute} {form}" for form in (noun.english, noun.english_plural)]
    others = [(noun.german_oblique,), (de.noun_form(noun, plural=True, case="dative"),)]
    return {
        "en": [tuple(form.split()) for form in english],
        "de": [*german, *others, *([(noun.german_feminine,)] if noun.german_feminine else [])],
        "zh": [(noun.chinese,)],
    }


def _verb(verb: Verb) -> Entry:
    tail = (*verb.english_preposition, *verb.english_complement, *verb.english_particle)
    english = (verb.english, verb.english_third, verb.english_past, verb.english_ing)
    complement, whole, finite = verb.german_complement, de.infinitive(verb), verb.german_prefix + verb.german_third
    simple = [] if complement else [(verb.german_first,), (verb.german,), (verb.german_third,)]
    german = [(*complement, form) for form in (whole, finite, verb.german_participle, whole)]
    return {
        "en": [(form, *tail) for form in english],
        "de": [*german, *simple],
        "zh": [(verb.chinese + "".join(verb.chinese_complement),)],
    }


def _adjective(adjective: Adjective) -> Entry:
    endings = ("e", "en", "er", "es")
    return {
        "en": [(adjective.english,), adjective.english_comparative, *[(adjective.english,)] * len(endings)],
        "de": [
            (adjective.german,), (adjective.german_comparative,), *((adjective.german_stem + end,) for end in endings)
        ],
        "zh": [(adjective.chinese,)],
    }  # fmt: skip


def _person(person: Person) -> Iterator[Entry]:
    own = person.german_possessive
    possessives: list[Words] = [(own + ending,) for ending in ("", "e", "en", "em", "er", "es")]
    yield {
        "en": [(form,) for form in person.english[:2]],
        "de": [(form,) for form in person.german[:2]],
        "zh": [(person.chinese,)],
    }
    yield {"en": [(person.english[2],)], "de": possessives, "zh": [(person.chinese + "的",)]}
