"""The grammar rules that draw clauses about states: what people and things are, have, like and cost."""

from functools import partial

from calque_phrasebook.grammar import actions, phrases, tenses
from calque_phrasebook.grammar.rules import Rule, build, choose, word
from calque_phrasebook.lexicon import adjectives as adjectives
from calque_phrasebook.lexicon import nouns as nouns
from calque_phrasebook.lexicon import people as people
from calque_phrasebook.lexicon import places as places
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon import verbs as verbs
from calque_phrasebook.lexicon.lexemes import Adjective, Phrase
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Aged,
    Born,
    Clause,
    Comparison,
    Described,
    Gap,
    Located,
    Nominal,
    Occupation,
    Priced,
    Pronoun,
    Quality,
)

_others, _anyone = phrases.others, phrases.anyone


def _degrees(values: tuple[Phrase, ...]) -> Rule[Phrase | None]:
    return choose("degree", (1, word("plain", (None,))), (1, word("degrees", values)))


def _graded(adjective_names: tuple[Adjective, ...]) -> Rule[Quality]:
    """Returns a rule that draws adjectives with degrees; adjectives of praise take only some degrees."""
    praise = [adjective for adjective in adjective_names if adjective in adjectives.PRAISE]
    others = [adjective for adjective in adjective_names if adjective not in adjectives.PRAISE]
    options = [
        (float(len(members)), build("graded quality", Quality, word("shades", members), _degrees(degrees)))
        for members, degrees in ((praise, times.PRAISING_DEGREES), (others, times.DEGREES))
        if members
    ]
    return choose("quality", *options)


_mood, _character = _graded(adjectives.MOODS), _graded(adjectives.CHARACTER)
plain_mood = build("plain mood", Quality, word("moods", adjectives.MOODS))
plain_character = build("plain character", Quality, word("characters", adjectives.CHARACTER))
_present = word("present time", times.PRESENT)

mood = choose(
    "moods of people",
    (24, tenses.state(_anyone, _mood)),
    (12, tenses.negated_state(_anyone, plain_mood)),
    (
        20,
        build(
            "mood now",
            partial(tenses.timed, tense="state", negative=False),
            _anyone,
            plain_mood,
            _present,
            tenses.perhaps_fronted,
        ),
    ),
    (
        20,
        build(
            "past mood",
            partial(tenses.timed, tense="past", negative=False),
            _anyone,
            _mood,
            tenses.recent_time,
            tenses.perhaps_fronted,
        ),
    ),
)
character = choose(
    "characters of people",
    (70, tenses.state(_anyone, _character)),
    (30, tenses.negated_state(_anyone, plain_character)),
)


def _thing_quality(kind: str) -> tuple[float, Rule[Clause]]:
    qualities = adjectives.DESCRIPTIONS[kind]
    colours = [adjective for adjective in qualities if adjective.colour]
    graded = _graded(tuple(adjective for adjective in qualities if not adjective.colour))
    plain = build("plain quality", Quality, word("shades", qualities))
    thing = phrases.single_thing(kind) if kind == "opening" else phrases.topical_thing(kind)
    options = [(60.0, tenses.state(thing, graded)), (25.0, tenses.negated_state(thing, plain))]
    if colours:
        options.append((15.0, tenses.state(thing, build("colour", Quality, word("colours", colours)))))
    return max(3.0, float(len(nouns.CLASSES[kind])) ** 0.5), choose("quality of things", *options)


describable = tuple(adjectives.DESCRIPTIONS)
thing_quality = choose("qualities of things", *(_thing_quality(kind) for kind in describable))


def _relative_clause(kind: str) -> tuple[float, Rule[Clause]]:
    makers = [verb for verb in (*verbs.ACTIONS, *verbs.EVENTS) if kind in verb.objects]
    gap = word("gap", (Gap(),))
    open_action = build("open action", Action, word("maker", makers), gap)
    clause = build(
        "relative clause",
        partial(tenses.timed, tense="past", negative=False),
        phrases.brief_subject,
        open_action,
        tenses.past_time,
        tenses.in_place,
    )
    described = build("described by a clause", Described, word(kind, nouns.CLASSES[kind]), clause)
    shades = [a for a in adjectives.DESCRIPTIONS[kind] if not a.colour]
    return 1.0, tenses.state(described, build("plain quality", Quality, word("shades", shades)))


_objects = [k for k in describable if any(k in v.objects for v in (*verbs.ACTIONS, *verbs.EVENTS))]
described = choose("things told of", *(_relative_clause(kind) for kind in _objects))


def _comparison(
    adjective_names: tuple[Adjective, ...], subject: tenses.SubjectRule, standard: tenses.SubjectRule
) -> Rule[Clause]:
    graded = [adjective for adjective in adjective_names if adjective in adjectives.COMPARED]
    more = build("comparison", partial(Comparison, equal=False), word("shades", graded), standard)
    same = build("equality", partial(Comparison, equal=True), word("shades", graded), standard)
    return choose(
        "comparisons",
        (60, tenses.state(subject, more)),
        (25, tenses.state(subject, same)),
        (15, tenses.negated_state(subject, same)),
    )


