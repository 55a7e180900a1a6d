"""Reads and writes text, JSON and JSON lines; a file is written completely or not at all."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calque.data.lines import open_text


def read_lines(path: Path) -> list[str]:
    """All lines of a text file, plain or gzip, without line ends; only a line feed ends a line."""
    with open_text(path) as file:
        return [line.decode("utf-8").rstrip("\r\n") for line in file]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines of text."""
    _replace(path, "".join(f"{line}\n" for line in lines))


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_bytes())


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON; a list of numbers or strings stays on one line."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    joined = re.sub(r"\[\n[^\[\]{}]*\]", lambda part: re.sub(r"\n *", " ", part[0]), text)
    _replace(path, joined + "\n")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, without a truncated last line; none if the file does not exist."""
    if not path.exists():
        return []
    complete, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in complete.split("\n") if line]


def append_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Appends rows to a file of JSON lines; a truncated last line is dropped."""
    _replace(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*read_jsonl(path), *rows]))


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
