"""The kinds of words. A lexeme holds its words in all three languages, with every form that is not derived by a rule.

`key` identifies a lexeme in the combinations held out for the test set (`split.py`): changing it changes the split.
"""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A thing, animal or person; `mass` nouns (tea) have no plural, `plural_only` ones (parents) no singular."""

    english: str
    english_plural: str
    english_attribute: str  # an adjective that belongs to the word: *older* brother
    german: str
    german_plural: str
    german_oblique: str  # the singular outside the nominative: den Jungen
    german_feminine: str  # a profession held by a woman: Ärztin
    german_attribute: str  # the same in German, as a stem: der *älter*e Bruder
    gender: Gender
    chinese: str
    classifier: str
    mass: bool
    plural_only: bool
    stands: bool  # German says that it stands (steht) on a table; other things lie (liegen)
    female: bool  # a relative whose profession takes its feminine form in German
    also: tuple[str, ...]  # further classes of the noun

    @property
    def key(self) -> str:
        return f"{self.english_attribute} {self.english}".lstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb: its English forms, German principal parts and Chinese word, with a complement if it needs one."""

    english: str
    english_third: str
    english_past: str
    english_ing: str
    english_preposition: tuple[str, ...]  # wait *for*
    english_particle: tuple[str, ...]  # turn the lamp *off*
    english_complement: tuple[str, ...]  # play *the piano*
    german: str
    german_first: str
    german_third: str
    german_participle: str
    german_auxiliary: Literal["haben", "sein"]
    german_prefix: str  # *auf*stehen
    german_preposition: tuple[str, ...]  # *auf* den Bus warten
    german_complement: tuple[str, ...]  # *Klavier* spielen
    german_case: Case
    german_reflexive: bool
    chinese: str
    chinese_coverb: tuple[str, ...]  # *给*妈妈打电话
    chinese_complement: tuple[str, ...]  # 踢*足球*
    objects: tuple[str, ...]  # classes of nouns
    places: tuple[str, ...]  # kinds of places
    manners: tuple[str, ...]

    @property
    def key(self) -> str:
        tail = (*self.english_preposition, *self.english_complement, *self.english_particle)
        return " ".join((self.english, *tail, self.chinese))


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; if it is a `colour`, Chinese states it with 是…的."""

    english: str
    english_comparative: tuple[str, ...]
    german: str
    german_stem: str
    german_comparative: str
    chinese: str
    chinese_attribute: tuple[str, ...]  # before a noun: 新鲜 的
    colour: bool

    @property
    def key(self) -> str:
        return self.english + self.chinese


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place where someone is or goes: in the park, to the park. Towns and home have no article."""

    english: tuple[str, ...]
    english_at: str
    english_to: str  # empty in *go home*
    german: str
    german_at: str
    german_to: str
    gender: Gender | None
    chinese: str
    chinese_at: str  # after the name: 公园*里*; empty if the name alone suffices
    kinds: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.english[-1] + self.chinese


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A spatial relation of one thing to another: under, behind."""

    english: tuple[str, ...]
    german: str
    chinese: str

    @property
    def key(self) -> str:
        return self.english[0]


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """An uninflected word or fixed phrase (a time, a name, an adverb, a number), the same wherever it stands.

    In each language it is one whole, or has as many parts as in the others: *yesterday·evening*, *gestern·Abend*.
    """

    english: tuple[str, ...]
    german: tuple[str, ...]
    chinese: tuple[str, ...]
    kinds: tuple[str, ...] = ()

    @property
    def parts(self) -> int:
        return max(len(self.english), len(self.german), len(self.chinese))

    @property
    def key(self) -> str:
        return " ".join(self.english)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A unit of time, in the plural: three hours, 三个小时."""

    english: str
    german: str
    chinese: str
    classifier: str  # empty if Chinese takes none

    @property
    def key(self) -> str:
        return self.english


@dataclass(frozen=True, slots=True, eq=False)
class ClockHour:
    """An hour: German has a form before Uhr (ein Uhr) and one alone (halb eins)."""

    english: str
    german: str
    german_alone: str
    chinese: str


@dataclass(frozen=True, slots=True, eq=False)
class Precipitation:
    """A weather verb without a subject of its own: it rains, es schneit, 下雨."""

    english: str
    english_third: str
    english_past: str
    english_ing: str
    german: str
    german_third: str
    german_participle: str
    chinese: str

    @property
    def key(self) -> str:
        return " ".join((self.english, self.english_third, self.english_past, self.english_ing))


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb, which takes an infinitive; if `english` ends in *to* (want to), it takes do-support."""

    english: tuple[str, ...]
    german: tuple[str, str, str, str]  # ich, du, er, wir
    chinese: str

    @property
    def key(self) -> str:
        return self.english[0]


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A grammatical person with its pronouns; the listener is always one person (du), so *you* is not ambiguous."""

    english: tuple[str, str, str]  # subject, object, possessive
    german: tuple[str, str, str]  # nominative, accusative, dative
    german_possessive: str
    german_reflexive: str
    chinese: str
    agreement: int  # 0 ich, 1 du, 2 er and sie, 3 wir and sie

    @property
    def key(self) -> str:
        return self.english[0]
