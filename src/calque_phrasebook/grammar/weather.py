"""The grammar rules that draw clauses about the weather."""

from functools import partial

from calque_phrasebook.grammar import tenses
from calque_phrasebook.grammar.rules import Rule, build, choose, word
from calque_phrasebook.lexicon import adjectives as adjectives
from calque_phrasebook.lexicon import places as places
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon.lexemes import Phrase, Place
from calque_phrasebook.meaning import Clause, Climate, Falling, Predicate, Tense, Weather

nobody: Rule[None] = word("nobody", (None,))
_towns = word("town", places.TOWNS)
falling = build("falling", Falling, word("precipitation", times.PRECIPITATION), _towns)
_climate = build("climate", Climate, word("climates", adjectives.CLIMATE), _towns)
_weather_place: Rule[Place | None] = choose("weather place", (1, word("here", (None,))), (4, _towns))
_weather = build("weather", Weather, word("weathers", adjectives.WEATHER), _weather_place)


def _on_days(what: Rule[Predicate], *, present: Tense) -> Rule[Clause]:
    def at(tense: Tense, negative: bool, time: Rule[Phrase]) -> Rule[Clause]:
        return build("sky", partial(tenses.timed, tense=tense, negative=negative), nobody, what, time, tenses.in_place)

    today = word("today", (times.TODAY,))
    return choose(
        "sky at a time",
        (30, at(present, False, today)),
        (10, at(present, True, today)),
        (25, at("past", False, tenses.recent_time)),
        (10, at("past", True, tenses.recent_time)),
        (25, at("future", False, tenses.coming_time)),
    )


_seasonal = build(
    "season",
    partial(tenses.timed, tense="state", negative=False),
    nobody,
    _climate,
    word("season time", times.MONTHS + times.SEASONS),
    tenses.in_place,
)
reports = choose(
    "weather reports",
    (30, _on_days(falling, present="ongoing")),
    (25, _on_days(_climate, present="state")),
    (25, _on_days(_weather, present="state")),
    (20, _seasonal),
)
rain_to_come = build(
    "rain to come",
    partial(tenses.timed, tense="state", negative=False),
    nobody,
    falling,
    tenses.coming_time,
    tenses.in_place,
)
