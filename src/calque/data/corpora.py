"""Corpora: where pairs come from, read in blocks of raw lines.

Blocks, so that the slow part (decoding, parsing, cutting into pieces) can be done by other processes.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, assert_never

from pydantic import Field

from calque.config import Config
from calque.data.line_counts import refuse_misaligned
from calque.data.lines import Invalid, file_lines
from calque.errors import DataError

BLOCK_LINES = 2048
BLOCK_BYTES = 1 << 20

Shifted = Literal["fail", "warn"]

Weight = Annotated[float, Field(gt=0)]


class FilesConfig(Config):
    """Two files, line by line."""

    kind: Literal["files"] = "files"
    source: Path
    """Source text, one sentence a line, plain or gzip."""
    target: Path
    """Target text, line for line the translation of the source."""
    alignments: Path | None = None
    """Links between the words of each pair, a line a pair, as 0-0 1-2 (Pharaoh); to guide attention in training."""
    weight: Weight = 1.0
    """How often an epoch reads each pair; 0.5 reads every pair once in two epochs."""


class TsvConfig(Config):
    """One file with columns between tabs."""

    kind: Literal["tsv"] = "tsv"
    path: Path
    """The file, plain or gzip; it has no header."""
    source_column: int = Field(default=1, ge=1)
    """The source's column, from 1."""
    target_column: int = Field(default=2, ge=1)
    """The target's column, from 1."""
    alignments: Path | None = None
    """Links between the words of each pair, a line a pair, as 0-0 1-2 (Pharaoh); to guide attention in training."""
    weight: Weight = 1.0
    """How often an epoch reads each pair; 0.5 reads every pair once in two epochs."""


class JsonlConfig(Config):
    """One file with a JSON object a line."""

    kind: Literal["jsonl"] = "jsonl"
    path: Path
    """The file, plain or gzip."""
    source_key: str = "source"
    """The key of the source text."""
    target_key: str = "target"
    """The key of the target text."""
    alignments: Path | None = None
    """Links between the words of each pair, a line a pair, as 0-0 1-2 (Pharaoh); to guide attention in training."""
    weight: Weight = 1.0
    """How often an epoch reads each pair; 0.5 reads every pair once in two epochs."""


Corpus = Annotated[FilesConfig | TsvConfig | JsonlConfig, Field(discriminator="kind")]


class ValidationConfig(Config):
    """How many pairs are held out of training where no validation corpus is given.

    Which ones is decided by a hash of the source text: the same pairs every time, and equal sources stay together.
    """

    share: float = Field(default=0.01, gt=0, lt=1)
    """The share of all pairs."""
    minimum: int = Field(default=50, ge=1)
    """At least this many pairs, if that leaves half of them."""
    maximum: int = Field(default=2000, ge=1)
    """At most this many pairs."""


class DataConfig(Config):
    """The text a model learns from."""

    train: tuple[Corpus, ...] = Field(min_length=1)
    """The corpora to learn from."""
    valid: tuple[Corpus, ...] = ()
    """The corpora to validate on; without them a few training pairs are held out."""
    invalid: Invalid = "fail"
    """What to do with text that is not UTF-8: fail, skip the pair, or replace the bytes by U+FFFD."""
    shifted: Shifted = "fail"
    """What to do where the lengths of lines show that one side is some lines late or early: fail, or warn and go on."""
    maximum_length: int = Field(default=256, ge=1)
    """Pairs with more pieces on a side are left out, and counted."""
    validation: ValidationConfig = ValidationConfig()
    """How many pairs are held out of training where no validation corpus is given."""
    store: Path | None = None
    """The folder of the prepared store; without it the run keeps its own."""

    @property
    def aligned(self) -> bool:
        """Whether some training corpus has alignments."""
        return any(corpus.alignments for corpus in self.train)

    @property
    def line_limit(self) -> int:
        """Bytes beyond which a line is left out unread: no line so long has few enough pieces."""
        return 64 * max(self.maximum_length, 1024)


class Block(NamedTuple):
    """Consecutive lines of a corpus, as bytes."""

    first: int
    """The number of its first line, from 1."""
    source: list[bytes]
    target: list[bytes]
    """Empty where the source lines hold both."""
    alignments: Sequence[bytes] = ()
    """Of each line, where the corpus has some."""


def paths(corpus: Corpus) -> dict[str, Path]:
    """The files of a corpus, by the name of the config's key."""
    beside = {"alignments": corpus.alignments} if corpus.alignments else {}
    match corpus:
        case FilesConfig():
            return {"source": corpus.source, "target": corpus.target, **beside}
        case TsvConfig() | JsonlConfig():
            return {"path": corpus.path, **beside}
        case _:
            assert_never(corpus)


def read_blocks(corpus: Corpus, *, limit: int) -> Iterator[Block]:
    """The lines of a corpus in blocks, in bounded memory; files of different length are refused at their end (P11)."""
    pairs: Iterable[tuple[bytes | None, bytes | None]]
    match corpus:
        case FilesConfig():
            pairs = zip_longest(file_lines(corpus.source, limit=limit), file_lines(corpus.target, limit=limit))
        case TsvConfig() | JsonlConfig():
            pairs = ((line, b"") for line in file_lines(corpus.path, limit=limit))
        case _:
            assert_never(corpus)
    links = file_lines(corpus.alignments, limit=limit) if corpus.alignments else None
    first, size = 1, 0
    source: list[bytes] = []
    target: list[bytes] = []
    for left, right in pairs:
        if left is None or right is None:
            assert isinstance(corpus, FilesConfig)
            if source:  # what else is wrong there is told too
                yield Block(first, source, target, _beside(links, corpus, first=first, lines=len(source)))
            refuse_misaligned(corpus.source, target=corpus.target)
        source.append(left)
        target.append(right)
        size += len(left) + len(right)
        if len(source) == BLOCK_LINES or size >= BLOCK_BYTES:
            yield Block(first, source, target, _beside(links, corpus, first=first, lines=len(source)))
            first, size, source, target = first + len(source), 0, [], []
    if source:
        yield Block(first, source, target, _beside(links, corpus, first=first, lines=len(source)))
    if links is not None and next(links, None) is not None:
        raise DataError(
            f"{corpus.alignments} has more than the corpus's {first + len(source) - 1:,} lines: "
            "line n of it must align line n of the corpus"
        )


def _beside(links: Iterator[bytes] | None, corpus: Corpus, *, first: int, lines: int) -> list[bytes]:
    """The alignments of the next lines."""
    if links is None:
        return []
    found = list(islice(links, lines))
    if len(found) < lines:
        raise DataError(
            f"{corpus.alignments} ends after {first + len(found) - 1:,} lines, the corpus goes on: "
            "line n of it must align line n of the corpus"
        )
    return found
