"""The grammar rules that generate noun phrases for people and things."""

from collections.abc import Callable, Sequence
from functools import cache, partial

from calque_phrasebook.grammar.rules import Rule, build, choose, word
from calque_phrasebook.lexicon import adjectives as adjectives
from calque_phrasebook.lexicon import nouns as nouns
from calque_phrasebook.lexicon import people as people
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon.lexemes import Noun, Person, Phrase, Verb
from calque_phrasebook.meaning import Both, Determiner, Measured, Named, Nominal, NounPhrase, Pronoun

A, THE, THIS = Determiner("a"), Determiner("the"), Determiner("this")
THESE, MANY, SOME, BARE = Determiner("these"), Determiner("many"), Determiner("some"), Determiner("bare")
WHICH, HOW_MANY = Determiner("which"), Determiner("how many")


def only(value: Determiner) -> Rule[Determiner]:
    """Returns a rule that always draws this determiner."""
    return word(value.kind, (value,))


def _count(number: Phrase) -> Determiner:
    return Determiner("count", number)


def _these(number: Phrase) -> Determiner:
    return Determiner("these", number)


def _own(owner: Person) -> Determiner:
    return Determiner("own", None, owner)


number = word("number", times.NUMBERS)
counted = build("counted", _count, number)
these_counted = build("these counted", _these, word("few", times.FEW))
owned = build("owned", _own, word("owner", people.OWNERS))

# --- things ---------------------------------------------------------------------------------------------------------

_affirmed = choose(
    "affirmed determiner",
    (30, only(A)),
    (26, counted),
    (16, only(THIS)),
    (7, only(THESE)),
    (4, these_counted),
    (5, only(MANY)),
    (5, only(SOME)),
    (12, owned),
)
_brief = choose("brief determiner", (34, only(A)), (34, counted), (18, only(THIS)), (14, owned))
_denied = choose("denied determiner", (50, only(BARE)), (28, only(THIS)), (22, owned))
_habitual = choose("habitual determiner", (45, only(BARE)), (20, only(A)), (25, counted), (10, only(MANY)))
_describable = choose("describable determiner", (56, only(A)), (20, counted), (16, only(THIS)), (8, only(THESE)))
_topical = choose("topical determiner", (50, only(THIS)), (20, owned), (22, only(THESE)), (8, these_counted))


@cache
def thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class as objects of a verb: an apple, these three books, a red car."""
    members = word(kind, nouns.CLASSES[kind])
    plain = build("thing", Nominal, members, _affirmed)
    if not adjectives.DESCRIPTIONS.get(kind):
        return plain
    described = build("described thing", Nominal, members, _describable, word("quality", adjectives.attributes(kind)))
    return choose("object", (58, plain), (42, described))


@cache
def brief_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class without adjectives: a book, two apples, this car."""
    return build("brief thing", Nominal, word(kind, nouns.CLASSES[kind]), _brief)


@cache
def denied_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class as objects of a negated verb: no apples, not this book."""
    return build("denied thing", Nominal, word(kind, nouns.CLASSES[kind]), _denied)


@cache
def habitual_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class as objects of a habitual action: apples, two books."""
    return build("habitual thing", Nominal, word(kind, nouns.CLASSES[kind]), _habitual)


@cache
def bare_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws nouns of a class without a determiner, meant in general: apples, German."""
    return build("things in general", Nominal, word(kind, nouns.CLASSES[kind]), only(BARE))


@cache
def certain_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class with the definite article, known from the situation: the door."""
    return build("certain thing", Nominal, word(kind, nouns.CLASSES[kind]), only(THE))


@cache
def topical_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class as the topic of a sentence: this apple, these books, my car."""
    return build("topical thing", Nominal, word(kind, nouns.CLASSES[kind]), _topical)


@cache
def which_things(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class in a question with *which*: which apple."""
    return build("which of the things", Nominal, word(kind, nouns.CLASSES[kind]), only(WHICH))


