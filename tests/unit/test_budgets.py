"""No room outgrows its budget: the table in docs/rooms.md says how many modules and lines each may have."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.test_imports import STOREYS, Sources, house, room

PAGE = Path(__file__).parents[2] / "docs" / "rooms.md"
ROW = re.compile(r"\| `(\w+)` \| [^|]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|")


class Size(NamedTuple):
    """Of a room."""

    modules: int
    lines: int


def budgets(page: str) -> dict[str, Size]:
    """The budgets by room; a room with two rows is an error."""
    rows = [match.groups() for match in map(ROW.fullmatch, page.splitlines()) if match]
    found = {name: Size(_number(modules), _number(lines)) for name, _, _, modules, lines in rows}
    assert len(found) == len(rows), "a room has two rows"
    return found


def sizes(sources: Sources) -> dict[str, Size]:
    """The size of every room, with the packages inside it."""
    texts: dict[str, list[str]] = defaultdict(list)
    for module, text in sources.items():
        name = room(module)
        texts["calque" if name == "__main__" else name].append(text)
    return {name: Size(len(parts), sum(text.count("\n") for text in parts)) for name, parts in texts.items()}


def excesses(sizes: Mapping[str, Size], budgets: Mapping[str, Size]) -> list[str]:
    """What is wrong with the sizes, one line each."""
    wrong = [f"{name}: no row in {PAGE.name}; give it a purpose and a budget" for name in sizes.keys() - budgets.keys()]
    wrong += [f"{name}: a row in {PAGE.name}, but there is no such room" for name in budgets.keys() - sizes.keys()]
    for name in sizes.keys() & budgets.keys():
        for unit, size, budget in zip(Size._fields, sizes[name], budgets[name], strict=True):
            if size > budget:
                wrong.append(
                    f"{name}: {size:,} {unit}, but its budget is {budget:,}; remove or merge something, or raise the "
                    f"budget in docs/{PAGE.name} and say why (docs/decisions/0029-rooms-have-budgets.md)"
                )
    return sorted(wrong)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def test_every_room_is_within_its_budget() -> None:
    sources, _ = house()
    assert excesses(sizes(sources), budgets(PAGE.read_text(encoding="utf-8"))) == []


def test_the_rooms_with_a_budget_are_those_with_a_storey() -> None:
    """But for rooms that are only planned."""
    rooms = {name for storey in STOREYS for name in storey}
    assert rooms - budgets(PAGE.read_text(encoding="utf-8")).keys() == {"__main__", "serving", "export"}


SOURCES = {
    "calque": "a\n",
    "calque.__main__": "a\n",
    "calque.text": "a\nb\n",
    "calque.text.deep.words": "a\nb\nc\n",
    "calque_phrasebook.words": "a\n",
}
TABLE = """
| room | purpose | modules | lines | module budget | line budget |
|---|---|---:|---:|---:|---:|
| `calque` | The door. | 2 | 2 | 2 | 2 |
| `text` | Text. | 2 | 5 | 2 | 1,005 |
| `calque_phrasebook` | A corpus. | 1 | 1 | 1 | 1 |
"""


def test_a_sound_table_finds_nothing() -> None:
    assert sizes(SOURCES) == {"calque": (2, 2), "text": (2, 5), "calque_phrasebook": (1, 1)}
    assert budgets(TABLE)["text"] == (2, 1005)
    assert excesses(sizes(SOURCES), budgets(TABLE)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1,005", "4", "text: 5 lines, but its budget is 4; remove or merge something, or raise"),
        ("| 2 | 1,005", "| 1 | 1,005", "text: 2 modules, but its budget is 1"),
        ("| `text` | Text. | 2 | 5 | 2 | 1,005 |\n", "", "text: no row in rooms.md"),
        ("`text`", "`cellar`", "cellar: a row in rooms.md, but there is no such room"),
    ],
)
def test_what_does_not_fit_is_named(old: str, new: str, message: str) -> None:
    assert old in TABLE
    found = excesses(sizes(SOURCES), budgets(TABLE.replace(old, new)))
    assert any(line.startswith(message) for line in found), found
