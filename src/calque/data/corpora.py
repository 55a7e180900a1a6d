"""The configs of all kinds of corpora, and functions that read the lines of a corpus in blocks.

Lines are read in blocks so that other processes can do the slow work: decoding, parsing and tokenisation.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, NoReturn, assert_never

from pydantic import Field, field_validator

from calque.config import Config
from calque.data.audio_corpus import AUDIO_COLUMNS, AUDIO_LINES, AudioConfig
from calque.data.image_manifests import ImagesConfig
from calque.data.line_counts import refuse_misaligned
from calque.data.lines import Digest, Invalid, file_line_lists, file_lines
from calque.data.problems import LISTED, refuse
from calque.data.sequence_files import LINE_BYTES as HISTORY_BYTES
from calque.data.sequence_files import (
    SequenceCorpus,
    SequenceRecordsConfig,
    SequencesConfig,
    repeated_users,
)
from calque.data.tables import RECORD_BYTES, CsvConfig, TableCorpus, TsvConfig, Weight, csv_lines
from calque.errors import DataError

BLOCK_LINES = 8192
BLOCK_BYTES = 1 << 20
BLOCK_IMAGES = 256  # lines of a manifest, whose images are in memory together
SENTENCE_LIMIT = 1 << 25  # bytes of a block of words without the end of a sentence; longer sentences are rejected
RUNNING_LIMIT = 1 << 27  # bytes of a line of running text; a longer line would take too much memory

Shifted = Literal["fail", "warn"]


class FilesConfig(Config):
    """Two parallel files: line n of the target translates line n of the source."""

    kind: Literal["files"] = "files"
    source: Path
    """Source text, one sentence per line, plain or compressed."""
    target: Path
    """Target text: line n translates line n of the source."""
    alignments: Path | None = None
    """Word alignments for guided attention: one line per pair, in Pharaoh format (0-0 1-2)."""
    weight: Weight = 1.0
    """How often an epoch reads each pair; with 0.5, every pair is read once in two epochs."""


class JsonlConfig(Config):
    """One file with a JSON object per line."""

    kind: Literal["jsonl"] = "jsonl"
    path: Path
    """The file, plain or compressed."""
    source_key: str = "source"
    """The key of the source text; dots lead into nested objects, as in translation.de"""
    target_key: str = "target"
    """The key of the target text; dots lead into nested objects, as in translation.en"""
    alignments: Path | None = None
    """Word alignments for guided attention: one line per pair, in Pharaoh format (0-0 1-2)."""
    weight: Weight = 1.0
    """How often an epoch reads each pair; with 0.5, every pair is read once in two epochs."""


class TextFileConfig(Config):
    """One file of text, for language models."""

    kind: Literal["text"] = "text"
    path: Path
    """The text, one sentence per line, plain or compressed."""
    weight: Weight = 1.0
    """How often an epoch reads each line; with 0.5, every line is read once in two epochs."""


class ConlluConfig(Config):
    """One file in CoNLL-U format: ten columns, of which form and a label column such as upos are read."""

    kind: Literal["conllu"] = "conllu"
    path: Path
    """The file, plain or compressed."""
    weight: Weight = 1.0
    """How often an epoch reads each sentence; with 0.5, every sentence is read once in two epochs."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the ten columns of CoNLL-U, from id to misc."""
        return CONLLU_NAMES


class ColumnFileConfig(Config):
    """One file with a word per line, columns separated by tabs or spaces, and an empty line after each sentence."""

    kind: Literal["columns"] = "columns"
    path: Path
    """The file, plain or compressed."""
    columns: tuple[str, ...] = Field(default=("form", "label"), min_length=1)
    """The names of the file's columns, in order; columns after the last name are ignored."""
    weight: Weight = 1.0
    """How often an epoch reads each sentence; with 0.5, every sentence is read once in two epochs."""

    @field_validator("columns")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(f"columns are {', '.join(names)}: every column needs a unique name")
        return names


CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

WordCorpus = ConlluConfig | ColumnFileConfig
PairCorpus = FilesConfig | TsvConfig | CsvConfig | JsonlConfig
Corpus = Annotated[
    FilesConfig
    | TsvConfig
    | CsvConfig
    | JsonlConfig
    | TextFileConfig
    | ConlluConfig
    | ColumnFileConfig
    | SequencesConfig
    | SequenceRecordsConfig
    | AudioConfig
    | ImagesConfig,
    Field(discriminator="kind"),
]


class ValidationConfig(Config):
    """How many training pairs are held out for validation if there is no validation corpus.

    They are selected by a hash of the source text, so they are always the same, and pairs with equal sources stay
    together. With running text, the last lines are held out.
    """

    share: float = Field(default=0.01, gt=0, lt=1)
    """The share of all pairs to hold out."""
    minimum: int = Field(default=50, ge=1)
    """The minimum number of pairs to hold out; at most half of all pairs are held out."""
    maximum: int = Field(default=2000, ge=1)
    """The maximum number of pairs to hold out."""


