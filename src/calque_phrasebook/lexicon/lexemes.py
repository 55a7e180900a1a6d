"""The kinds of words, each holding its three languages, and the readers of the lexicon's tables.

A table has one line a word and one column a language, `english | german | chinese [| classes]`; what stands in a column
is explained at its reader. Regular inflection is computed here once, so a lexeme holds finished forms.
"""

import re
from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
GENDERS: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A thing, animal or person; `mass` nouns (tea) have no plural, `plural_only` ones (parents) no singular."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    german_oblique: str  # the singular outside the nominative: den Jungen
    german_feminine: str  # a profession held by a woman: Ärztin
    german_attribute: str  # the stem of an adjective that belongs to the word: der *älter*e Bruder
    gender: Gender
    chinese: str
    classifier: str
    mass: bool
    plural_only: bool
    stands: bool  # it stands (steht) on a table; other things lie (liegen)

    @property
    def key(self) -> str:
        return self.english


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """What one does: finished English forms, German stem forms with prefix and government, Chinese verb and object."""

    english: str
    english_third: str
    english_past: str
    english_ing: str
    english_tail: tuple[str, ...]  # wait *for*, play *the piano*
    english_particle: tuple[str, ...]  # turn the lamp *off*
    german: str
    german_first: str
    german_third: str
    participle: str
    auxiliary: Literal["haben", "sein"]
    prefix: str  # *auf*stehen
    lead: tuple[str, ...]  # *Klavier* spielen
    preposition: tuple[str, ...]  # *auf* den Bus warten
    case: Case
    reflexive: bool
    chinese: str
    chinese_object: tuple[str, ...]  # 踢*足球*
    coverb: tuple[str, ...]  # *给*妈妈打电话
    classes: tuple[str, ...]

    @property
    def key(self) -> str:
        return " ".join((self.english, *self.english_tail, *self.english_particle, self.chinese))


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """A quality; `colour` ones are stated with 是…的 in Chinese."""

    english: str
    english_comparative: tuple[str, ...]
    german: str
    german_stem: str
    german_comparative: str
    chinese: str
    chinese_attribute: tuple[str, ...]
    colour: bool

    @property
    def key(self) -> str:
        return self.english + self.chinese


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where one is and where one goes: in the park, to the park."""

    english_at: tuple[str, ...]
    english_to: tuple[str, ...]
    german_at: tuple[str, ...]
    german_to: tuple[str, ...]
    chinese_at: tuple[str, ...]
    chinese: str

    @property
    def key(self) -> str:
        return self.english_at[-1] + self.chinese


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """An uninflected word or fixed phrase (a time, a name, an adverb, a number), the same wherever it stands."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    chinese: tuple[str, ...]

    @property
    def key(self) -> str:
        return " ".join(self.english)


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A verb that takes an infinitive; `english` ending in *to* is a full verb with do-support."""

    english: tuple[str, ...]
    german: tuple[str, str, str, str]  # ich, du, er, wir
    chinese: str

    @property
    def key(self) -> str:
        return self.english[0]


def nouns(table: str) -> tuple[Noun, ...]:
    """Gives the nouns of a table: `child/children | das Kind/Kinder | 个 孩子`.

    German has a third form where the singular is weak (`der Junge/Jungen/Jungen`) and a last one, after `+`, for a
    woman; `älter- Bruder` declines an adjective before the noun.
    A plural `-` marks a mass noun, a singular `-` a plural one; `^` at the end a thing that stands.
    """
    return tuple(_noun(columns) for columns in rows(table))


def _noun(columns: list[str]) -> Noun:
    english, german, chinese = columns[:3]
    stands = chinese.endswith("^")
    classifier, word = chinese.removesuffix("^").split()
    singular, _, plural = english.partition("/")
    german, _, feminine = german.partition("+")
    article, german = german.strip().split(" ", 1)
    attribute, _, german = german.rpartition("- ")
    forms = german.strip().split("/")
    mass, plural_only = plural == "-", singular == "-"
    return Noun(
        english=plural if plural_only else singular,
        english_plural=singular if mass else plural or english_plural(singular),
        german=forms[0] if not plural_only else forms[1],
        german_plural=forms[1] if len(forms) > 1 else forms[0],
        german_oblique=forms[2] if len(forms) > 2 else forms[0],
        german_feminine=feminine.strip(),
        german_attribute=attribute,
        gender=GENDERS[article],
        chinese=word,
        classifier=classifier,
        mass=mass,
        plural_only=plural_only,
        stands=stands,
    )


def verbs(table: str) -> tuple[Verb, ...]:
    """Gives the verbs of a table: `wait : for | warten wartet gewartet @auf | 等 | person`.

    English: base, irregular past and -ing, `:` tail, `;` particle after the object. German: lead `:`,
    prefix`+`infinitive, third person, participle, then `sein`, `sich`, `@preposition` or `dative`. Chinese: verb, its
    fixed object, `@coverb`. Last: object classes.
    """
    return tuple(_verb(columns) for columns in rows(table))


def _verb(columns: list[str]) -> Verb:
    english, _, particle = columns[0].partition(";")
    english, _, tail = english.partition(":")
    base, *irregular = english.split()
    lead, _, german = columns[1].rpartition(":")
    infinitive, third, participle, *marks = german.split()
    prefix, _, infinitive = infinitive.rpartition("+")
    words = columns[2].split()
    return Verb(
        english=base,
        english_third=english_third(base),
        english_past=irregular[0] if irregular else english_past(base),
        english_ing=irregular[1] if len(irregular) > 1 else english_ing(base),
        english_tail=tuple(tail.split()),
        english_particle=tuple(particle.split()),
        german=infinitive,
        german_first=german_first(infinitive) if third.endswith("t") else third,
        german_third=third,
        participle=participle,
        auxiliary="sein" if "sein" in marks else "haben",
        prefix=prefix,
        lead=tuple(lead.split()),
        preposition=tuple(mark[1:] for mark in marks if mark.startswith("@")),
        case="dative" if "dative" in marks else "accusative",
        reflexive="sich" in marks,
        chinese=words[0],
        chinese_object=tuple(word for word in words[1:] if word[0] != "@"),
        coverb=tuple(word[1:] for word in words if word.startswith("@")),
        classes=tuple(columns[3].split()) if len(columns) > 3 else (),
    )


def adjectives(table: str) -> dict[str, Adjective]:
    """Gives the adjectives of a table by English name: `old older | alt älter | 旧 [的]`.

    A colour's Chinese ends in 色. A German word with `/` gives its stem before endings (`teuer/teur`). A name after
    `#` tells two senses apart.
    """
    table_of: dict[str, Adjective] = {}
    for english, german, chinese in rows(table):
        english, _, sense = english.partition("#")
        base, *comparative = english.split()
        german_base, german_comparative = (*german.split(), "")[:2]
        plain, _, stem = german_base.partition("/")
        word, *particle = chinese.split()
        needs_particle = bool(particle) or len(word) > 1
        table_of[sense.strip() or base] = Adjective(
            english=base,
            english_comparative=tuple(comparative) or ("more", base),
            german=plain,
            german_stem=stem or plain,
            german_comparative=german_comparative or plain + "er",
            chinese=word,
            chinese_attribute=(word, "的") if needs_particle else (word,),
            colour=word.endswith("色"),
        )
    return table_of


def phrases(table: str) -> tuple[Phrase, ...]:
    """Gives the fixed phrases of a table; words are separated by spaces in all three columns."""
    return tuple(Phrase(*(tuple(column.split()) for column in columns)) for columns in rows(table))


def rows(table: str) -> list[list[str]]:
    """Gives the columns of every line that is not empty."""
    return [[column.strip() for column in line.split("|")] for line in table.strip().splitlines() if line.strip()]


def english_plural(noun: str) -> str:
    """Gives the regular plural: boxes, cherries, books."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def english_third(verb: str) -> str:
    """Gives the form after *he*: goes, washes, has."""
    if verb == "have":
        return "has"
    return verb + "es" if verb.endswith("o") else english_plural(verb)


def english_past(verb: str) -> str:
    """Gives the regular past: jogged, tried, baked."""
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def english_ing(verb: str) -> str:
    """Gives the form after *is*: swimming, baking, reading."""
    if re.search(r"[^aeioy]e$", verb):
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def _doubled(verb: str) -> str:
    return verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) else verb


def german_first(infinitive: str) -> str:
    """Gives the form after *ich*: kaufe, angle, feiere."""
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    return infinitive[:-1] + ("e" if infinitive.endswith("ern") else "")
