"""Reads the tables of the lexicon: the TOML files of this folder, one per part of speech.

A table has groups of entries, one entry per line:

    fruit = [
      { en = "apple", de = "der Apfel, Äpfel", zh = "苹果", classifier = "个" },
    ]

All problems of a group are reported together, with file, group, entry and field.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping
from importlib import resources
from typing import TypeVar

from calque.errors import DataError

T = TypeVar("T")


class Entry:
    """One line of a table. Fields are read by name; `refuse_unread` reports fields that were not read as unknown.

    The methods raise a ValueError that names the field and describes the problem.
    """

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self._read: set[str] = set()

    def text(self, name: str, *, default: str | None = None) -> str:
        """Returns the text of a field; the field is required unless there is a default."""
        self._read.add(name)
        value = self._fields.get(name, default)
        if value is None:
            raise ValueError(f"{name} is missing")
        if not isinstance(value, str) or value != value.strip() or (value == "" and name in self._fields):
            raise ValueError(f"{name} = {value!r}: expected text that is not empty and has no spaces around it")
        return value

    def forms(self, name: str, *, least: int, most: int) -> list[str]:
        """Returns the forms of a field, which are separated by commas."""
        forms = [form.strip() for form in self.text(name).split(",")]
        if not least <= len(forms) <= most or not all(forms):
            expected = str(least) if least == most else f"{least} to {most}"
            raise ValueError(f"{name} = {self.text(name)!r}: expected {expected} forms, separated by commas")
        return forms

    def words(self, name: str) -> tuple[str, ...]:
        """Returns the words of an optional field, which are separated by spaces; none if the field is left out."""
        return tuple(self.text(name, default="").split())

    def among(self, name: str, *, known: Collection[str]) -> tuple[str, ...]:
        """Returns the words of an optional field, each of which must be one of the `known` words."""
        return among(name, self.words(name), known=known)

    def flag(self, name: str) -> bool:
        """Returns whether a field is set; it must be true or left out."""
        self._read.add(name)
        if self._fields.get(name, True) is not True:
            raise ValueError(f"{name} = {self._fields[name]!r}: expected true, or leave the field out")
        return name in self._fields

    def refuse_unread(self) -> None:
        """Raises a ValueError if the entry has fields that were not read."""
        if unknown := sorted(set(self._fields) - self._read):
            raise ValueError(f"unknown field {', '.join(unknown)}; the fields are {', '.join(sorted(self._read))}")


class Table:
    """The groups of a TOML file; `origin` names it in messages."""

    def __init__(self, text: str, *, origin: str) -> None:
        self.origin = origin
        self._groups = tomllib.loads(text)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in the order of the file."""
        return tuple(self._groups)

    def entries(self, group: str, make: Callable[[Entry], T]) -> tuple[T, ...]:
        """Returns `make(entry)` for each entry of a group; raises a DataError that lists every problem."""
        made: list[T] = []
        problems: list[str] = []
        lines = self._groups.get(group, [])
        for number, fields in enumerate(lines, start=1):
            try:
                if fields in lines[: number - 1]:
                    raise ValueError("repeats an earlier entry")
                entry = Entry(fields)
                made.append(make(entry))
                entry.refuse_unread()
            except ValueError as error:
                problems.append(f"{self.origin}: {group}, entry {number} ({_headword(fields)}): {error}")
        if not lines:
            problems.append(f"{self.origin}: {group}: expected a group of entries, found none")
        _raise(problems)
        return tuple(made)

    def word_lists(self, section: str, *, known: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Returns the word lists of a section, such as `fruit = "fresh sweet"`, by key; all words must be `known`."""
        lists: dict[str, tuple[str, ...]] = {}
        problems: list[str] = []
        for name, words in self._groups[section].items():
            try:
                lists[name] = among(name, words.split(), known=known)
            except ValueError as error:
                problems.append(f"{self.origin}: {section}: {error}")
        _raise(problems)
        return lists


def read_table(name: str) -> Table:
    """Returns the table in a file of this folder."""
    file = resources.files(__package__).joinpath(name)
    return Table(file.read_text(encoding="utf-8"), origin=name)


def among(name: str, words: Collection[str], *, known: Collection[str]) -> tuple[str, ...]:
    """Returns the words of the field `name`; raises a ValueError that names those that are not in `known`."""
    if unknown := [word for word in words if word not in known]:
        raise ValueError(f"{name}: unknown {', '.join(unknown)}; choose from {', '.join(known)}")
    return tuple(words)


def _headword(fields: object) -> str:
    english = fields.get("en") if isinstance(fields, Mapping) else None
    return f"en = {english!r}"


def _raise(problems: list[str]) -> None:
    if problems:
        raise DataError("\n".join(problems))