class DataConfig(Config):
    """The corpora that a model is trained and validated on."""

    train: tuple[Corpus, ...] = Field(min_length=1)
    """The training corpora."""
    valid: tuple[Corpus, ...] = ()
    """The validation corpora; without them, a few training pairs are held out."""
    invalid: Invalid = "fail"
    """What to do with invalid UTF-8: fail, skip the pair, or replace the invalid bytes with U+FFFD. What to do with
    recordings that cannot be read: fail or skip them."""
    shifted: Shifted = "fail"
    """What to do if line lengths show that source and target are shifted against each other: fail, or only warn."""
    maximum_length: int = Field(default=256, ge=1)
    """Pairs with more tokens than this on either side are left out, and counted."""
    validation: ValidationConfig = ValidationConfig()
    """How many training pairs are held out for validation if there is no validation corpus."""
    store: Path | None = None
    """The folder of the prepared store; by default it is inside the run."""

    @property
    def aligned(self) -> bool:
        """Whether any training corpus has word alignments."""
        return any(getattr(corpus, "alignments", None) for corpus in self.train)

    def longest_row(self, *, running: bool) -> int:
        """An upper bound on the number of values in a stored row.

        Rows of word alignments, characters or running text may be very long.
        """
        long_rows = WordCorpus | SequenceCorpus | AudioConfig | ImagesConfig
        is_long = self.aligned or any(isinstance(corpus, long_rows) for corpus in (*self.train, *self.valid))
        return (1 << 31) if is_long or running else self.maximum_length + 1

    def line_limit(self, *, running: bool) -> int:
        """The length in bytes of the longest line that is parsed.

        For `running` text, whose lines are not limited by `maximum_length`, it is 128 MiB; for user histories, 16 MiB.
        In all other corpora, a longer line would have more than `maximum_length` tokens anyway.
        """
        if any(isinstance(corpus, SequenceCorpus) for corpus in self.train):
            return HISTORY_BYTES
        return RUNNING_LIMIT if running else 64 * max(self.maximum_length, 1024)


class Block(NamedTuple):
    """Consecutive lines of a corpus, as bytes."""

    first: int
    """The line number of the block's first line, from 1."""
    files: tuple[list[bytes], ...]
    """The lines of each of the corpus's files, in the order of `paths`. Lines of CSV are those of `csv_lines`."""
    head: bytes
    """The first line of the corpus's first file, which may be a header."""

    @property
    def lines(self) -> int:
        return len(self.files[0])


def paths(corpus: Corpus) -> dict[str, Path]:
    """The files of a corpus, by their key in its config, such as source, target or path."""
    match corpus:
        case FilesConfig():
            files = {"source": corpus.source, "target": corpus.target}
        case TsvConfig() | CsvConfig() | JsonlConfig() | TextFileConfig() | ConlluConfig() | ColumnFileConfig():
            files = {"path": corpus.path}
        case SequencesConfig() | SequenceRecordsConfig() | AudioConfig():
            files = {"path": corpus.path}
        case ImagesConfig():
            files = {"path": corpus.path}
        case _:
            assert_never(corpus)
    alignments = getattr(corpus, "alignments", None)
    return files if alignments is None else {**files, "alignments": alignments}


def text_columns(corpus: Corpus) -> tuple[str, ...]:
    """The names of a corpus's text columns, such as source and target."""
    match corpus:
        case FilesConfig() | TsvConfig() | CsvConfig() | JsonlConfig():
            return ("source", "target", "links") if "alignments" in paths(corpus) else ("source", "target")
        case TextFileConfig():
            return ("text",)
        case ConlluConfig() | ColumnFileConfig():
            return corpus.columns
        case SequencesConfig() | SequenceRecordsConfig():
            return corpus.columns
        case AudioConfig():
            return AUDIO_COLUMNS
        case ImagesConfig():
            return ("image", "caption")
        case _:
            assert_never(corpus)


def read_blocks(corpus: Corpus, *, limit: int, digests: Mapping[str, Digest] | None = None) -> Iterator[Block]:
    """Yields the lines of a corpus in blocks, in bounded memory.

    Raises a DataError at the end of the shortest file if the files have different numbers of lines, and at the end of a
    file of user histories if any user has more than one line. Each file is read once. Its bytes update its digest in
    `digests`, whose keys are those of `paths(corpus)`. A block of labelled words ends at the end of a sentence.
    """
    if isinstance(corpus, SequenceCorpus):
        users: dict[str, int] = {}
        repeated, more = list[str](), 0
        for block in _line_blocks(corpus, limit=limit, digests=digests or {}):
            for problem in repeated_users(block.files[0], corpus=corpus, first=block.first, seen=users):
                if len(repeated) < LISTED:
                    repeated.append(problem)
                else:
                    more += 1
            yield block
        refuse(repeated, more=more)
        return
    if not isinstance(corpus, CsvConfig | WordCorpus):
        yield from _line_blocks(corpus, limit=limit, digests=digests or {})
        return
    streams = [
        _lines(corpus, path, limit=limit, digest=(digests or {}).get(key)) for key, path in paths(corpus).items()
    ]
    first, size = 1, 0
    rows: list[tuple[bytes, ...]] = []
    head = b""
    for lines in zip_longest(*streams):
        if None in lines:
            if rows:  # so that other problems in these lines are reported too
                yield _block(first, rows, head=head)
            _refuse_unequal(corpus, lines, read=first + len(rows) - 1)
        if first == 1 and not rows:
            head = lines[0]
            _refuse_missing_columns(corpus, head)
        rows.append(lines)
        size += sum(map(len, lines))
        is_full = len(rows) >= BLOCK_LINES or size >= BLOCK_BYTES
        if is_full and (not isinstance(corpus, WordCorpus) or not lines[0].strip() or size >= SENTENCE_LIMIT):
            yield _block(first, rows, head=head)
            first, size, rows = first + len(rows), 0, []
    if rows:
        yield _block(first, rows, head=head)


