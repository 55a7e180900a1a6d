r"""Parses blocks of raw lines into rows of text, and counts unusable rows."""

import json
import re
from collections.abc import Sequence, Set
from dataclasses import astuple, dataclass
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, assert_never

from calque.data.audio_corpus import AudioConfig
from calque.data.audio_manifests import parse_manifest
from calque.data.column_files import LINE_BYTES, ColumnFormat, read_sentences
from calque.data.corpora import (
    Block,
    ConlluConfig,
    Corpus,
    FilesConfig,
    JsonlConfig,
    TextFileConfig,
    WordCorpus,
    paths,
)
from calque.data.image_manifests import ImagesConfig, manifest_rows
from calque.data.lines import Invalid, decode, describe
from calque.data.problems import refuse_binary
from calque.data.sequence_files import SequenceRecordsConfig, SequencesConfig, read_histories
from calque.data.tables import CONTINUATION, CsvConfig, Layout, TableCorpus, TableFormat, TsvConfig
from calque.errors import DataError
from calque.parsing import parse_json
from calque.text.cleaning import strip_bom, strip_return

_SURROGATE = re.compile("[\ud800-\udfff]")


class Row(NamedTuple):
    """The texts of a row, one per column of its corpus (see `corpora.text_columns`), and its line number."""

    texts: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of lines read, and counts of unusable rows by reason."""

    lines: int = 0
    empty: int = 0
    """The number of rows with an empty text."""
    long: int = 0
    """The number of rows with a text that is too long."""
    invalid: int = 0
    """The number of rows with a text that is not UTF-8; they are left out, or repaired if `data.invalid` is replace."""
    returns: int = 0
    r"""The number of lines that ended in "\r\n"."""
    marks: int = 0
    """The number of byte order marks."""

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(left + right for left, right in zip(astuple(self), astuple(other), strict=True)))


class Parsed(NamedTuple):
    """The usable rows of a block of raw lines, by column, and messages about the unusable ones."""

    columns: Sequence[Sequence[str]]
    """The texts of each column of the corpus (see `corpora.text_columns`)."""
    lines: Sequence[int]
    """The line number of each row."""
    tally: Tally
    malformed: list[str]
    """File, line and description of malformed TSV, CSV or JSON."""
    invalid: list[str]
    """File, line and byte of invalid UTF-8."""

    @property
    def rows(self) -> list[Row]:
        """All rows, as a list."""
        return list(map(Row, zip(*self.columns, strict=True), self.lines))


def parse(block: Block, *, corpus: Corpus, invalid: Invalid, limit: int) -> Parsed:
    """The usable rows of a block, and messages about the others. Lines of more than `limit` bytes are left out."""
    if isinstance(corpus, WordCorpus):
        return _sentences(block, corpus)
    if isinstance(corpus, AudioConfig):
        manifest = parse_manifest(block, corpus, limit=limit)
        tally = Tally(block.lines, **manifest.counts)
        return Parsed(manifest.columns, manifest.lines, tally, manifest.malformed, manifest.invalid)
    files = {
        key: _decode(lines, path=path, first=block.first, limit=limit)
        for (key, path), lines in zip(paths(corpus).items(), block.files, strict=True)
    }
    match corpus:
        case FilesConfig():
            texts = _Texts([files["source"].texts, files["target"].texts], {}, {})
        case TsvConfig() | CsvConfig():
            texts = _columns(files["path"], corpus, block)
        case JsonlConfig():
            texts = _objects(files["path"], corpus, block.first)
        case TextFileConfig():
            texts = _Texts([files["path"].texts], {}, {})
        case SequencesConfig() | SequenceRecordsConfig():
            texts = _Texts(*read_histories(files["path"].texts, corpus=corpus, first=block.first), {})
        case ImagesConfig():
            if block.first == 1:
                refuse_binary(block.files[0], path=corpus.path, rows="image")
            texts = _Texts(*manifest_rows(files["path"].texts, corpus=corpus, first=block.first))
            invalid = "skip" if invalid == "replace" else invalid  # an image cannot be repaired
        case _:
            assert_never(corpus)
    for decoded in files.values():
        texts.invalid.update(decoded.invalid)
    optional = [files["alignments"].texts] if "alignments" in files else []
    long = {index for decoded in files.values() for index in decoded.long}
    return _join(texts, optional, files=list(files.values()), long=long, first=block.first, skip=invalid != "replace")


def _sentences(block: Block, corpus: WordCorpus) -> Parsed:
    """Parses a file with one word per line. A row is a sentence; its text in a column joins the words' values by tabs.

    Invalid UTF-8 is always an error, because the label of a damaged word may be wrong for the repaired word.
    """
    (lines,) = block.files
    columns = len(corpus.columns)
    format: ColumnFormat = "conllu" if isinstance(corpus, ConlluConfig) else "columns"
    with_ends = (line if len(line) > LINE_BYTES else line + b"\n" for line in lines)
    cells: list[list[str]] = [[] for _ in corpus.columns]
    numbers: list[int] = []
    try:
        for sentence in read_sentences(
            with_ends, name=str(corpus.path), format=format, columns=columns, first=block.first
        ):
            if sentence.cells:
                by_column = zip(*(word[:columns] for word in sentence.cells), strict=True)
                for texts, values in zip(cells, by_column, strict=True):
                    texts.append("\t".join(values))
                numbers.append(sentence.first + sentence.words[0])
    except DataError as error:
        return Parsed([[] for _ in cells], [], Tally(lines=len(lines)), str(error).splitlines(), [])
    return Parsed(cells, numbers, Tally(lines=len(lines)), [], [])


class _Decoded(NamedTuple):
    """The decoded lines of one file. Lines that are too long are replaced by empty ones; `long` holds their indices."""

    texts: list[str]
    long: set[int]
    invalid: dict[int, str]
    returns: int
    marks: int


class _Texts(NamedTuple):
    """The texts of every line, by column, and a message for each line that cannot be used, by its index."""

    columns: list[list[str]]
    malformed: dict[int, str]
    invalid: dict[int, str]
    skipped: Set[int] = frozenset()
    """Lines that are not rows: a header, and all lines of a CSV record but its first."""


def _decode(lines: list[bytes], *, path: Path, first: int, limit: int) -> _Decoded:
    is_any_long = max(map(len, lines), default=0) > limit
    long = {index for index, line in enumerate(lines) if len(line) > limit} if is_any_long else set()
    invalid: dict[int, str] = {}
    try:
        joined = b"\n".join(lines).decode()  # one call for the whole block, if it is valid
        texts, clean = joined.split("\n"), "\r" not in joined
        if long or len(texts) > len(lines):  # records of CSV may contain line breaks
            raise ValueError
    except ValueError:
        texts, clean = [], False
        for index, line in enumerate(lines):
            text, byte = decode(b"" if index in long else line)
            texts.append(text)
            if byte:
                start = line.rfind(b"\n", 0, byte - 1) + 1  # where its line starts within a record of CSV
                number = first + index + line.count(b"\n", 0, start)
                invalid[index] = f"{path}: {describe(number, byte - start, line[start:])}"
    marked = False
    if first == 1:
        texts[0], marked = strip_bom(texts[0])
    if clean:
        return _Decoded(texts, long, invalid, 0, int(marked))
    stripped = [strip_return(text) for text in texts]
    return _Decoded([text for text, _ in stripped], long, invalid, sum(cut for _, cut in stripped), int(marked))


def _columns(lines: _Decoded, corpus: TableCorpus, block: Block) -> _Texts:
    format, continuation = corpus.format, CONTINUATION.decode()
    (source, target), width = format.layout(block.head)
    skipped = {index for index, text in enumerate(lines.texts) if text == continuation}
    if format.has_header and block.first == 1:
        skipped.add(0)
    texts = _Texts([[], []], {}, {}, skipped)
    for index, text in enumerate(lines.texts):
        cells: list[str] = []
        if index not in skipped and text.strip():
            try:
                cells = format.cells(text)
                _refuse_width(cells, format=format, layout=Layout((source, target), width))
            except ValueError as error:
                cells = []
                texts.malformed[index] = f"{corpus.path}: line {block.first + index}: {error}"
        texts.columns[0].append(cells[source] if cells else "")
        texts.columns[1].append(cells[target] if cells else "")
    return texts


def _refuse_width(cells: Sequence[str], *, format: TableFormat, layout: Layout) -> None:
    """Raises a ValueError if a record has too few cells or, in CSV or below a header, not as many as line 1."""
    columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
    required = max(layout.indices) + 1
    if layout.width is not None and len(cells) != layout.width:
        advice = "; text that contains the delimiter or a line break must be quoted" if format.is_quoted else ""
        first = "the header" if format.has_header else "line 1"
        raise ValueError(f"found {columns} separated by {format.separator}, but {first} has {layout.width}{advice}")
    if len(cells) < required:
        other = ("tabs: is it TSV?", "\t") if format.is_quoted else ("commas: is it CSV?", ",")
        hint = f"; the line contains {other[0]}" if len(cells) == 1 and other[1] in cells[0] else ""
        raise ValueError(f"found {columns} separated by {format.separator}, expected at least {required}{hint}")


def _objects(lines: _Decoded, corpus: JsonlConfig, first: int) -> _Texts:
    texts = _Texts([[], []], {}, {})
    for index, text in enumerate(lines.texts):
        values = ["", ""]
        if text.strip():
            try:
                values = _object(text, keys=(corpus.source_key, corpus.target_key))
            except ValueError as error:
                texts.malformed[index] = f"{corpus.path}: line {first + index}: {error}"
        for column, value in zip(texts.columns, values, strict=True):
            if surrogate := _SURROGATE.search(value):
                texts.invalid.setdefault(
                    index, f"{corpus.path}: line {first + index}: U+{ord(surrogate[0]):04X} is a lone surrogate"
                )
            column.append(_SURROGATE.sub("\ufffd", value))
    return texts


def _object(text: str, *, keys: tuple[str, str]) -> list[str]:
    try:
        values = parse_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error.msg} at character {error.pos + 1}") from None
    if not isinstance(values, dict):
        raise ValueError(f"expected a JSON object, found {type(values).__name__}")
    return [_value(values, key=key) for key in keys]


def _value(values: dict[str, Any], *, key: str) -> str:
    """The text under a key of a JSON object. A key that it lacks is split at dots into the keys of nested objects."""
    nested: Any = values
    for part in (key,) if key in values else key.split("."):
        if not isinstance(nested, dict) or part not in nested:
            raise ValueError(f"no key {key!r} in the JSON object; its keys: {key_list(values)}")
        nested = nested[part]
    if not isinstance(nested, str):
        raise ValueError(f"{key!r} is not a string but {type(nested).__name__}")
    return nested


def key_list(values: dict[str, Any]) -> str:
    """The keys of a JSON object as text for messages; keys of nested objects are written as `outer.inner`."""
    nested = [f"{key}.{inner}" for key, value in values.items() if isinstance(value, dict) for inner in value]
    keys = [*(key for key, value in values.items() if not isinstance(value, dict)), *nested]
    return ", ".join(map(repr, keys[:8])) + (", …" if len(keys) > 8 else "") or "none"


def _join(
    texts: _Texts, optional: list[list[str]], *, files: Sequence[_Decoded], long: set[int], first: int, skip: bool
) -> Parsed:
    """The usable rows of `texts` and `optional`, and counts of the other rows; only `optional` texts may be empty."""
    count = len(texts.columns[0])
    unusable = long | texts.skipped | texts.malformed.keys() | (texts.invalid.keys() if skip else set())
    empty = {
        index
        for column in texts.columns
        if not all(column) or any(map(str.isspace, column))  # most blocks have no empty text
        for index, text in enumerate(column)
        if not text or text.isspace()
    } - unusable
    columns: list[list[str]] = [*texts.columns, *optional]
    lines: Sequence[int] = range(first, first + count)
    if left_out := unusable | empty:
        kept = [index not in left_out for index in range(count)]
        columns = [list(compress(column, kept)) for column in columns]
        lines = list(compress(lines, kept))
    tally = Tally(
        lines=count,
        empty=len(empty),
        long=len(long),
        invalid=len(texts.invalid.keys() - long),
        returns=sum(decoded.returns for decoded in files),
        marks=sum(decoded.marks for decoded in files),
    )
    return Parsed(columns, lines, tally, list(texts.malformed.values()), list(texts.invalid.values()))
