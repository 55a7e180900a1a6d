"""Corpus configs for files of behaviour sequences on a command line: plain text or, by their suffix, JSON records."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calque.data.sequence_files import SequenceCorpus

Paths = list[Path] | None


def sequence_corpus(path: Path) -> dict[str, Any]:
    """The config values of a file of behaviour sequences; times and behaviours are read if the first record has any."""
    if not is_records(path):
        return {"kind": "sequences", "path": str(path)}
    keys = {f"{name}_key": name for name in ("times", "behaviours") if name in _first_keys(path)}
    return {"kind": "sequence-records", "path": str(path), **keys}


def checked_corpus(path: Path) -> "SequenceCorpus":
    """The corpus config of a file of behaviour sequences, validated; see `sequence_corpus`."""
    from calque.data.sequence_files import SequenceRecordsConfig, SequencesConfig

    values = sequence_corpus(path)
    kind = SequenceRecordsConfig if values["kind"] == "sequence-records" else SequencesConfig
    return kind.model_validate(values)


def is_records(path: Path) -> bool:
    """Whether a file contains JSON records, judging by the suffix of its name."""
    from calque.data.compression import SUFFIXES

    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in SUFFIXES]
    return bool(suffixes) and suffixes[-1] in (".jsonl", ".json", ".ndjson")


def _first_keys(path: Path) -> set[str]:
    """The keys of a file's first JSON record; empty if it cannot be read, which data preparation reports later."""
    from calque.data.lines import path_lines
    from calque.data.sequence_files import LINE_BYTES
    from calque.parsing import parse_json

    if not path.is_file():
        return set()
    for line in path_lines(path, limit=LINE_BYTES, invalid="replace"):
        if line.text.strip():
            try:
                record = parse_json(line.text)
            except ValueError:
                return set()
            return set(record) if isinstance(record, dict) else set()
    return set()