@cache
def how_many_things(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws things of a class in a question with *how many*: how many apples."""
    return build("how many of the things", Nominal, word(kind, nouns.CLASSES[kind]), only(HOW_MANY))


@cache
def single_thing(kind: str) -> Rule[NounPhrase]:
    """Returns a rule that draws single things of a class that can be pointed at: this apple, my car."""
    pointed = choose("pointed", (60, only(THIS)), (40, owned))
    return build("single thing", Nominal, word(kind, nouns.CLASSES[kind]), pointed)


def of_classes(verb: Verb, rule_of: Callable[[str], Rule[NounPhrase]]) -> Rule[NounPhrase]:
    """Returns a rule that draws objects of a verb; all nouns of the classes that the verb takes are equally likely."""
    return choose("selected object", *((len(nouns.CLASSES[kind]), rule_of(kind)) for kind in verb.objects))


# --- amounts --------------------------------------------------------------------------------------------------------


def _amount(measure: Noun, stuff: Sequence[Noun]) -> Rule[NounPhrase]:
    amount: Rule[Phrase | None] = word("amount", (None, None, *times.FEW))
    made = build("amount of " + measure.english, Measured, amount, word("measure", (measure,)), word("stuff", stuff))
    # None (one) is listed twice so that it is drawn more often, but it is a single meaning
    return Rule(made.name, made.count * 5 // 6, made.draw, made.parts)


drinks = choose(
    "drinks",
    (30, _amount(nouns.CUP, nouns.CLASSES["hot_drink"])),
    (50, _amount(nouns.GLASS, nouns.CLASSES["cold_drink"])),
    (20, _amount(nouns.BOTTLE, nouns.CLASSES["cold_drink"])),
)
bowls = _amount(nouns.BOWL, nouns.CLASSES["bowl_food"])
pairs = _amount(nouns.PAIR, nouns.CLASSES["paired"])
groceries = choose(
    "groceries",
    (25, pairs),
    (35, _amount(nouns.KILO, nouns.CLASSES["fruit"])),
    (25, _amount(nouns.BOTTLE, nouns.CLASSES["cold_drink"])),
    (15, bowls),
)


def stuff_in_general(stuff: Sequence[Noun]) -> Rule[NounPhrase]:
    """Returns a rule that draws nouns for stuff without an amount: tea, shoes."""
    return build("stuff in general", Nominal, word("stuff", stuff), only(BARE))


# --- people ---------------------------------------------------------------------------------------------------------


def pronouns(*persons: Person) -> Rule[NounPhrase]:
    """Returns a rule that draws the pronouns of the given persons."""
    return build("pronoun", Pronoun, word("person", persons))


_women = build("woman's name", partial(Named, female=True), word("name", people.WOMEN))
_men = build("man's name", partial(Named, female=False), word("name", people.MEN))
name: Rule[Named | Nominal] = choose("name", (1, _women), (1, _men))
_single_relatives = tuple(noun for noun in people.RELATIVES if not noun.plural_only)
relative: Rule[Named | Nominal] = build("relative", Nominal, word("kin", people.RELATIVES), owned)
single_relative: Rule[NounPhrase] = build("single relative", Nominal, word("kin", _single_relatives), owned)
companion: Rule[NounPhrase] = build("companion", Nominal, word("companions", people.COMPANIONS), owned)
professional: Rule[NounPhrase] = build("professional", Nominal, word("professions", people.PROFESSIONS), only(THE))
both: Rule[NounPhrase] = build("both", Both, name, relative)

_I, _YOU, _HE, _SHE, _WE, _THEY = (pronouns(person) for person in people.PERSONS)
_third: tuple[tuple[float, Rule[NounPhrase]], ...] = (
    (11, _HE),
    (11, _SHE),
    (13, name),
    (17, relative),
    (8, professional),
    (5, companion),
)
others = choose("others", (14, _WE), (13, _THEY), (4, both), *_third)
"""Subjects of a present action: not the speaker alone and not the listener."""
anyone = choose("anyone", (12, _I), (12, _YOU), (8, _WE), (6, _THEY), (3, both), *_third)
someone_asked = choose("someone asked about", (32, _YOU), *_third, (6, _THEY))
brief_subject = choose(
    "brief subject", (14, _I), (14, _HE), (14, _SHE), (10, _WE), (9, _THEY), (10, _YOU), (16, name), (13, relative)
)
speaker = _I
brief_others = choose("brief others", (17, _HE), (17, _SHE), (9, _WE), (9, _THEY), (24, name), (24, relative))
brief_teller = choose("brief teller", (16, _I), (16, _HE), (16, _SHE), (9, _WE), (9, _THEY), (19, name), (15, relative))
single_person = choose(
    "single person", (10, _I), (8, _YOU), (10, _HE), (10, _SHE), (22, name), (30, single_relative), (10, companion)
)
_female_relatives = tuple(noun for noun in _single_relatives if noun.female)
_male_relatives = tuple(noun for noun in _single_relatives if not noun.female)
female_person = choose(
    "female person",
    (30, _SHE),
    (35, _women),
    (35, build("female relative", Nominal, word("female kin", _female_relatives), owned)),
)
other_person = choose(
    "other person",
    (10, _I),
    (8, _YOU),
    (22, _HE),
    (30, _men),
    (30, build("male relative", Nominal, word("male kin", _male_relatives), owned)),
)
feeling_pronoun = choose("pronoun of feelings", (34, _I), (16, _HE), (16, _SHE), (18, _WE), (16, _THEY))
present_pronoun = choose("pronoun of the present", (30, _HE), (30, _SHE), (22, _WE), (18, _THEY))
pronoun_subject = choose("pronoun subject", (22, _I), (10, _YOU), (22, _HE), (22, _SHE), (14, _WE), (10, _THEY))
full_subject = choose("full subject", (26, name), (34, relative), (17, professional), (8, companion), (15, _THEY))
pronoun_object = pronouns(*people.OBJECTS)
full_object = choose("full object", (28, name), (36, relative), (18, professional), (18, companion))
company = choose("company", (34, name), (36, relative), (30, companion))
