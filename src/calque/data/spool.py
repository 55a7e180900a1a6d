"""The spool: a temporary file of cleaned rows, from which vocabularies are learnt and rows are converted to ids.

A record holds one block of rows: a line of JSON that describes it, the key of each row (see `holdout`), and the texts
of each column in UTF-8. Texts are separated by line breaks; a column whose texts contain line breaks is stored as a
JSON list.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.holdout import Hashes

Role = Literal["train", "valid"]

_SIZE = 8  # bytes of the number before each record: the record's size


class SpoolBlock(NamedTuple):
    """A block of cleaned rows of one corpus."""

    role: Role
    corpus: int  # from 0
    columns: Sequence[Sequence[str]]
    """The texts of each column."""
    keys: Hashes
    """The key of each row; empty if no rows of this corpus are held out. Rows with the smallest keys are held out."""

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    def is_held_out(self, held_out: Hashes) -> NDArray[np.bool_]:
        """A mask [rows], true for validation rows; `held_out` has the sorted keys of all held-out rows."""
        return _is_held_out(self.role, self.rows, keys=self.keys, held_out=held_out)


def pack_block(block: SpoolBlock) -> bytes:
    """A block, packed as a record of the spool."""
    columns = [_pack_texts(texts) for texts in block.columns]
    keys = block.keys.astype("<u8").tobytes()
    description = {
        "role": block.role,
        "corpus": block.corpus,
        "rows": block.rows,
        "sizes": [len(keys), *(len(packed) for packed, _ in columns)],
        "lists": [is_list for _, is_list in columns],
    }
    record = b"".join([json.dumps(description).encode(), b"\n", keys, *(packed for packed, _ in columns)])
    return len(record).to_bytes(_SIZE, "little") + record


def read_spool(path: Path) -> Iterator[bytes]:
    """Yields the records of a spool file."""
    with path.open("rb") as file:
        while size := file.read(_SIZE):
            yield file.read(int.from_bytes(size, "little"))


def unpack_block(record: bytes) -> SpoolBlock:
    """The block of rows in a record."""
    parts = _Record(record)
    columns = [parts.texts(column) for column in range(parts.columns)]
    return SpoolBlock(parts.role, parts.corpus, columns, parts.keys)


def unpack_column(record: bytes, *, column: int, held_out: Hashes) -> list[str]:
    """The texts of one column, for the rows of a record that are used for training, not held out for validation."""
    parts = _Record(record)
    if parts.role != "train":
        return []
    texts = parts.texts(column)
    mask = _is_held_out(parts.role, parts.rows, keys=parts.keys, held_out=held_out)
    for index in reversed(np.flatnonzero(mask).tolist()):  # few rows are held out
        del texts[index]
    return texts


class _Record:
    """A record of the spool file, that is, a packed block of rows; keys and columns are decoded only when requested."""

    def __init__(self, record: bytes) -> None:
        start = record.index(b"\n") + 1
        description = json.loads(record[:start])
        self.role: Role = description["role"]
        self.corpus: int = description["corpus"]
        self.rows: int = description["rows"]
        self._lists: list[bool] = description["lists"]
        self._record = record
        self._ends = list(accumulate(description["sizes"], initial=start))

    @property
    def columns(self) -> int:
        return len(self._lists)

    @property
    def keys(self) -> Hashes:
        return np.frombuffer(self._part(0), dtype="<u8")

    def texts(self, column: int) -> list[str]:
        packed = self._part(column + 1)
        texts: list[str] = json.loads(packed) if self._lists[column] else packed.decode().split("\n")
        return texts if self.rows else []

    def _part(self, number: int) -> bytes:
        return self._record[self._ends[number] : self._ends[number + 1]]


def _pack_texts(texts: Sequence[str]) -> tuple[bytes, bool]:
    """The texts of a column as bytes: lines or, if a text has a line break, a JSON list; and whether it is a list."""
    joined = "\n".join(texts)
    if joined.count("\n") == len(texts) - 1 or not texts:
        return joined.encode(), False
    return json.dumps(texts, ensure_ascii=False).encode(), True


def _is_held_out(role: Role, rows: int, *, keys: Hashes, held_out: Hashes) -> NDArray[np.bool_]:
    if role == "valid" or not len(held_out):
        return np.full(rows, role == "valid")
    places = np.minimum(np.searchsorted(held_out, keys), len(held_out) - 1)
    return np.asarray(held_out[places] == keys)
