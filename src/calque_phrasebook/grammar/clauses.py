"""The grammar rules that draw clauses about actions, in all tenses."""

from functools import partial

from calque_phrasebook.grammar import actions, phrases, tenses
from calque_phrasebook.grammar.rules import Rule, build, choose, word
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon.lexemes import Phrase
from calque_phrasebook.meaning import Action, Clause, Hour, NounPhrase, Tense

_others, _anyone = phrases.others, phrases.anyone


handling = choose(
    "handling things",
    (20, tenses.past(_anyone, actions.handling)),
    (7, tenses.negated_past(_anyone, actions.negated_handling)),
    (10, tenses.future(_anyone, actions.handling)),
    (3, tenses.negated_future(_anyone, actions.negated_handling)),
    (31, tenses.habit(_others, actions.handling_habit)),
    (5, tenses.never(_others, actions.handling_general)),
    (26, tenses.ongoing(_others, actions.handling)),
    (10, tenses.modal(_anyone, actions.handling)),
    (5, tenses.negated_modal(_anyone, actions.negated_handling)),
)
happening = choose(
    "happenings",
    (75, tenses.past(_anyone, actions.happening)),
    (25, tenses.negated_past(_anyone, actions.negated_happening)),
)
consuming = choose(
    "consumption",
    (24, tenses.past(_anyone, actions.consuming)),
    (9, tenses.negated_past(_anyone, actions.consuming_general)),
    (12, tenses.future(_anyone, actions.consuming)),
    (16, tenses.habit(_others, actions.consuming)),
    (9, tenses.never(_others, actions.consuming_general)),
    (12, tenses.ongoing(_others, actions.consuming)),
    (12, tenses.modal(_anyone, actions.consuming)),
    (6, tenses.negated_modal(_anyone, actions.consuming_general)),
)
wearing = choose(
    "dress",
    (30, tenses.past(_anyone, actions.wearing)),
    (10, tenses.negated_past(_anyone, actions.negated_wearing)),
    (20, tenses.future(_anyone, actions.wearing)),
    (20, tenses.habit(_others, actions.wearing)),
    (20, tenses.modal(_anyone, actions.wearing)),
)
speaking = choose(
    "languages",
    (18, tenses.past(_anyone, actions.speaking)),
    (36, tenses.habit(_others, actions.speaking)),
    (16, tenses.never(_others, actions.speaking)),
    (14, tenses.ongoing(_others, actions.speaking)),
    (16, tenses.modal(_anyone, actions.speaking)),
)
_resultative = choose("result", (50, actions.disposal), (50, actions.placement))
disposal = choose(
    "disposals",
    (48, tenses.past(_anyone, _resultative)),
    (20, tenses.future(_anyone, _resultative)),
    (30, tenses.modal(_anyone, _resultative)),
)
purchase = choose(
    "purchases",
    (50, tenses.past(_anyone, actions.purchase)),
    (25, tenses.future(_anyone, actions.purchase)),
    (25, tenses.modal(_anyone, actions.purchase)),
)


def _people(subject: tenses.SubjectRule, present: tenses.SubjectRule, action: tenses.ActionRule) -> Rule[Clause]:
    return choose(
        "dealing with people",
        (26, tenses.past(subject, action)),
        (8, tenses.negated_past(subject, action)),
        (14, tenses.future(subject, action)),
        (5, tenses.negated_future(subject, action)),
        (34, tenses.habit(present, action)),
        (12, tenses.modal(subject, action)),
        (5, tenses.negated_modal(subject, action)),
    )


meeting = choose(
    "meetings",
    (45, _people(phrases.full_subject, phrases.full_subject, actions.meeting_me)),
    (55, _people(phrases.pronoun_subject, phrases.present_pronoun, actions.meeting_people)),
)


def _gifts(subject: tenses.SubjectRule, action: tenses.ActionRule) -> Rule[Clause]:
    return choose(
        "handing over",
        (48, tenses.past(subject, action)),
        (28, tenses.future(subject, action)),
        (24, tenses.modal(subject, action)),
    )


giving = choose(
    "gifts",
    (50, _gifts(phrases.full_subject, actions.giving_me)),
    (50, _gifts(phrases.pronoun_subject, actions.giving_people)),
)
_past_date, _future_date = (
    word("past date", times.of_kind("date", times.PAST)),
    word("future date", times.of_kind("date", times.FUTURE) + times.WEEKDAYS),
)
_regular_date = word("regular date", times.of_kind("date", times.REGULAR))
doing = choose(
    "activities",
    (24, tenses.past(_anyone, actions.doing, time=_past_date)),
    (7, tenses.negated_past(_anyone, actions.doing, time=_past_date)),
    (13, tenses.future(_anyone, actions.doing, time=_future_date)),
    (5, tenses.negated_future(_anyone, actions.doing)),
    (36, tenses.habit(_others, actions.doing, time=_regular_date)),
    (30, tenses.ongoing(_others, actions.activity_seen)),
    (12, tenses.modal(_anyone, actions.doing)),
    (6, tenses.negated_modal(_anyone, actions.doing)),
)
trip = choose(
    "trips",
    (30, tenses.past(_anyone, actions.trip)),
    (8, tenses.negated_past(_anyone, actions.journey)),
    (18, tenses.future(_anyone, actions.trip)),
    (5, tenses.negated_future(_anyone, actions.journey)),
    (12, tenses.habit(_others, actions.local)),
    (12, build("frequent habit", tenses.frequent, _others, actions.journey, tenses.frequency)),
    (15, tenses.modal(_anyone, actions.trip)),
    (5, tenses.negated_modal(_anyone, actions.journey)),
)
everyday = choose(
    "everyday of the speaker",
    (1, tenses.habit(phrases.speaker, actions.core)),
)
lasting = choose(
    "durations",
    (35, tenses.past(_anyone, actions.lasting_short)),
    (25, tenses.future(_anyone, actions.lasting_short)),
    (20, tenses.past(_anyone, actions.lasting_long, time=word("past span", times.of_kind("span", times.PAST)))),
    (20, tenses.future(_anyone, actions.lasting_long, time=word("future span", times.of_kind("span", times.FUTURE)))),
)
skill = choose(
    "skills",
    (42, tenses.state(_others, actions.skill)),
    (18, tenses.negated_state(_others, actions.skill)),
    (40, tenses.past(_anyone, actions.skill)),
)

_hour = build("hour", Hour, word("hours", times.HOURS), word("half", (False, True)))


def _at_hour(subject: NounPhrase, action: Action, time: Phrase, hour: Hour, *, tense: Tense) -> Clause:
    return Clause(subject, action, tense, time=time, hour=hour)


routine = choose(
    "routines",
    (
        30,
        build(
            "past at an hour",
            partial(_at_hour, tense="past"),
            _anyone,
            actions.routine,
            word("past day", times.of_kind("day", times.PAST)),
            _hour,
        ),
    ),
    (
        25,
        build(
            "future at an hour",
            partial(_at_hour, tense="future"),
            _anyone,
            actions.routine,
            word("future day", times.of_kind("day", times.FUTURE) + times.WEEKDAYS),
            _hour,
        ),
    ),
    (
        45,
        build(
            "habit at an hour",
            partial(_at_hour, tense="habit"),
            _others,
            actions.routine,
            word("regular day", times.of_kind("day", times.REGULAR)),
            _hour,
        ),
    ),
)
