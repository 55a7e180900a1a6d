"""Files of behaviour sequences: one user per line, with the items of the user's history in order of time.

In a plain file, a line contains the user's id and then the items, separated by white space. In a file of records, a
line is a JSON object, which may also have a time and a behaviour type (such as view or buy) for every item. When a line
is parsed, the values of each column are joined by tabs into one text.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from calque.config import Config
from calque.data.tables import Weight
from calque.parsing import parse_json

USER, ITEMS, TIMES, BEHAVIOURS = "user", "items", "times", "behaviours"
LINE_BYTES = 1 << 24  # the longest history that is read
LATEST = 1 << 53  # the largest time stamp, below which whole numbers are exact in JSON

_UNUSABLE = re.compile("[\t\n\r\ud800-\udfff]")
_SHOWN = 40  # characters of a value quoted in a message


class SequencesConfig(Config):
    """One file of histories, one user per line: the user's id, then the items in order of time."""

    kind: Literal["sequences"] = "sequences"
    path: Path
    """The file, plain or compressed; ids are separated by white space."""
    weight: Weight = 1.0
    """How often an epoch reads each user; with 0.5, every user is read once in two epochs."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (USER, ITEMS)


class SequenceRecordsConfig(Config):
    """One file of histories with a JSON object per user, which may have times and behaviour types."""

    kind: Literal["sequence-records"] = "sequence-records"
    path: Path
    """The file, plain or compressed."""
    user_key: str = USER
    """The key of the user's id."""
    items_key: str = ITEMS
    """The key of the list of items, in order of time."""
    times_key: str | None = None
    """The key of the list of times, one number per item, in seconds; by default, the file has no times."""
    behaviours_key: str | None = None
    """The key of the list of behaviour types, one per item, such as view or buy; by default, the file has none."""
    weight: Weight = 1.0
    """How often an epoch reads each user; with 0.5, every user is read once in two epochs."""

    @property
    def columns(self) -> tuple[str, ...]:
        optional = ((TIMES, self.times_key), (BEHAVIOURS, self.behaviours_key))
        return (USER, ITEMS, *(name for name, key in optional if key is not None))


SequenceCorpus = SequencesConfig | SequenceRecordsConfig


class UserHistory(NamedTuple):
    """The history of one user; `times` and `behaviours` are empty if the file has none."""

    user: str
    items: Sequence[str]
    times: Sequence[int] = ()
    behaviours: Sequence[str] = ()


class Histories(NamedTuple):
    """The texts of a block of lines, by column, and a message for each malformed line, by its index in the block."""

    columns: list[list[str]]
    malformed: dict[int, str]


def read_histories(texts: Sequence[str], *, corpus: SequenceCorpus, first: int) -> Histories:
    """Parses lines of histories. Every line yields one text per column, empty if the line is malformed or empty.

    `first` is the number of the first line, for messages.
    """
    columns: list[list[str]] = [[] for _ in corpus.columns]
    malformed: dict[int, str] = {}
    for index, text in enumerate(texts):
        values = [""] * len(columns)
        if text.strip():
            try:
                values = _texts(_read(text, corpus), names=corpus.columns)
            except ValueError as error:
                malformed[index] = f"{corpus.path}: line {first + index}: {error}"
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return Histories(columns, malformed)


def repeated_users(
    lines: Sequence[bytes], *, corpus: SequenceCorpus, first: int, seen: dict[str, int]
) -> Iterator[str]:
    """Yields a message for each line whose user already has an earlier line.

    `seen` maps each user read so far to a line number, and is updated in place. Malformed lines are ignored
    here, because `read_histories` reports them.
    """
    for number, line in enumerate(lines, start=first):
        user = _user_of(line, corpus)
        if user is not None and (earlier := seen.setdefault(user, number)) != number:
            yield (
                f"{corpus.path}: line {number}: the user {user!r} is already on line {earlier}; write all items of a "
                "user on one line, in order of time"
            )