def _line_blocks(corpus: Corpus, *, limit: int, digests: Mapping[str, Digest]) -> Iterator[Block]:
    """Yields the blocks of a corpus in which every line is a row. For speed, it does not loop over lines in Python."""
    files = [
        _LineQueue(file_line_lists(path, limit=limit, digest=digests.get(key))) for key, path in paths(corpus).items()
    ]
    first, head = 1, b""
    while count := min(queue.fill() for queue in files):
        if first == 1:
            head = files[0].lines[0]
            _refuse_missing_columns(corpus, head)
        largest = {AudioConfig: AUDIO_LINES, ImagesConfig: BLOCK_IMAGES}.get(type(corpus), BLOCK_LINES)
        count = min(count, largest)
        if sum(queue.size for queue in files) >= BLOCK_BYTES:
            count = _count_within(BLOCK_BYTES, [queue.lines[:count] for queue in files])
        yield Block(first, tuple(queue.take(count) for queue in files), head)
        first += count
    ends = tuple(queue.lines[0] if queue.fill() else None for queue in files)
    if any(end is not None for end in ends):
        _refuse_unequal(corpus, ends, read=first - 1)


class _LineQueue:
    """A queue of the next lines of a file, refilled so that it holds enough lines for a block until the file ends."""

    def __init__(self, lists: Iterator[list[bytes]]) -> None:
        self.lines: list[bytes] = []
        self.size = 0  # bytes of all these lines
        self._lists = lists

    def fill(self) -> int:
        """Reads until there are enough lines for a block or the file ends; returns the number of lines in the queue."""
        while len(self.lines) < BLOCK_LINES and self.size < BLOCK_BYTES and (lines := next(self._lists, None)):
            self.lines += lines
            self.size += sum(map(len, lines))
        return len(self.lines)

    def take(self, count: int) -> list[bytes]:
        """Removes and returns the first `count` lines."""
        lines, self.lines = self.lines[:count], self.lines[count:]
        self.size -= sum(map(len, lines))
        return lines


def _count_within(size: int, files: Sequence[Sequence[bytes]]) -> int:
    """How many lines to take from each file to reach `size` bytes in total; all lines if they have fewer bytes.

    >>> _count_within(5, [[b"a", b"bb", b"c"], [b"x", b"y", b"z"]])
    2
    """
    totals = list(accumulate(sum(map(len, lines)) for lines in zip(*files, strict=True)))
    return min(bisect_left(totals, size) + 1, len(totals))


def _lines(corpus: Corpus, path: Path, *, limit: int, digest: Digest | None) -> Iterator[bytes]:
    if not isinstance(corpus, CsvConfig):
        return file_lines(path, limit=limit, digest=digest)
    lines = file_lines(path, limit=RECORD_BYTES, digest=digest)
    return csv_lines(lines, delimiter=corpus.delimiter, limit=limit, name=str(path))


def _refuse_missing_columns(corpus: Corpus, head: bytes) -> None:
    if isinstance(corpus, TableCorpus):
        try:
            corpus.format.layout(head)
        except ValueError as error:
            raise DataError(f"{corpus.path}: line 1: {error}") from None


def _block(first: int, rows: list[tuple[bytes, ...]], *, head: bytes) -> Block:
    return Block(first, tuple(list(lines) for lines in zip(*rows, strict=True)), head)


def _refuse_unequal(corpus: Corpus, lines: tuple[bytes | None, ...], *, read: int) -> NoReturn:
    """Raises a DataError because some files end after `read` lines (None in `lines`), but others continue."""
    if isinstance(corpus, FilesConfig) and (lines[0] is None) != (lines[1] is None):
        refuse_misaligned(corpus.source, target=corpus.target)
    alignments = paths(corpus)["alignments"]
    if lines[-1] is None:
        problem = f"{alignments} ends after {read:,} lines, but the corpus is longer"
    else:
        problem = f"{alignments} has more than the corpus's {read:,} lines"
    raise DataError(f"{problem}: line n must contain the word alignments of line n of the corpus")
