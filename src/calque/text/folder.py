"""Tokenizers on disk, as plain files.

`tokenizer.json` says format, kind, whether joint, and the SHA-256 of each file beside it: `joint.model`, or
`source.model` and `target.model`, for sentencepiece; for all other kinds the same names with `.vocabulary`, which
holds one JSON string a line.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from calque.config import Config
from calque.errors import TextError
from calque.text.bytes import BytesTokenizer
from calque.text.characters import CharactersTokenizer
from calque.text.sentencepiece import SentencePieceTokenizer
from calque.text.tokenizer import Tokenizer, Tokenizers
from calque.text.tokens import TokensTokenizer
from calque.text.words import WordsTokenizer

FORMAT = 1
DESCRIPTION = "tokenizer.json"
_KINDS: dict[str, type[Tokenizer]] = {
    kind.kind: kind
    for kind in (SentencePieceTokenizer, TokensTokenizer, WordsTokenizer, CharactersTokenizer, BytesTokenizer)
}


class _Description(Config):
    format: int
    kind: Literal["sentencepiece", "tokens", "words", "characters", "bytes"]
    joint: bool
    files: dict[str, str]


def save_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Writes the tokenizers into the folder, which is made where it is missing."""
    kind = type(tokenizers.source)
    if type(tokenizers.target) is not kind:
        raise TypeError("both sides have the same kind of tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, tokenizer in zip(_names(kind, joint=tokenizers.joint), tokenizers, strict=False):
        content = tokenizer.to_bytes()
        (folder / name).write_bytes(content)
        files[name] = _hash(content)
    values = {"format": FORMAT, "kind": kind.kind, "joint": tokenizers.joint, "files": files}
    (folder / DESCRIPTION).write_text(json.dumps(values, indent=2) + "\n", encoding="ascii", newline="\n")


def load_tokenizers(folder: Path) -> Tokenizers:
    """The tokenizers saved in the folder; a TextError names the file that is missing, damaged or of another format."""
    description = _describe(folder / DESCRIPTION)
    kind = _KINDS[description.kind]
    names = _names(kind, joint=description.joint)
    if sorted(description.files) != sorted(names):
        raise TextError(f"{folder / DESCRIPTION}: damaged: it should list {' and '.join(names)}")
    loaded = [_load(kind, path=folder / name, expected=description.files[name]) for name in names]
    return Tokenizers(source=loaded[0], target=loaded[-1])


def _describe(path: Path) -> _Description:
    try:
        values = json.loads(_read(path))
        found = values["format"]
        if found == FORMAT:
            return _Description.model_validate(values)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise TextError(f"{path}: damaged: {reason}") from None
    raise TextError(f"{path}: format {found!r}, but this version of Calque reads format {FORMAT}")


def _load(kind: type[Tokenizer], *, path: Path, expected: str) -> Tokenizer:
    content = _read(path)
    if _hash(content) != expected:
        raise TextError(f"{path}: damaged: it is not the file that {DESCRIPTION} describes")
    try:
        return kind.from_bytes(content)
    except TextError as error:
        raise TextError(f"{path}: {error}") from None


def _names(kind: type[Tokenizer], *, joint: bool) -> list[str]:
    return [f"{side}.{kind.suffix}" for side in (["joint"] if joint else ["source", "target"])]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TextError(f"{path}: {error.strerror or error}") from None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