def parse_record(text: str, *, corpus: SequenceRecordsConfig, empty: bool = False) -> UserHistory:
    """The history in a JSON object, which may have no items if `empty`. Raises a ValueError if it is malformed."""
    record = _object(text)
    user = _name(_value(record, corpus.user_key), name=corpus.user_key)
    items = _names(_value(record, corpus.items_key), name=corpus.items_key)
    if not items and not empty:
        raise ValueError(f"the user {user!r} has no items; expected at least one")
    times: list[int] = []
    if corpus.times_key is not None:
        times = _times(_value(record, corpus.times_key), name=corpus.times_key)
        _refuse_other_length(times, items, name=corpus.times_key)
    behaviours: list[str] = []
    if corpus.behaviours_key is not None:
        behaviours = _names(_value(record, corpus.behaviours_key), name=corpus.behaviours_key)
        _refuse_other_length(behaviours, items, name=corpus.behaviours_key)
    return UserHistory(user, items, times, behaviours)


def whole_time(value: object, *, name: str) -> int:
    """A time stamp, rounded down to whole seconds. Raises a ValueError if it is not a number or is out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: expected a number of seconds, found {_quoted(value)}")
    if abs(value) > LATEST:
        raise ValueError(f"{name}: {_quoted(value)} is out of range; times are between -2^53 and 2^53 seconds")
    return math.floor(value)


def refuse_backward_times(times: Sequence[int], *, name: str = TIMES) -> None:
    """Raises a ValueError if a time is earlier than the one before it."""
    for index, (before, after) in enumerate(pairwise(times), start=2):
        if after < before:
            raise ValueError(
                f"{name}: item {index} has time {after}, before item {index - 1} with {before}; sort items by time"
            )


def _read(text: str, corpus: SequenceCorpus) -> UserHistory:
    if isinstance(corpus, SequenceRecordsConfig):
        return parse_record(text, corpus=corpus)
    user, *items = text.split()
    if not items:
        raise ValueError(f"the user {user!r} has no items; expected the user's id and then at least one item")
    return UserHistory(user, items)


def _texts(history: UserHistory, *, names: Sequence[str]) -> list[str]:
    texts = {
        USER: history.user,
        ITEMS: "\t".join(history.items),
        TIMES: "\t".join(map(str, history.times)),
        BEHAVIOURS: "\t".join(history.behaviours),
    }
    return [texts[name] for name in names]


def _user_of(line: bytes, corpus: SequenceCorpus) -> str | None:
    """The user of a raw line, or None if the line is empty or malformed."""
    if isinstance(corpus, SequencesConfig):
        ids = line.split(None, 1)
        return ids[0].decode(errors="replace") if ids else None
    try:
        return _name(_value(_object(line.decode()), corpus.user_key), name=corpus.user_key)
    except ValueError:
        return None


def _object(text: str) -> dict[str, Any]:
    try:
        record = parse_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error.msg} at character {error.pos + 1}") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, found {type(record).__name__}")
    return record


def _value(record: dict[str, Any], key: str) -> Any:
    if key not in record:
        keys = ", ".join(map(repr, list(record)[:8])) or "none"
        raise ValueError(f"no key {key!r} in the JSON object; its keys: {keys}")
    return record[key]


def _names(values: object, *, name: str) -> list[str]:
    if not isinstance(values, list):
        raise ValueError(f"{name}: expected a list, found {_quoted(values)}")
    return [_name(value, name=f"{name}, value {number}") for number, value in enumerate(values, start=1)]


def _name(value: object, *, name: str) -> str:
    """An id as text. Raises a ValueError unless it is a whole number or a string without tabs and line breaks."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or _UNUSABLE.search(value):
        raise ValueError(
            f"{name}: expected a whole number or a text without tabs and line breaks, found {_quoted(value)}"
        )
    return value


def _times(values: object, *, name: str) -> list[int]:
    if not isinstance(values, list):
        raise ValueError(f"{name}: expected a list, found {_quoted(values)}")
    times = [whole_time(value, name=f"{name}, value {number}") for number, value in enumerate(values, start=1)]
    refuse_backward_times(times, name=name)
    return times


def _refuse_other_length(values: Sequence[object], items: Sequence[str], *, name: str) -> None:
    if len(values) != len(items):
        raise ValueError(f"the user has {len(items)} items, but {len(values)} {name}; expected one per item")


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
