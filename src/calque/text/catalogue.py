"""The catalogue of a recommender: its items with their frequencies in training, and the types of behaviour.

A catalogue is saved as items.json (a vocabulary), counts.json (one number per id) and, if there are any,
behaviours.json.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.errors import TextError
from calque.parsing import parse_json
from calque.text.cleaning import ESCAPE
from calque.text.forms import escaped
from calque.text.vocabulary import PIECES, UNK, Vocabulary

ITEM_FILE, COUNT_FILE, BEHAVIOUR_FILE = "items.json", "counts.json", "behaviours.json"
FIRST_ITEM = len(PIECES)
"""The smallest id of an item; smaller ids are those of the special pieces, which are never recommended."""

_LARGEST = 1 << 62


class Catalogue(NamedTuple):
    """The items that a recommender knows. Items are sorted by frequency, then by code point."""

    items: Vocabulary
    counts: tuple[int, ...]
    """How often each id occurs in the training data."""
    behaviours: Vocabulary | None = None

    def item_ids(self, items: Iterable[str]) -> list[int]:
        """The ids of items, with UNK for items that are not in the catalogue."""
        return self.items.ids(map(escaped, items))

    def behaviour_ids(self, behaviours: Iterable[str]) -> list[int]:
        """The ids of behaviour types, with UNK for types that do not occur in training."""
        assert self.behaviours is not None
        return self.behaviours.ids(map(escaped, behaviours))

    def names(self, ids: Iterable[int]) -> list[str]:
        """The items with these ids."""
        return [_unescaped(self.items.piece(id)) for id in ids]

    def is_known(self, item: str) -> bool:
        """Whether an item is in the catalogue."""
        return self.items.id(escaped(item)) != UNK

    def sizes(self) -> dict[str, int]:
        """The vocabulary size of each column, by its name."""
        behaviours = {} if self.behaviours is None else {"behaviours": len(self.behaviours)}
        return {"items": len(self.items), **behaviours}

    def save(self, folder: Path) -> None:
        """Writes the catalogue into a folder, which is created if it does not exist."""
        folder.mkdir(parents=True, exist_ok=True)
        self.items.save(folder / ITEM_FILE)
        (folder / COUNT_FILE).write_text(json.dumps(self.counts) + "\n", encoding="ascii")
        if self.behaviours is not None:
            self.behaviours.save(folder / BEHAVIOUR_FILE)

    @classmethod
    def load(cls, folder: Path) -> "Catalogue":
        """The catalogue that `save` wrote. Raises a TextError that names a missing or damaged file."""
        items = Vocabulary.load(folder / ITEM_FILE)
        counts = _read_counts(folder / COUNT_FILE, size=len(items))
        path = folder / BEHAVIOUR_FILE
        return cls(items, counts, Vocabulary.load(path) if path.exists() else None)


def learn_catalogue(
    known: Iterable[Sequence[str]],
    *,
    trained: Iterable[Sequence[str]],
    behaviours: Iterable[Sequence[str]] | None,
    minimum_count: int = 1,
) -> Catalogue:
    """The catalogue of a corpus, given the items of each user.

    `known` are all items of the corpus; the catalogue contains those that occur at least `minimum_count` times.
    `trained` are the items that are trained on, without held-out items; the catalogue's counts refer to them.
    """
    frequencies = _counted(known)
    items = Vocabulary.from_counts(frequencies, size=len(PIECES) + len(frequencies), minimum_count=minimum_count)
    if len(items) == FIRST_ITEM:
        raise TextError(f"task.minimum_count = {minimum_count}: no item occurs that often; lower it")
    trained_counts = _counted(trained)
    counts = tuple(0 if id < FIRST_ITEM else trained_counts[item] for id, item in enumerate(items.pieces))
    types = None if behaviours is None else _counted(behaviours)
    named = None if types is None else Vocabulary.from_counts(types, size=len(PIECES) + len(types))
    return Catalogue(items, counts, named)


def _counted(lists: Iterable[Sequence[str]]) -> Counter[str]:
    counts = Counter[str]()
    for values in lists:
        counts.update(map(escaped, values))
    return counts


def _unescaped(piece: str) -> str:
    return piece.removeprefix(ESCAPE) if piece.lstrip(ESCAPE) in PIECES else piece


def _read_counts(path: Path, *, size: int) -> tuple[int, ...]:
    try:
        counts = parse_json(path.read_bytes())
    except OSError as error:
        raise TextError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        counts = None
    is_valid = isinstance(counts, list) and all(type(count) is int and 0 <= count < _LARGEST for count in counts)
    if not is_valid or len(counts) != size:
        raise TextError(f"{path}: damaged: expected {size:,} counts, one for each id")
    return tuple(counts)
