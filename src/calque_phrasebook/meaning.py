"""The meanings of sentences, independent of language: trees of values over the lexicon.

The grammar draws a meaning, and one realiser per language expresses it. Two different meanings never have the same
sentence in any language: number, tense and person are always expressed by a word. The names of the classes are part of
the keys by which combinations are held out for the test set (`split.py`), so renaming a class changes the split.
"""

from dataclasses import dataclass
from typing import Literal

from calque_phrasebook.lexicon.lexemes import (
    Adjective,
    ClockHour,
    Modal,
    Noun,
    Person,
    Phrase,
    Place,
    Precipitation,
    Relation,
    Unit,
    Verb,
)

# --- noun phrases ---------------------------------------------------------------------------------------------------

DeterminerKind = Literal["a", "the", "this", "count", "these", "many", "some", "bare", "own", "which", "how many"]


@dataclass(frozen=True, slots=True)
class Determiner:
    """The determiner of a noun; the kinds "count" and "these" have a `number`, the kind "own" has an `owner`."""

    kind: DeterminerKind
    number: Phrase | None = None
    owner: Person | None = None

    @property
    def plural(self) -> bool:
        return self.kind in ("count", "these", "many", "some", "bare", "how many") or self.number is not None


@dataclass(frozen=True, slots=True)
class Pronoun:
    """I, you, he…"""

    person: Person


@dataclass(frozen=True, slots=True)
class Named:
    """A person referred to by name."""

    name: Phrase
    female: bool


@dataclass(frozen=True, slots=True)
class Nominal:
    """A noun with its determiner and perhaps a quality: these three red apples."""

    noun: Noun
    determiner: Determiner
    quality: Adjective | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """An amount of stuff: two cups of tea; a `number` of None means one."""

    number: Phrase | None
    measure: Noun
    stuff: Noun


@dataclass(frozen=True, slots=True)
class Both:
    """Two people together: Anna and my brother."""

    first: "Named | Nominal"
    second: "Named | Nominal"


@dataclass(frozen=True, slots=True)
class Described:
    """A noun with a relative clause of which it is the object: the book that I bought yesterday."""

    noun: Noun
    clause: "Clause"


@dataclass(frozen=True, slots=True)
class Gap:
    """The object of a relative clause, which the clause itself omits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The unknown of a question: who as a subject, what as an object."""


NounPhrase = Pronoun | Named | Nominal | Measured | Both | Described | Gap | Asked

# --- predicates -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a room: on the table, under the bed."""

    relation: Relation
    noun: Noun


@dataclass(frozen=True, slots=True)
class Duration:
    """The duration of an action: three hours."""

    number: Phrase
    unit: Unit


@dataclass(frozen=True, slots=True)
class Action:
    """Someone does something, perhaps to a thing, for or with someone, somewhere, by some means."""

    verb: Verb
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    companion: NounPhrase | None = None
    place: Place | None = None
    goal: Place | Spot | None = None
    vehicle: Noun | None = None
    duration: Duration | None = None
    manner: Phrase | None = None
    purpose: "Action | None" = None
    gladly: bool = False


@dataclass(frozen=True, slots=True)
class Quality:
    """The predicate of a quality: the subject is (very, too) warm."""

    adjective: Adjective
    degree: Phrase | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The predicate of a comparison: the subject is warmer than the standard, or as warm as it."""

    adjective: Adjective
    standard: NounPhrase
    equal: bool


@dataclass(frozen=True, slots=True)
class Occupation:
    """The predicate of a profession: the subject is a doctor."""

    noun: Noun


@dataclass(frozen=True, slots=True)
class Located:
    """The predicate of a location: the subject is in the park."""

    where: Place | Spot


@dataclass(frozen=True, slots=True)
class Origin:
    """The subject comes from a city or country."""

    where: Place


@dataclass(frozen=True, slots=True)
class Priced:
    """The price of the subject; a question about the price has no number."""

    number: Phrase | None = None
    currency: Phrase | None = None


@dataclass(frozen=True, slots=True)
class Aged:
    """The age of the subject; a question about the age has no number."""

    number: Phrase | None = None


@dataclass(frozen=True, slots=True)
class Born:
    """The subject was born in a month or season."""

    when: Phrase


@dataclass(frozen=True, slots=True)
class Aching:
    """A part of the subject's body hurts."""

    part: Noun


