"""Corpora: where text comes from, read in blocks of raw lines; each kind says which columns of text it gives.

Blocks, so that the slow part (decoding, parsing, cutting into pieces) can be done by other processes.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, NoReturn, assert_never

from pydantic import Field, field_validator

from calque.config import Config
from calque.data.line_counts import refuse_misaligned
from calque.data.lines import Digest, Invalid, file_lines
from calque.errors import DataError

BLOCK_LINES = 2048
BLOCK_BYTES = 1 << 20
SENTENCE_LIMIT = 1 << 25  # bytes; a block of words that has no sentence's end by then is too long to be one

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


class TextFileConfig(Config):
    """One file of text, for language models."""

    kind: Literal["text"] = "text"
    path: Path
    """The text, one sentence per line, plain or gzip."""
    weight: Weight = 1.0
    """How often an epoch reads each line; 0.5 reads every line once in two epochs."""


class ConlluConfig(Config):
    """One file in CoNLL-U: ten columns, of which form and a label column such as upos are read."""

    kind: Literal["conllu"] = "conllu"
    path: Path
    """The file, plain or gzip."""
    weight: Weight = 1.0
    """How often an epoch reads each sentence; 0.5 reads every sentence once in two epochs."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return CONLLU_NAMES


class ColumnFileConfig(Config):
    """One file with a word per line, its columns between tabs or spaces, and an empty line behind each sentence."""

    kind: Literal["columns"] = "columns"
    path: Path
    """The file, plain or gzip."""
    columns: tuple[str, ...] = Field(default=("form", "label"), min_length=1)
    """The names of its columns, from the first on; further columns in the file are ignored."""
    weight: Weight = 1.0
    """How often an epoch reads each sentence; 0.5 reads every sentence once in two epochs."""

    @field_validator("columns")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(f"columns are {', '.join(names)}: each needs a name of its own")
        return names


CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

WordCorpus = ConlluConfig | ColumnFileConfig
PairCorpus = FilesConfig | TsvConfig | JsonlConfig
Corpus = Annotated[
    FilesConfig | TsvConfig | JsonlConfig | TextFileConfig | ConlluConfig | ColumnFileConfig,
    Field(discriminator="kind"),
]


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
        return any(getattr(corpus, "alignments", None) for corpus in self.train)

    @property
    def longest_row(self) -> int:
        """The most values that a stored row has; of links between words and of characters there may be very many."""
        is_long = self.aligned or any(isinstance(corpus, WordCorpus) for corpus in (*self.train, *self.valid))
        return (1 << 31) if is_long else self.maximum_length + 1

    @property
    def line_limit(self) -> int:
        """Bytes beyond which a line is left out unread: no line so long has few enough pieces."""
        return 64 * max(self.maximum_length, 1024)


class Block(NamedTuple):
    """Consecutive lines of a corpus, as bytes."""

    first: int
    """The number of its first line, from 1."""
    files: tuple[list[bytes], ...]
    """The lines of each of the corpus's files, in the order of `paths`."""

    @property
    def lines(self) -> int:
        return len(self.files[0])


def paths(corpus: Corpus) -> dict[str, Path]:
    """The files of a corpus, by the name of the config's key."""
    match corpus:
        case FilesConfig():
            files = {"source": corpus.source, "target": corpus.target}
        case TsvConfig() | JsonlConfig() | TextFileConfig() | ConlluConfig() | ColumnFileConfig():
            files = {"path": corpus.path}
        case _:
            assert_never(corpus)
    alignments = getattr(corpus, "alignments", None)
    return files if alignments is None else {**files, "alignments": alignments}


def gives(corpus: Corpus) -> tuple[str, ...]:
    """The columns of text that a corpus has."""
    match corpus:
        case FilesConfig() | TsvConfig() | JsonlConfig():
            return ("source", "target", "links") if corpus.alignments else ("source", "target")
        case TextFileConfig():
            return ("text",)
        case ConlluConfig() | ColumnFileConfig():
            return corpus.columns
        case _:
            assert_never(corpus)


def read_blocks(corpus: Corpus, *, limit: int, digests: Mapping[str, Digest] | None = None) -> Iterator[Block]:
    """The lines of a corpus in blocks, in bounded memory; files of different length are rejected at their end (P11).

    Each file is read once; `digests`, by the names of `paths`, take in its bytes. Blocks of words end with a sentence.
    """
    files = paths(corpus)
    streams = [file_lines(path, limit=limit, digest=(digests or {}).get(key)) for key, path in files.items()]
    first, size = 1, 0
    rows: list[tuple[bytes, ...]] = []
    for lines in zip_longest(*streams):
        if None in lines:
            if rows:  # what else is wrong there is reported too
                yield _block(first, rows)
            _refuse_unequal(corpus, lines, read=first + len(rows) - 1)
        rows.append(lines)
        size += sum(map(len, lines))
        is_full = len(rows) >= BLOCK_LINES or size >= BLOCK_BYTES
        if is_full and (not isinstance(corpus, WordCorpus) or not lines[0].strip() or size >= SENTENCE_LIMIT):
            yield _block(first, rows)
            first, size, rows = first + len(rows), 0, []
    if rows:
        yield _block(first, rows)


def _block(first: int, rows: list[tuple[bytes, ...]]) -> Block:
    return Block(first, tuple(list(lines) for lines in zip(*rows, strict=True)))


def _refuse_unequal(corpus: Corpus, lines: tuple[bytes | None, ...], *, read: int) -> NoReturn:
    """Raises a DataError for files of which one ends after `read` lines."""
    if isinstance(corpus, FilesConfig) and (lines[0] is None) != (lines[1] is None):
        refuse_misaligned(corpus.source, target=corpus.target)
    alignments = paths(corpus)["alignments"]
    if lines[-1] is None:
        problem = f"{alignments} ends after {read:,} lines, the corpus goes on"
    else:
        problem = f"{alignments} has more than the corpus's {read:,} lines"
    raise DataError(f"{problem}: line n of it must align line n of the corpus")
