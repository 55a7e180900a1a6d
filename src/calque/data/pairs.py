r"""Pairs of text out of blocks of raw lines, and a tally of what could not be used."""

import json
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple, assert_never

from calque.data.corpora import Block, Corpus, FilesConfig, JsonlConfig, TsvConfig
from calque.data.lines import Invalid, decode, describe
from calque.errors import DataError
from calque.text.cleaning import strip_bom, strip_return

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 10


class Pair(NamedTuple):
    """A source text, its target, and the line they stand in."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What was read, and what of it could not be used."""

    lines: int = 0
    empty: int = 0
    """Pairs with nothing on a side."""
    long: int = 0
    """Pairs with a side that is too long."""
    invalid: int = 0
    """Pairs with a side that is not UTF-8: left out, or mended where that was asked."""
    returns: int = 0
    r"""Lines that ended in "\r\n"."""
    marks: int = 0
    """Byte order marks."""

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


class Parsed(NamedTuple):
    """What a block holds."""

    pairs: list[Pair]
    tally: Tally
    malformed: list[str]
    """File, line and what is wrong with the TSV or JSON there."""
    invalid: list[str]
    """File, line and byte of what is not UTF-8."""


def refuse(problems: Sequence[str], *, more: int = 0) -> None:
    """Raises a DataError that shows the problems, if there are any; `more` were found and not kept."""
    if problems:
        hidden = len(problems) - _SHOWN + more if len(problems) > _SHOWN else more
        rest = [f"… and {hidden:,} more"] if hidden > 0 else []
        raise DataError("\n".join([*problems[:_SHOWN], *rest]))


def parse(block: Block, *, corpus: Corpus, invalid: Invalid, limit: int) -> Parsed:
    """The usable pairs of a block, and what was wrong with the others; one of more than `limit` bytes is too long."""
    match corpus:
        case FilesConfig():
            source = _decode(block.source, path=corpus.source, first=block.first, limit=limit)
            target = _decode(block.target, path=corpus.target, first=block.first, limit=limit)
            sides = _Sides(source.texts, target.texts, {}, source.invalid | target.invalid)
            read, long = [source, target], source.long | target.long
        case TsvConfig() | JsonlConfig():
            lines = _decode(block.source, path=corpus.path, first=block.first, limit=limit)
            sides = (
                _columns(lines, corpus, block.first)
                if isinstance(corpus, TsvConfig)
                else _objects(lines, corpus, block.first)
            )
            read, long = [lines], lines.long
        case _:
            assert_never(corpus)
    return _join(sides, read=read, long=long, first=block.first, skip=invalid != "replace")


class _Decoded(NamedTuple):
    """Lines of one file; those at `long` are empty."""

    texts: list[str]
    long: set[int]
    invalid: dict[int, str]
    returns: int
    marks: int


class _Sides(NamedTuple):
    sources: list[str]
    targets: list[str]
    malformed: dict[int, str]
    invalid: dict[int, str]


def _decode(lines: list[bytes], *, path: Path, first: int, limit: int) -> _Decoded:
    long = {index for index, line in enumerate(lines) if len(line) > limit}
    invalid: dict[int, str] = {}
    try:
        if long:
            raise ValueError
        joined = b"\n".join(lines).decode()  # one call for a block, where all is well
        texts, clean = joined.split("\n"), "\r" not in joined
    except ValueError:
        texts, clean = [], False
        for index, line in enumerate(lines):
            text, byte = decode(b"" if index in long else line)
            texts.append(text)
            if byte:
                invalid[index] = f"{path}: {describe(first + index, byte, line)}"
    marked = False
    if first == 1:
        texts[0], marked = strip_bom(texts[0])
    if clean:
        return _Decoded(texts, long, invalid, 0, int(marked))
    stripped = [strip_return(text) for text in texts]
    return _Decoded([text for text, _ in stripped], long, invalid, sum(cut for _, cut in stripped), int(marked))


def _columns(lines: _Decoded, corpus: TsvConfig, first: int) -> _Sides:
    sides = _Sides([], [], {}, dict(lines.invalid))
    most = max(corpus.source_column, corpus.target_column)
    for index, text in enumerate(lines.texts):
        cells = text.split("\t")
        if len(cells) < most:
            if text.strip():
                sides.malformed[index] = (
                    f"{corpus.path}: line {first + index}: {len(cells)} columns between tabs, expected at least {most}"
                )
            cells = [""] * most
        sides.sources.append(cells[corpus.source_column - 1])
        sides.targets.append(cells[corpus.target_column - 1])
    return sides


def _objects(lines: _Decoded, corpus: JsonlConfig, first: int) -> _Sides:
    sides = _Sides([], [], {}, dict(lines.invalid))
    for index, text in enumerate(lines.texts):
        texts = ["", ""]
        if text.strip():
            try:
                texts = _object(text, keys=(corpus.source_key, corpus.target_key))
            except (ValueError, RecursionError) as error:
                sides.malformed[index] = f"{corpus.path}: line {first + index}: {error}"
        for place, value in enumerate(texts):
            if found := _SURROGATE.search(value):
                sides.invalid.setdefault(
                    index, f"{corpus.path}: line {first + index}: U+{ord(found[0]):04X} is half a character"
                )
                texts[place] = _SURROGATE.sub("\ufffd", value)
        sides.sources.append(texts[0])
        sides.targets.append(texts[1])
    return sides


def _object(text: str, *, keys: tuple[str, str]) -> list[str]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    if not isinstance(values, dict):
        raise ValueError(f"expected a JSON object, found {type(values).__name__}")
    for key in keys:
        if key not in values:
            raise ValueError(f"no key {key!r}; found {', '.join(map(repr, list(values)[:8])) or 'none'}")
        if not isinstance(values[key], str):
            raise ValueError(f"{key!r} is not a string but {type(values[key]).__name__}")
    return [values[key] for key in keys]


def _join(sides: _Sides, *, read: Sequence[_Decoded], long: set[int], first: int, skip: bool) -> Parsed:
    pairs: list[Pair] = []
    empty = 0
    unusable = long | sides.malformed.keys() | (sides.invalid.keys() if skip else set())
    for index, (source, target) in enumerate(zip(sides.sources, sides.targets, strict=True)):
        if index in unusable:
            continue
        if not source or not target or source.isspace() or target.isspace():
            empty += 1
        else:
            pairs.append(Pair(source, target, first + index))
    tally = Tally(
        lines=len(sides.sources),
        empty=empty,
        long=len(long),
        invalid=len(sides.invalid.keys() - long),
        returns=sum(side.returns for side in read),
        marks=sum(side.marks for side in read),
    )
    return Parsed(pairs, tally, list(sides.malformed.values()), list(sides.invalid.values()))
