"""Behaviour sequences as columns of a store, for recommenders.

With a leave-one-out split, the last item of every user is kept for testing and not stored, the one before it is the
target of a validation row, and all earlier items form the training row (Kang and McAuley 2018, §4.1). Without a split,
training and validation rows are whole histories, and the last item of a validation row is its target.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from calque.data.numericalise import Numericalised, Texts
from calque.data.sequence_files import BEHAVIOURS, ITEMS, TIMES, USER
from calque.data.store import ColumnKind, Rows, pack, smallest_unsigned
from calque.text import UNK
from calque.text.catalogue import Catalogue, learn_catalogue

Value = TypeVar("Value")

FEWEST = 3  # items of a user with a validation and a test item; the shorter histories of others are trained on


class SequencePreparation(NamedTuple):
    """How histories are prepared for recommenders."""

    minimum_count: int = 1
    times: bool = False
    """Whether times are stored."""
    behaviours: bool = False
    """Whether behaviour types are stored."""
    splits_rows: bool = True
    """Whether the last two items of every user are held out, for validation and testing."""

    @property
    def unit(self) -> str:
        return "users"

    @property
    def reads(self) -> tuple[str, ...]:
        return (USER, ITEMS, *(TIMES,) * self.times, *(BEHAVIOURS,) * self.behaviours)

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "task.minimum_count": str(self.minimum_count),
            "task.columns": "\t".join(self.reads),
            "task.split": "leave-one-out" if self.splits_rows else "files",
        }

    @property
    def running(self) -> bool:
        return False

    @property
    def lines_up(self) -> bool:
        return False

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        return {"items per user": [row[1].count("\t") + 1 for row in rows]}

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        columns = (ITEMS, *(BEHAVIOURS,) * self.behaviours)
        places = {name: self.reads.index(name) for name in columns}
        return {
            name: Counter(value for row in rows for value in row[place].split("\t")) for name, place in places.items()
        }

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        def values(column: str) -> Iterator[list[str]]:
            return (text.split("\t") for text in texts(column))

        trained = (training_part(items) if self.splits_rows else items for items in values(ITEMS))
        learn_catalogue(
            values(ITEMS),
            trained=trained,
            behaviours=values(BEHAVIOURS) if self.behaviours else None,
            minimum_count=self.minimum_count,
        ).save(folder)

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        sizes = Catalogue.load(folder).sizes()
        kinds = {name: ColumnKind(smallest_unsigned(size)) for name, size in sizes.items()}
        return kinds | ({TIMES: ColumnKind("<u8")} if self.times else {})

    def numericaliser(self, folder: Path) -> "SequenceNumericaliser":
        return SequenceNumericaliser(Catalogue.load(folder), self.reads, self.splits_rows)


class SequenceNumericaliser(NamedTuple):
    """Converts histories to ids. Times are stored as seconds since the user's first item.

    In training, items outside the catalogue are left out, and so are users with fewer than two items, from whom nothing
    can be learnt. In validation, items outside the catalogue are stored as unknown; the target may be one of them.
    """

    catalogue: Catalogue
    reads: tuple[str, ...]
    splits_rows: bool

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        usable: list[int] = []
        stored: dict[str, list[list[int]]] = {name: [] for name in self.reads[1:]}
        for index, texts in enumerate(zip(*columns, strict=True)):
            values = self._values(texts)
            values = self._training(values) if training else self._validation(values)
            if len(values[ITEMS]) < 2:
                continue
            usable.append(index)
            for name, row in values.items():
                stored[name].append(row)
        ids = {name: _pack_times(rows) if name == TIMES else pack(rows) for name, rows in stored.items()}
        left_out = len(columns[0]) - len(usable)
        return Numericalised(ids, usable, empty=left_out if training or not self.splits_rows else 0)

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        items = Counter(item for row in rows for item in row[1].split("\t"))
        return {"items": Counter({item: count for item, count in items.items() if not self.catalogue.is_known(item)})}

    def _values(self, texts: Sequence[str]) -> dict[str, list[int]]:
        """One user's item ids and, if they are read, times since the first item and behaviour ids, by column name."""
        by_name = {name: text.split("\t") for name, text in zip(self.reads, texts, strict=True)}
        values = {ITEMS: self.catalogue.item_ids(by_name[ITEMS])}
        if TIMES in by_name:
            times = list(map(int, by_name[TIMES]))
            values[TIMES] = [time - times[0] for time in times]
        if BEHAVIOURS in by_name:
            values[BEHAVIOURS] = self.catalogue.behaviour_ids(by_name[BEHAVIOURS])
        return values

    def _training(self, values: dict[str, list[int]]) -> dict[str, list[int]]:
        if self.splits_rows:
            values = {name: training_part(row) for name, row in values.items()}
        is_known = [id != UNK for id in values[ITEMS]]
        return {
            name: [value for value, known in zip(row, is_known, strict=True) if known] for name, row in values.items()
        }

    def _validation(self, values: dict[str, list[int]]) -> dict[str, list[int]]:
        if not self.splits_rows:
            return values
        has_target = len(values[ITEMS]) >= FEWEST
        return {name: row[:-1] if has_target else [] for name, row in values.items()}


def training_part(history: Sequence[Value]) -> list[Value]:
    """The items of a history that a leave-one-out split trains on: all but the last two, or all if fewer than three."""
    return list(history[:-2] if len(history) >= FEWEST else history)


def _pack_times(rows: Sequence[Sequence[int]]) -> Rows:
    lengths = np.fromiter(map(len, rows), dtype=np.uint32, count=len(rows))
    return Rows(np.array([time for row in rows for time in row], dtype=np.uint64), lengths)
