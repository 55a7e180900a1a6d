"""Files of vectors: NumPy files whose number of rows is known only at the end, and searchable vectors on disk.

Letters: N vectors, W width.
"""

import struct
from array import array
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.commands.output import ResumableFile

Array = NDArray[Any]

HEADER = 128  # bytes before the first vector


class NumpyFile(ResumableFile):
    """A context that writes vectors [N,W] to a NumPy file, which appears when complete; writing can be resumed."""

    def __init__(self, path: Path, *, width: int, made_from: str | None = None) -> None:
        super().__init__(path, made_from=made_from)
        self.width = width

    def __enter__(self) -> "NumpyFile":
        super().__enter__()
        if not self.lines:
            self.write(npy_header(rows=0, width=self.width))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            with self._named_errors():
                rows = (self._file.seek(0, 2) - HEADER) // (4 * self.width)
                self._file.seek(0)
                self._file.write(npy_header(rows=rows, width=self.width))
        super().__exit__(kind, error, trace)


def npy_header(*, rows: int, width: int) -> bytes:
    """The header of a NumPy file (format 1.0) with float32 vectors [N,W]; its length is always the same."""
    description = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    text = description.ljust(HEADER - 11).encode("ascii") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


class VectorCorpus:
    """Texts and their vectors, kept in files so that memory does not grow with their number."""

    def __init__(self, folder: Path, *, width: int) -> None:
        self.width = width
        self._vectors, self._texts = folder / "vectors", folder / "texts"
        self._ends = array("q", [0])
        self.numbers = array("q")
        """The line number of each text."""

    def fill(self, rows: Iterable[tuple[int, str, Array]]) -> None:
        """Writes line numbers, texts and vectors to the files."""
        with self._vectors.open("wb") as vectors, self._texts.open("wb") as texts:
            for number, text, values in rows:
                vectors.write(np.ascontiguousarray(values, dtype="<f4").tobytes())
                texts.write(text.encode())
                self._ends.append(texts.tell())
                self.numbers.append(number)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def vectors(self) -> Array:
        """The vectors [N,W], memory-mapped from their file."""
        if not self.numbers:
            return np.zeros((0, self.width), dtype=np.float32)
        return np.memmap(self._vectors, dtype="<f4", mode="r", shape=(len(self), self.width))

    def text(self, index: int) -> str:
        """The text that belongs to the vector with this index."""
        with self._texts.open("rb") as texts:
            texts.seek(self._ends[index])
            return texts.read(self._ends[index + 1] - self._ends[index]).decode()