def _comparable_things(kind: str) -> tuple[float, Rule[Clause]]:
    this = build("this thing", Nominal, word(kind, nouns.CLASSES[kind]), phrases.only(phrases.THIS))
    mine = build("owned thing", Nominal, word(kind, nouns.CLASSES[kind]), phrases.owned)
    return 1.0, _comparison(adjectives.DESCRIPTIONS[kind], this, mine)


_people_compared = _comparison(adjectives.CHARACTER, phrases.name, phrases.single_relative)
comparison = choose(
    "comparing",
    (7.0, _people_compared),
    *(
        _comparable_things(kind)
        for kind in ("clothes", "belonging", "print", "device", "furniture", "vehicle", "animal")
    ),
)

_profession = build("profession", Occupation, word("professions", people.PROFESSIONS))
occupation = choose(
    "occupations",
    (30, tenses.state(phrases.other_person, _profession)),
    (14, tenses.negated_state(phrases.other_person, _profession)),
    (40, tenses.state(phrases.female_person, _profession)),
    (16, tenses.negated_state(phrases.female_person, _profession)),
)
needing = choose(
    "needs", (70, tenses.state(_anyone, actions.needing)), (30, tenses.negated_state(_anyone, actions.negated_needing))
)
taste = choose("tastes", (70, tenses.state(_anyone, actions.taste)), (30, tenses.negated_state(_anyone, actions.taste)))
resource = choose(
    "resources", (60, tenses.state(_anyone, actions.resource)), (40, tenses.negated_state(_anyone, actions.resource))
)
enjoying = choose(
    "pleasures", (70, tenses.state(_others, actions.enjoying)), (30, tenses.negated_state(_others, actions.enjoying))
)


def _feelings(subject: tenses.SubjectRule, action: tenses.ActionRule) -> Rule[Clause]:
    return choose("feelings", (70, tenses.state(subject, action)), (30, tenses.negated_state(subject, action)))


feeling = choose(
    "feelings for people",
    (45, _feelings(phrases.full_subject, actions.feeling_for_me)),
    (55, _feelings(phrases.feeling_pronoun, actions.feeling_for_people)),
)
living = choose(
    "homes",
    (50, tenses.state(_anyone, actions.living)),
    (20, tenses.negated_state(_anyone, actions.living)),
    (45, tenses.state(_anyone, actions.origin)),
)
_whereabouts = build("whereabouts", Located, word("whereabouts places", (*places.PLACES, *places.CITIES, places.HOME)))
located = choose(
    "people at places",
    (
        40,
        build(
            "place now",
            partial(tenses.timed, tense="state", negative=False),
            _anyone,
            _whereabouts,
            _present,
            tenses.perhaps_fronted,
        ),
    ),
    (
        40,
        build(
            "place in the past",
            partial(tenses.timed, tense="past", negative=False),
            _anyone,
            _whereabouts,
            tenses.past_time,
            tenses.perhaps_fronted,
        ),
    ),
    (20, tenses.negated_state(_anyone, _whereabouts)),
)
_movable = ("belonging", "print", "gift", "tableware", "animal", "accessory")
_thing_there = choose("thing somewhere", *((len(nouns.CLASSES[kind]), phrases.single_thing(kind)) for kind in _movable))
located_thing = tenses.state(_thing_there, build("thing's place", Located, actions.spot))
price = choose(
    "prices",
    *(
        (
            1,
            tenses.state(
                phrases.topical_thing(kind),
                build("price", Priced, word("large number", times.LARGE_NUMBERS), word("currency", times.CURRENCIES)),
            ),
        )
        for kind in ("clothes", "accessory", "belonging", "print", "device", "furniture", "tableware", "gift")
    ),
)
_age = build("age", Aged, word("age number", times.NUMBERS + times.LARGE_NUMBERS))
age = tenses.state(phrases.single_person, _age)
born = tenses.state(phrases.single_person, build("birth", Born, word("birth time", times.MONTHS + times.SEASONS)))
_aching_person = build("aching person", Pronoun, word("owner", people.OWNERS))
_ache = build("aching part", Aching, word("body", nouns.CLASSES["body"]))
aching = choose(
    "aches",
    (10, tenses.state(_aching_person, _ache)),
    (30, build("frequent ache", tenses.frequent, _aching_person, _ache, tenses.frequency)),
    (
        20,
        build(
            "ache now",
            partial(tenses.timed, tense="state", negative=False),
            _aching_person,
            _ache,
            _present,
            tenses.in_place,
        ),
    ),
    (
        40,
        build(
            "past ache",
            partial(tenses.timed, tense="past", negative=False),
            _aching_person,
            _ache,
            tenses.past_time,
            tenses.in_place,
        ),
    ),
)
