"""Journals: no line is lost or doubled, and every float reads back to the same bits."""

import errno
import json
import math
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calque.errors import FolderError
from calque.training.journal import Journal, read_journal

per_test = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return [bits(item) for item in value] if isinstance(value, list) else value


values = st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.lists(st.floats()))
texts = st.text(st.characters(exclude_categories=[])).filter(lambda text: text not in {"NaN", "Infinity", "-Infinity"})


@per_test
@given(lines=st.lists(st.dictionaries(st.text(), values | texts)))
def test_lines_come_back_to_the_bit(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for line in lines:
            journal.append(line)
        assert journal.position == path.stat().st_size
    read = read_journal(path)
    assert [[(key, bits(value)) for key, value in line.items()] for line in read] == [
        [(key, bits(value)) for key, value in line.items()] for line in lines
    ]


def test_every_line_is_strict_json(tmp_path: Path) -> None:
    with Journal(tmp_path / "metrics.jsonl") as journal:
        journal.append({"loss": math.nan, "all": (math.inf, {"low": -math.inf}), "text": "a\nb\u2028c"})
    line = (tmp_path / "metrics.jsonl").read_text()
    assert line == '{"loss":"NaN","all":["Infinity",{"low":"-Infinity"}],"text":"a\\nb\\u2028c"}\n'

    def refuse(name: str) -> None:
        raise ValueError(name)

    json.loads(line, parse_constant=refuse)
    assert read_journal(tmp_path / "metrics.jsonl")[0]["all"] == [math.inf, {"low": -math.inf}]


@per_test
@given(st.lists(st.integers(), max_size=6), st.lists(st.integers(), max_size=6), st.binary(max_size=20))
def test_cutting_back_and_repeating_gives_the_uninterrupted_bytes(
    tmp_path: Path, before: list[int], after: list[int], torn: bytes
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for step in before:
            journal.append({"step": step})
        position = journal.position
        for step in after:
            journal.append({"step": step})
    expected = path.read_bytes()
    with path.open("ab") as file:
        file.write(torn)
    with Journal(path) as journal:
        journal.cut(position)
        assert journal.position == position
        for step in after:
            journal.append({"step": step})
    assert path.read_bytes() == expected


def test_a_shorter_journal_or_a_changed_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with Journal(path) as journal:
        journal.append({"step": 1})
        position = journal.position
        with pytest.raises(FolderError, match=f"has {position} bytes, but the checkpoint recorded {position + 1}"):
            journal.cut(position + 1)
        with pytest.raises(FolderError, match=f"no line ends at byte {position - 3}"):
            journal.cut(position - 3)
        with pytest.raises(FolderError, match="no line ends at byte -1"):
            journal.cut(-1)
    assert read_journal(path) == [{"step": 1}]


def test_a_torn_last_line_is_cut_on_opening_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1}\n' + b'{"step":"' + b"x" * 200_000)
    assert read_journal(path) == [{"step": 1}]
    with Journal(path) as journal:
        journal.append({"step": 2})
    assert read_journal(path) == [{"step": 1}, {"step": 2}]


def test_a_damaged_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for line in (b"{", b"[]", b"\xff", b""):
        path.write_bytes(b'{"step":1}\n' + line + b'\n{"step":3}\n')
        with pytest.raises(FolderError, match=r"metrics\.jsonl, line 2"):
            read_journal(path)
    assert read_journal(tmp_path / "none") == []


def test_damaged_lines_after_the_durable_part_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first, last = b'{"step":1}\n', b'{"step":3}\n'
    for line in (b"\0" * 9, b"{", b"[]", b"", b'{"step":"x"}'):
        path.write_bytes(first + line + b"\n" + last)
        for durable in (0, len(first)):
            assert read_journal(path, counts=("step",), durable=durable) == [{"step": 1}, {"step": 3}]
        with pytest.raises(FolderError, match=r"metrics\.jsonl, line 2"):
            read_journal(path, counts=("step",), durable=len(first) + 1)


def test_a_full_disk_keeps_whole_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path) as journal:
        journal.append({"step": 1})
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))  # half of the second line fits
            with pytest.raises(FolderError, match="its lines so far are intact: the disk is full"):
                journal.append({"step": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.read_bytes() == b'{"step":1}\n'
        journal.append({"step": 2})
    assert read_journal(path) == [{"step": 1}, {"step": 2}]


def test_a_failing_fsync_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Journal(tmp_path / "metrics.jsonl") as journal:
        journal.sync()
        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(FolderError, match="Input/output error"):
            journal.sync()


KILLED = """
import os, signal, sys
from pathlib import Path
from calque.training.journal import Journal
journal = Journal(Path(sys.argv[1]))
for step in range(50):
    journal.append({"step": step})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_loses_no_line(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "metrics.jsonl")], check=False)
    assert read_journal(tmp_path / "metrics.jsonl") == [{"step": step} for step in range(50)]