@dataclass(frozen=True, slots=True)
class Falling:
    """It rains, snows or hails in a city; the clause has no subject."""

    what: Precipitation
    where: Place


@dataclass(frozen=True, slots=True)
class Climate:
    """It is warm in a city; the clause has no subject."""

    adjective: Adjective
    where: Place


@dataclass(frozen=True, slots=True)
class Weather:
    """The weather in a city is good; the clause has no subject."""

    adjective: Adjective
    where: Place | None


Impersonal = Falling | Climate | Weather
Predicate = Action | Quality | Comparison | Occupation | Located | Origin | Priced | Aged | Born | Aching | Impersonal

# --- clauses --------------------------------------------------------------------------------------------------------

Tense = Literal["state", "habit", "ongoing", "past", "future"]


@dataclass(frozen=True, slots=True)
class Hour:
    """A time of day: at three o'clock, at half past three."""

    hour: ClockHour
    half: bool


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject and a predicate with tense, time and polarity; `fronted` puts the time first."""

    subject: NounPhrase | None
    predicate: Predicate
    tense: Tense = "state"
    modal: Modal | None = None
    negative: bool = False
    time: Phrase | None = None
    hour: Hour | None = None
    frequency: Phrase | None = None
    fronted: bool = False


# --- sentences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause as a statement."""

    clause: Clause


QuestionKind = Literal["whether", "subject", "object", "place", "goal", "time", "reason", "means", "price", "age"]


@dataclass(frozen=True, slots=True)
class Question:
    """A clause as a question; the subject or object in question is `Asked`, or a noun with which or how many."""

    clause: Clause
    asked: QuestionKind


@dataclass(frozen=True, slots=True)
class Command:
    """A command or a prohibition: open the door, do not open the door."""

    action: Action
    negative: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion: let us go home."""

    action: Action


Connective = Literal["because", "if", "although", "while", "and", "but", "so"]


@dataclass(frozen=True, slots=True)
class Linked:
    """Two clauses and their connective; `first` is the reason, condition or background of `second`."""

    connective: Connective
    first: Clause
    second: Clause


@dataclass(frozen=True, slots=True)
class Report:
    """Someone thinks, hopes or says that something is so, or asks whether it is."""

    subject: NounPhrase
    verb: Verb
    clause: Clause
    complementiser: Literal["that", "whether"]


@dataclass(frozen=True, slots=True)
class Existence:
    """There is something at a spot or place."""

    where: Spot | Place
    thing: Nominal


@dataclass(frozen=True, slots=True)
class Presentation:
    """This is my friend; this is a new car."""

    thing: Nominal


@dataclass(frozen=True, slots=True)
class ClockTime:
    """It is half past three now."""

    hour: Hour


Sentence = Statement | Question | Command | Suggestion | Linked | Report | Existence | Presentation | ClockTime


def agreement(phrase: NounPhrase) -> int:
    """Returns the person a verb agrees with: 0 I, 1 you, 2 he, 3 we and they."""
    match phrase:
        case Pronoun(person):
            return person.agreement
        case Nominal(noun, determiner):
            return 3 if determiner.plural or noun.plural_only else 2
        case Both():
            return 3
    return 2


def questioned(phrase: NounPhrase) -> bool:
    """Returns whether a question asks for this noun phrase; English and German put such a phrase first."""
    return isinstance(phrase, Asked) or (
        isinstance(phrase, Nominal) and phrase.determiner.kind in ("which", "how many")
    )
