"""The grammar rules that draw short clauses, for questions and for sentences of two clauses."""

from functools import partial

from calque_phrasebook.grammar import actions, phrases, states, tenses, weather
from calque_phrasebook.grammar.rules import build, choose, word
from calque_phrasebook.lexicon import adjectives as adjectives
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.meaning import Clause, Quality

_asked = phrases.someone_asked
question_mood = choose(
    "asked mood", (1, tenses.state(_asked, states.plain_mood)), (1, tenses.state(_asked, states.plain_character))
)
thing_question = choose(
    "asked quality",
    *(
        (
            1,
            tenses.state(
                phrases.single_thing(kind),
                build("plain quality", Quality, word("shades", adjectives.DESCRIPTIONS[kind])),
            ),
        )
        for kind in states.describable
    ),
)
happening_question = tenses.past(_asked, actions.happening, fronting=tenses.in_place)

# --- short clauses for long sentences -------------------------------------------------------------------------------

_subject, _others = phrases.brief_subject, phrases.brief_others
_today_rain = build(
    "rain today",
    partial(tenses.timed, tense="ongoing", negative=False),
    weather.nobody,
    weather.falling,
    word("today", (times.TODAY,)),
    tenses.in_place,
)
_mood = choose(
    "brief mood",
    (60, tenses.state(_subject, states.plain_mood)),
    (40, tenses.negated_state(_subject, states.plain_mood)),
)
_character = choose(
    "brief character",
    (70, tenses.state(_subject, states.plain_character)),
    (30, tenses.negated_state(_subject, states.plain_character)),
)
_need = choose(
    "brief need",
    (65, tenses.state(_subject, actions.needing)),
    (35, tenses.negated_state(_subject, actions.negated_needing)),
)
_taste = choose(
    "brief taste", (60, tenses.state(_subject, actions.taste)), (40, tenses.negated_state(_subject, actions.taste))
)
_resource = choose(
    "brief resource",
    (40, tenses.state(_subject, actions.resource)),
    (60, tenses.negated_state(_subject, actions.resource)),
)
_simple = choose(
    "simple action", (50, actions.handling_brief), (20, actions.activity), (15, actions.going), (15, actions.travelling)
)
_past_time = word("brief past time", [time for time in times.PAST if len(time.key.split()) < 3])
_past = tenses.past(_subject, _simple, fronting=tenses.in_place, time=_past_time)
_future_time = word("brief future time", [time for time in times.FUTURE if len(time.key.split()) < 3])
_future = tenses.future(_subject, _simple, fronting=tenses.in_place, time=_future_time)
_modal = build("brief modal", partial(tenses.modally, negative=False), _subject, _simple, tenses.any_modal)
_plan = build("plan", lambda who, what: Clause(who, what, "future"), _subject, _simple)
activity = tenses.state(_others, actions.activity)
meanwhile = tenses.state(_others, actions.activity_meanwhile)
clause = choose(
    "brief clause",
    (14, _mood),
    (10, _character),
    (8, _need),
    (10, _taste),
    (7, _resource),
    (18, _past),
    (13, _modal),
    (8, _future),
    (6, _today_rain),
    (6, tenses.state(_subject, actions.living)),
)
condition = choose("condition", (30, weather.rain_to_come), (30, _mood), (20, _resource), (20, _modal))
consequence = choose("consequence", (55, _plan), (45, _modal))
