"""Morphology against forms written by hand."""

import pytest

from calque_phrasebook.lexicon import nouns as lexicon_nouns
from calque_phrasebook.lexicon import verbs as lexicon_verbs
from calque_phrasebook.lexicon.adjectives import ADJECTIVES
from calque_phrasebook.lexicon.inflection import english_ing, english_past, english_plural, english_third
from calque_phrasebook.lexicon.lexemes import Case, Noun, Verb
from calque_phrasebook.meaning import Determiner, Nominal
from calque_phrasebook.realisation import german_phrases as de
from calque_phrasebook.realisation.words import SENTENCE


def noun(english: str) -> Noun:
    return next(n for members in lexicon_nouns.CLASSES.values() for n in members if n.key == english)


def verb(german: str) -> Verb:
    return next(v for group in lexicon_verbs.VERBS.values() for v in group if de.infinitive(v) == german)


@pytest.mark.parametrize(
    ("base", "third", "past", "ing"),
    [
        ("jog", "jogs", "jogged", "jogging"),
        ("wash", "washes", "washed", "washing"),
        ("carry", "carries", "carried", "carrying"),
        ("dance", "dances", "danced", "dancing"),
        ("go", "goes", "goed", "going"),
        ("open", "opens", "opened", "opening"),
        ("play", "plays", "played", "playing"),
    ],
)
def test_english_verbs_inflect_by_rule(base: str, third: str, past: str, ing: str) -> None:
    assert (english_third(base), english_past(base), english_ing(base)) == (third, past, ing)


def test_english_plurals_follow_their_ending() -> None:
    assert [english_plural(word) for word in ("box", "story", "key", "watch", "book")] == [
        "boxes", "stories", "keys", "watches", "books",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("german", "forms"),
    [
        ("essen", "esse isst isst essen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten"),
        ("mögen", "mag magst mag mögen"),
        ("wissen", "weiß weißt weiß wissen"),
        ("haben", "habe hast hat haben"),
        ("füttern", "füttere fütterst füttert füttern"),
        ("aufstehen", "stehe stehst steht stehen"),
        ("einladen", "lade lädst lädt laden"),
    ],
)
def test_german_verbs_agree(german: str, forms: str) -> None:
    assert [de.present(verb(german), person=person) for person in range(4)] == forms.split()


def test_german_commands() -> None:
    commands = {
        "aufmachen": "mach",
        "wegwerfen": "wirf",
        "mitnehmen": "nimm",
        "aufessen": "iss",
        "einschalten": "schalte",
    }
    assert {german: de.imperative(verb(german)) for german in commands} == commands


@pytest.mark.parametrize(
    ("english", "kind", "case", "expected"),
    [
        ("apple", "a", "nominative", "ein roter Apfel"),
        ("apple", "a", "accusative", "einen roten Apfel"),
        ("apple", "this", "nominative", "dieser rote Apfel"),
        ("book", "a", "accusative", "ein rotes Buch"),
        ("cat", "a", "dative", "einer roten Katze"),
        ("lion", "the", "accusative", "den roten Löwen"),
        ("dog", "many", "dative", "vielen roten Hunden"),
        ("dog", "bare", "accusative", "rote Hunde"),
        ("car", "these", "dative", "diesen roten Autos"),
    ],
)
def test_german_noun_phrases_decline(english: str, kind: str, case: Case, expected: str) -> None:
    phrase = Nominal(noun(english), Determiner(kind), ADJECTIVES["red"])  # type: ignore[arg-type]
    assert " ".join(word.text for word in de.noun_phrase(phrase, case=case, at=SENTENCE)) == expected


def test_verbs_that_can_be_asked_for_differ_in_every_language() -> None:
    open_verbs = lexicon_verbs.ACTIONS + lexicon_verbs.EVENTS
    for form in ("german", "german_participle", "english", "english_past", "chinese"):
        said = [(getattr(v, form), v.german_prefix if form == "german" else "") for v in open_verbs]
        assert len(set(said)) == len(said), form
