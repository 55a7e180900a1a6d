"""The tables of the lexicon: every mistake in them is found, with its place."""

import tomllib
from importlib import resources

import pytest

from calque.errors import DataError
from calque_phrasebook.lexicon import adjectives, entries, lexemes, nouns, people, places, times, verbs
from calque_phrasebook.lexicon.tables import Entry, Table, among, read_table

GOOD = """
fruit = [
  { en = "apple", de = "der Apfel, Äpfel", zh = "苹果", classifier = "个" },
  { en = "tea", de = "der Tee", zh = "茶", classifier = "杯", number = "mass" },
]
[describes]
fruit = "fresh sweet"
"""


def test_a_table_gives_its_groups_and_lists() -> None:
    table = Table(GOOD, origin="good.toml")
    apple, tea = table.entries("fruit", entries.noun)
    assert (apple.english_plural, apple.german_plural, apple.gender, apple.mass) == ("apples", "Äpfel", "m", False)
    assert (tea.english_plural, tea.german_plural, tea.mass) == ("tea", "Tee", True)
    assert table.word_lists("describes", known=("fresh", "sweet")) == {"fruit": ("fresh", "sweet")}
    assert table.groups == ("fruit", "describes")


NOUN = {"en": "pear", "de": "die Birne, Birnen", "zh": "梨", "classifier": "个"}
VERB = {"en": "eat, ate", "de": "essen, isst, gegessen", "zh": "吃"}
PLACE = {"en": "in the park", "de": "der Park", "de_at": "in", "zh": "公园"}
TIME = {"en": "last·week", "de": "letzte·Woche", "zh": "上周"}
PLANTED = {
    "a field that is missing": (entries.noun, {**NOUN, "zh": None}, "zh is missing"),
    "an unknown field": (entries.noun, {**NOUN, "clasifier": "个"}, "unknown field clasifier; the fields are also, "),
    "an empty field": (entries.noun, {**NOUN, "zh": ""}, "zh = '': expected text"),
    "spaces around it": (entries.noun, {**NOUN, "zh": "梨 "}, "zh = '梨 ': expected text"),
    "no text": (entries.noun, {**NOUN, "zh": 3}, "zh = 3: expected text"),
    "no article": (entries.noun, {**NOUN, "de": "Birne, Birnen"}, "expected 'der', 'die' or 'das' and a noun"),
    "no plural": (entries.noun, {**NOUN, "de": "die Birne"}, "expected 2 forms"),
    "an empty form": (entries.noun, {**NOUN, "de": "die Birne, "}, "expected text"),
    "too many forms": (entries.noun, {**NOUN, "en": "pear, pears, pearses"}, "expected 1 to 2 forms"),
    "a plural of a mass": (entries.noun, {**NOUN, "en": "tea, teas", "number": "mass"}, "expected 1 forms"),
    "a number that is none": (
        entries.noun,
        {**NOUN, "number": "dual"},
        "unknown dual; choose from both, mass",
    ),
    "a flag that is none": (entries.noun, {**NOUN, "stands": False}, "stands = False: expected true"),
    "a participle missing": (entries.verb, {**VERB, "de": "essen, isst"}, "expected 3 forms"),
    "an unknown class": (entries.verb, {**VERB, "objects": "fruit"}, "objects: unknown fruit; choose from"),
    "an unknown case": (
        entries.verb,
        {**VERB, "de_case": "genitive"},
        "unknown genitive; choose from accusative",
    ),
    "a place without the": (entries.place, {**PLACE, "en": "in park"}, "expected a preposition, 'the' and a name"),
    "parts that do not match": (entries.phrase, {**TIME, "zh": "上·个·月"}, "the same number of dot-separated parts"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_rejected_with_its_place(name: str) -> None:
    make, fields, reason = PLANTED[name]
    lines = ", ".join(f"{key} = {_toml(value)}" for key, value in fields.items() if value is not None)
    table = Table(f"words = [\n  {{ {lines} }},\n]", origin="bad.toml")
    with pytest.raises(DataError) as raised:
        table.entries("words", make)
    assert str(raised.value).startswith(f"bad.toml: words, entry 1 (en = {fields['en']!r}): ")
    assert reason in str(raised.value)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else f'"{value}"'


def test_all_mistakes_of_a_group_are_reported_together() -> None:
    text = GOOD.replace("der Tee", "Tee").replace("der Apfel", "Apfel")
    with pytest.raises(DataError) as raised:
        Table(text, origin="bad.toml").entries("fruit", entries.noun)
    assert [line.split(":")[1] for line in str(raised.value).splitlines()] == [
        " fruit, entry 1 (en = 'apple')", " fruit, entry 2 (en = 'tea')",
    ]  # fmt: skip


def test_repeated_entries_missing_groups_and_unknown_words_are_rejected() -> None:
    twice = GOOD.replace('  { en = "tea"', GOOD.splitlines()[2] + '\n  { en = "tea"')
    with pytest.raises(DataError, match=r"fruit, entry 2 .*repeats an earlier entry"):
        Table(twice, origin="bad.toml").entries("fruit", entries.noun)
    with pytest.raises(DataError, match="vegetable: expected a group of entries, found none"):
        Table(GOOD, origin="bad.toml").entries("vegetable", entries.noun)
    with pytest.raises(DataError, match="describes: fruit: unknown sweet; choose from fresh, sour"):
        Table(GOOD, origin="bad.toml").word_lists("describes", known=("fresh", "sour"))
    with pytest.raises(ValueError, match="kinds: unknown b"):
        among("kinds", ["a", "b"], known=["a"])


def test_every_entry_of_every_table_is_a_lexeme() -> None:
    """Nothing that stands in a table is left unread."""
    readers = {
        "nouns.toml": [*nouns.GROUPS.values()],
        "verbs.toml": [*verbs.VERBS.values(), verbs.MODALS],
        "adjectives.toml": [tuple(adjectives.ADJECTIVES.values())],
        "people.toml": [people.WOMEN, people.MEN, people.RELATIVES, people.COMPANIONS, people.PROFESSIONS],
        "places.toml": [places.PLACES, places.CITIES, places.COUNTRIES],
        "times.toml": [
            *times.PHRASES.values(), times.SHORT_UNITS, times.LONG_UNITS, times.HOURS, times.PRECIPITATION,
        ],
    }  # fmt: skip
    folder = resources.files(lexemes.__name__.rpartition(".")[0])
    files = {file.name for file in folder.iterdir() if file.name.endswith(".toml")}
    assert files == {*readers, "function_words.toml"}
    for name, groups in readers.items():
        tables = tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))
        written = sum(len(entries) for entries in tables.values() if isinstance(entries, list))
        assert written == sum(map(len, groups)), name


def test_two_senses_of_an_adjective_do_not_hide_each_other() -> None:
    count = len(read_table("adjectives.toml").entries("adjective", lambda entry: _all_read(entry)))
    assert len(adjectives.ADJECTIVES) == count
    assert adjectives.ADJECTIVES["old"].chinese == "旧"
    assert adjectives.ADJECTIVES["elderly"].chinese == "老"


def _all_read(entry: Entry) -> str:
    return entry.text("sense", default="") + entries.adjective(entry).english
