"""English noun phrases, places and times."""

from calque_phrasebook.lexicon.lexemes import Phrase, Place
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


def noun_phrase(phrase: NounPhrase, *, at: Part, position: int = 0) -> list[Word]:
    """Returns the words of a noun phrase; position 0 is that of a subject, 1 that of an object.

    `Described` nouns are realised in `english.py`.
    """
    match phrase:
        case Pronoun(person):
            return spell(person.english[position], at / "person")
        case Named(name):
            return fixed(name, at=at / "name")
        case Nominal():
            return _nominal(phrase, at=at)
        case Measured(number, measure, stuff):
            if number:
                head = [*fixed(number, at=at / "number"), *spell(measure.english_plural, at / "measure")]
            else:
                head = with_article(spell(measure.english, at / "measure"), at / "number")
            return [*head, *spell("of"), *spell(stuff.english_plural, at / "stuff")]
        case Both(first, second):
            both = noun_phrase(first, at=at / "first"), noun_phrase(second, at=at / "second")
            return [*both[0], *spell("and", at / "conjunction"), *both[1]]
        case Gap():
            return []
        case Asked():
            return spell("who" if position == 0 else "what", at)
        case Described():
            raise AssertionError("the noun needs a relative clause, but none was given")


def _nominal(phrase: Nominal, *, at: Part) -> list[Word]:
    noun, determiner = phrase.noun, phrase.determiner
    kind = at / "determiner" / "kind"
    number = fixed(determiner.number, at=at / "determiner" / "number")
    quality = spell(phrase.quality.english, at / "quality") if phrase.quality else []
    attribute = spell(noun.english_attribute, at / "noun" / "attribute")
    head = spell(noun.english_plural if determiner.plural else noun.english, at / "noun")
    words = [*quality, *attribute, *head]
    match determiner.kind:
        case "a":
            return with_article(words, kind)
        case "bare":
            return words
        case "count":
            return [*number, *words]
        case "these":
            return [*spell("these", kind), *number, *words]
        case "own":
            assert determiner.owner is not None
            return [*spell(determiner.owner.english[2], at / "determiner" / "owner"), *words]
        case "how many":
            return [*spell("how", kind), *spell("many", kind / "scale"), *words]
        case "the" | "this" | "many" | "some" | "which":
            return [*spell(determiner.kind, kind), *words]


def with_article(words: list[Word], *parts: Part) -> list[Word]:
    """Returns the words preceded by *a* or *an*; the article expresses the parts."""
    return [*spell("an" if words[0].text[0] in "aeiouAEIOU" else "a", *parts), *words]


# --- places and times -----------------------------------------------------------------------------------------------


def where(place: Place | Spot, *, at: Part) -> list[Word]:
    """Returns the place where something is: in the park, on the table."""
    if isinstance(place, Spot):
        relation = spell(" ".join(place.relation.english), at / "relation")
        return [*relation, *spell("the", at / "article"), *spell(place.noun.english, at / "noun")]
    return [*spell(place.english_at, at / "preposition"), *named(place, at=at)]


def toward(place: Place | Spot, *, at: Part) -> list[Word]:
    """Returns the phrase for the destination of a movement: to the park, home, on the table."""
    if isinstance(place, Spot):
        return where(place, at=at)
    return [*spell(place.english_to, at / "preposition"), *named(place, at=at)]


def named(place: Place, *, at: Part) -> list[Word]:
    """Returns a place without its preposition: the park, Berlin."""
    article = spell("the", at / "article") if place.gender else []
    return [*article, *spell(" ".join(place.english), at)]


def clock_time(hour: Hour, *, at: Part) -> list[Word]:
    """Returns a time of day: three o'clock, half past three."""
    number = spell(hour.hour.english, at / "hour")
    return [*spell("half past", at / "half"), *number] if hour.half else [*number, *spell("o'clock", at / "clock")]


def fixed(phrase: Phrase | None, *, at: Part) -> list[Word]:
    """Returns the words of a fixed phrase, if there is one."""
    return spell_pieces(phrase.english, at=at, pieces=phrase.parts) if phrase else []
