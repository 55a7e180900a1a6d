"""Parses manifests of recordings, and reports recordings that cannot be used."""

import json
import math
from typing import Any, NamedTuple

from calque.data.audio import Clip, clip_problem
from calque.data.audio_corpus import AUDIO_COLUMNS, AudioConfig
from calque.data.corpora import Block
from calque.data.lines import decode, describe
from calque.data.problems import refuse_binary
from calque.errors import DataError
from calque.parsing import parse_json
from calque.text.cleaning import strip_bom, strip_return


class Entry(NamedTuple):
    """One line of a manifest."""

    clip: Clip
    text: str
    speaker: str = ""


class ManifestRows(NamedTuple):
    """The usable entries of a block of a manifest, by column, and the problems of the others."""

    columns: list[list[str]]  # see `AUDIO_COLUMNS`
    lines: list[int]
    malformed: list[str]
    invalid: list[str]
    counts: dict[str, int]  # of `Tally`


def parse_manifest(block: Block, corpus: AudioConfig, *, limit: int, keep_empty: bool = False) -> ManifestRows:
    """The usable recordings of a block of a manifest, and the problems of the others.

    A line that is not a valid entry is malformed, which is always an error. Recordings that cannot be read, or are
    empty, are listed as invalid; `data.invalid` decides whether they are an error or are skipped. Every recording is
    decoded once to find them. Recordings without a transcript, such as silence, are left out unless `keep_empty`.
    """
    (lines,) = block.files
    if block.first == 1:
        refuse_binary(lines, path=corpus.path, rows="recording")
    header = table_header(block.head, corpus) if corpus.is_table else None
    folder = corpus.path.parent
    entries: list[tuple[Entry, int]] = []
    malformed: list[str] = []
    invalid: list[str] = []
    empty = long = returns = marks = 0
    for number, raw in enumerate(lines, start=block.first):
        if len(raw) > limit:
            long += 1
            continue
        text, byte = decode(raw)
        if byte:
            malformed.append(f"{corpus.path}: {describe(number, byte, raw)}")
            continue
        if number == 1:
            text, marked = strip_bom(text)
            marks += marked
        text, had_return = strip_return(text)
        returns += had_return
        if (number == 1 and header is not None) or not text.strip():
            empty += not text.strip()
            continue
        try:
            entry = _cells(text, header, corpus) if corpus.is_table else _object(text, corpus)
        except ValueError as error:
            malformed.append(f"{corpus.path}: line {number}: {error}")
            continue
        if not keep_empty and not entry.text.strip():
            empty += 1
        elif problem := clip_problem(entry.clip, folder=folder):
            invalid.append(f"{corpus.path}: line {number}: {problem}")
        else:
            entries.append((entry, number))
    cells = [
        (entry.clip.cell, entry.text, str(folder.absolute()), entry.speaker, f"{corpus.path}: line {number}")
        for entry, number in entries
    ]
    columns = [list(column) for column in zip(*cells, strict=True)] if cells else [[] for _ in AUDIO_COLUMNS]
    counts = {"empty": empty, "long": long, "invalid": len(invalid), "returns": returns, "marks": marks}
    return ManifestRows(columns, [number for _, number in entries], malformed, invalid, counts)


def table_header(head: bytes, corpus: AudioConfig) -> dict[str, int] | None:
    """The index of each column, by its name in the header; None if the table has no header."""
    text, _ = strip_bom(decode(head)[0])
    names = strip_return(text)[0].split("\t")
    if corpus.audio_key not in names:
        return None
    if corpus.text_key not in names:
        raise DataError(
            f"{corpus.path}: line 1: found the columns {', '.join(map(repr, names))}, but none named "
            f"{corpus.text_key!r}; set data.train.text_key to the name of the transcript's column"
        )
    return {name: place for place, name in enumerate(names)}


def _cells(text: str, header: dict[str, int] | None, corpus: AudioConfig) -> Entry:
    cells = text.split("\t")
    places = {corpus.audio_key: 0, corpus.text_key: 1} if header is None else header
    expected = 1 + max(places[corpus.audio_key], places[corpus.text_key])
    if len(cells) < expected:
        raise ValueError(f"found {len(cells)} columns separated by tabs, expected at least {expected}: audio and text")
    values = {name: cells[place] for name, place in places.items() if place < len(cells) and cells[place]}
    return _entry({corpus.text_key: "", **values}, corpus)


def _object(text: str, corpus: AudioConfig) -> Entry:
    try:
        values = parse_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error.msg} at character {error.pos + 1}") from None
    if not isinstance(values, dict):
        raise ValueError(f"expected a JSON object, found {type(values).__name__}")
    entry = _entry(values, corpus)
    if unknown := sorted(values.keys() - {corpus.audio_key, corpus.text_key, "start", "end", "speaker"}):
        raise ValueError(
            f"unknown key {unknown[0]!r}; expected {corpus.audio_key}, {corpus.text_key}, start, end and speaker"
        )
    return entry


def _entry(values: dict[str, Any], corpus: AudioConfig) -> Entry:
    for key in (corpus.audio_key, corpus.text_key):
        if key not in values:
            keys = ", ".join(map(repr, list(values)[:8])) or "none"
            raise ValueError(f"no key {key!r} in the JSON object; its keys: {keys}")
        if not isinstance(values[key], str):
            raise ValueError(f"the value of {key!r} is not text but {type(values[key]).__name__}")
    if not values[corpus.audio_key].strip() or "\0" in values[corpus.audio_key]:
        raise ValueError(
            f"the value of {corpus.audio_key!r} is not a file name: it is empty or contains a NUL character"
        )
    text = values[corpus.text_key]
    if any("\ud800" <= character <= "\udfff" for character in text + values[corpus.audio_key]):
        raise ValueError("the text or the file name contains a lone surrogate, which is not valid Unicode")
    start, end = (_seconds(values, key) for key in ("start", "end"))
    return Entry(Clip(values[corpus.audio_key], start, end), text, str(values.get("speaker") or ""))


def _seconds(values: dict[str, Any], key: str) -> float | None:
    value = values.get(key)
    if value is None or value == "":
        return None
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{key!r} is {str(value)[:20]!r}, expected a number of seconds")
    return seconds
