"""Tokenizers on disk, as plain files.

`tokenizer.json` lists the kind and the file of each column's tokenizer, and the SHA-256 of each file. For sentencepiece
the files are `source.model` and `target.model`, or `joint.model` if both sides share a tokenizer; for all other kinds
the suffix is `.vocabulary`, and the file has one JSON string per line. In format 1, the only columns were source and
target, and both had the same kind of tokenizer.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from calque.config import Config
from calque.errors import TextError
from calque.parsing import parse_json
from calque.text.bytes import BytesTokenizer
from calque.text.characters import CharactersTokenizer
from calque.text.sentencepiece import SentencePieceTokenizer
from calque.text.tokenizer import Tokenizer, Tokenizers
from calque.text.tokens import TokensTokenizer
from calque.text.words import WordsTokenizer

FORMAT = 2
DESCRIPTION = "tokenizer.json"
_KINDS: dict[str, type[Tokenizer]] = {
    kind.kind: kind
    for kind in (SentencePieceTokenizer, TokensTokenizer, WordsTokenizer, CharactersTokenizer, BytesTokenizer)
}


KindName = Literal["sentencepiece", "tokens", "words", "characters", "bytes"]


class _Column(Config):
    kind: KindName
    file: str


class _Description(Config):
    format: int
    columns: dict[str, _Column]
    files: dict[str, str]


class _EarlierDescription(Config):
    format: int
    kind: KindName
    joint: bool
    files: dict[str, str]

    def upgraded(self) -> _Description:
        """This description of a tokenizer folder, converted from format 1 to the current format."""
        suffix = _KINDS[self.kind].suffix
        names = {side: f"{'joint' if self.joint else side}.{suffix}" for side in ("source", "target")}
        columns = {side: _Column(kind=self.kind, file=name) for side, name in names.items()}
        return _Description(format=FORMAT, columns=columns, files=self.files)


def save_columns(tokenizers: Mapping[str, Tokenizer], folder: Path) -> None:
    """Writes the tokenizer of each column into the folder, which is created if necessary.

    A tokenizer that several columns share is written once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[int, str] = {}
    columns, files = {}, {}
    for column, tokenizer in tokenizers.items():
        is_shared = sum(other is tokenizer for other in tokenizers.values()) > 1
        name = names.setdefault(id(tokenizer), f"{'joint' if is_shared else column}.{tokenizer.suffix}")
        columns[column] = {"kind": tokenizer.kind, "file": name}
        if name not in files:
            content = tokenizer.to_bytes()
            (folder / name).write_bytes(content)
            files[name] = _hash(content)
    values = {"format": FORMAT, "columns": columns, "files": files}
    (folder / DESCRIPTION).write_text(json.dumps(values, indent=2) + "\n", encoding="ascii", newline="\n")


def load_columns(folder: Path) -> dict[str, Tokenizer]:
    """The tokenizer of each column. Raises a TextError that names a missing, damaged or unsupported file."""
    description = _describe(folder / DESCRIPTION)
    named = {column.file for column in description.columns.values()}
    if named != set(description.files) or any(Path(name).name != name for name in named):
        raise TextError(
            f"{folder / DESCRIPTION}: damaged: its columns use the files {' and '.join(sorted(named))}, which must be "
            "plain file names and the only names listed under files"
        )
    loaded: dict[str, Tokenizer] = {}
    for column in description.columns.values():
        if column.file not in loaded:
            kind, expected = _KINDS[column.kind], description.files[column.file]
            loaded[column.file] = _load(kind, path=folder / column.file, expected=expected)
    return {name: loaded[column.file] for name, column in description.columns.items()}


def save_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Writes the tokenizers of source and target."""
    save_columns(tokenizers._asdict(), folder)


def load_tokenizers(folder: Path) -> Tokenizers:
    """The tokenizers of source and target."""
    columns = load_columns(folder)
    if set(columns) != {"source", "target"}:
        raise TextError(f"{folder}: found tokenizers for {' and '.join(sorted(columns))}; expected source and target")
    return Tokenizers(**columns)


def load_tokenizer(folder: Path, *, column: str) -> Tokenizer:
    """The tokenizer of one column. If there is none for the column `text`, the target's tokenizer is returned."""
    columns = load_columns(folder)
    for name in (column, "target") if column == "text" else (column,):
        if name in columns:
            return columns[name]
    raise TextError(f"{folder}: found tokenizers for {' and '.join(sorted(columns))}, but none for {column}")


def _describe(path: Path) -> _Description:
    try:
        values = parse_json(_read(path))
        found = values["format"]
        if found == FORMAT:
            return _Description.model_validate(values)
        if found == 1:
            return _EarlierDescription.model_validate(values).upgraded()
    except (ValueError, KeyError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise TextError(f"{path}: damaged: {reason}") from None
    raise TextError(f"{path}: format {found!r}, but this version of Calque reads formats 1 to {FORMAT}")


def _load(kind: type[Tokenizer], *, path: Path, expected: str) -> Tokenizer:
    content = _read(path)
    if _hash(content) != expected:
        raise TextError(f"{path}: damaged: its SHA-256 differs from that in {DESCRIPTION}")
    try:
        return kind.from_bytes(content)
    except TextError as error:
        raise TextError(f"{path}: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TextError(f"{path}: {error.strerror or error}") from None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
