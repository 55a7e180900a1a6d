"""The times, numbers, adverbs and other words without inflection (times.toml)."""

from calque_phrasebook.lexicon.entries import clock_hour, phrase, precipitation, unit
from calque_phrasebook.lexicon.lexemes import ClockHour, Phrase, Precipitation, Unit
from calque_phrasebook.lexicon.tables import read_table

_TABLE = read_table("times.toml")
_OTHERS = ("hour", "precipitation", "short_unit", "long_unit")
PHRASES: dict[str, tuple[Phrase, ...]] = {
    group: _TABLE.entries(group, phrase) for group in _TABLE.groups if group not in _OTHERS
}


def of_kind(kind: str, phrases: tuple[Phrase, ...]) -> tuple[Phrase, ...]:
    """Returns the phrases of a kind, in their order."""
    chosen = tuple(phrase for phrase in phrases if kind in phrase.kinds)
    assert chosen, kind
    return chosen


PAST, FUTURE, REGULAR = PHRASES["past"], PHRASES["future"], PHRASES["regular"]
PRESENT = PHRASES["present"]
NOW, TODAY = PRESENT
WEEKDAYS, MONTHS, SEASONS = PHRASES["weekday"], PHRASES["month"], PHRASES["season"]
FREQUENCIES = PHRASES["frequency"]
NUMBERS, LARGE_NUMBERS = PHRASES["number"], PHRASES["large_number"]
FEW = of_kind("few", NUMBERS)
DEGREES = PHRASES["degree"]
PRAISING_DEGREES = of_kind("praise", DEGREES)
(TOO,) = of_kind("excess", DEGREES)
MANNERS, CURRENCIES = PHRASES["manner"], PHRASES["currency"]
SHORT_UNITS: tuple[Unit, ...] = _TABLE.entries("short_unit", unit)
LONG_UNITS: tuple[Unit, ...] = _TABLE.entries("long_unit", unit)
HOURS: tuple[ClockHour, ...] = _TABLE.entries("hour", clock_hour)
PRECIPITATION: tuple[Precipitation, ...] = _TABLE.entries("precipitation", precipitation)


def next_hour(hour: ClockHour) -> ClockHour:
    """Returns the hour that German names at half past the given one: halb vier for half past three."""
    return HOURS[(HOURS.index(hour) + 1) % len(HOURS)]
