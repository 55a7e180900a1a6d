"""Lines: split at newlines only, truncated in bounded memory, invalid bytes reported (P12, P13, P14)."""

import gzip
import io
import os
import threading
import tracemalloc
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.data.lines import Line, file_lines, line_lists, open_text, raw_lines, read_lines
from calque.errors import DataError

BREAKS = "\u2028\u2029\x0b\x0c\x1c\x1d\x1e\x85\r"


def lines(data: bytes, *, limit: int = 1000, invalid: str = "replace") -> list[Line]:
    return list(read_lines(io.BytesIO(data), limit_bytes=limit, name="in", invalid=invalid))  # type: ignore[arg-type]


@given(st.lists(st.text(alphabet=st.one_of(st.sampled_from(BREAKS), st.characters(codec="utf-8"))), max_size=8))
def test_only_newlines_end_lines(texts):
    texts = [text.replace("\n", "").strip("\ufeff\r") for text in texts]
    result = lines("".join(text + "\n" for text in texts).encode(), limit=10_000)
    assert [line.text for line in result] == texts
    assert [line.number for line in result] == list(range(1, len(texts) + 1))
    assert not any(line.cut or line.invalid for line in result)


@given(st.binary(max_size=60), st.integers(1, 12))
def test_every_input_line_gives_one_line(data, limit):
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    result = lines(data, limit=limit)
    assert len(result) == len(expected)
    for line, raw in zip(result, expected, strict=True):
        assert line.cut == (len(raw) > limit)
        assert len(line.text.encode("utf-8", "replace")) <= 3 * limit


@given(st.binary(max_size=60), st.integers(1, 12))
def test_raw_lines_are_truncated_one_byte_beyond_the_limit(data, limit):
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert list(raw_lines(io.BytesIO(data), limit=limit)) == [line[: limit + 1] for line in expected]


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n"]), max_size=40).map(b"".join), st.data())
def test_lists_of_lines_equal_the_lines_one_by_one(text, data):
    """However the stream is divided into chunks: within a line, at its end, within what is cut off."""
    limit, chunk = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calque.data.lines._CHUNK", chunk)
        lists = list(line_lists(io.BytesIO(text), limit=limit))
    assert all(lists)
    assert [line for lines in lists for line in lines] == list(raw_lines(io.BytesIO(text), limit=limit))


def test_a_very_long_line_is_read_in_linear_time_and_bounded_memory():
    text = b"x" * 40_000_000 + b"\nshort\n"
    tracemalloc.start()
    assert [len(line) for lines in line_lists(io.BytesIO(text), limit=1000) for line in lines] == [1001, 5]
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert [len(line) for lines in line_lists(io.BytesIO(text), limit=50_000_000) for line in lines] == [40_000_000, 5]


@given(st.binary(max_size=60), st.integers(1, 12))
def test_ends_that_are_kept_are_all_that_was_missing(data, limit):
    with_ends = list(raw_lines(io.BytesIO(data), limit=limit, keep_ends=True))
    assert [line.removesuffix(b"\n") for line in with_ends] == list(raw_lines(io.BytesIO(data), limit=limit))
    assert b"".join(raw_lines(io.BytesIO(data), limit=60, keep_ends=True)) == data


def test_carriage_returns_and_the_byte_order_mark_are_stripped():
    result = lines("\ufeffa\r\n\ufeffb\rc\r\nd".encode())
    assert [line.text for line in result] == ["a", "\ufeffb\rc", "d"]


def test_a_truncated_line_ends_with_a_whole_character():
    result = lines("ääää\nb".encode(), limit=5)
    assert [(line.text, line.cut, line.invalid) for line in result] == [("ää", True, None), ("b", False, None)]


def test_invalid_bytes_by_policy():
    data = b"good\nb\xffd\n"
    assert lines(data)[1] == Line("b\ufffdd", 2, False, 2)
    assert lines(data, invalid="skip")[1] == Line("", 2, False, 2)
    with pytest.raises(DataError, match=r"in: line 2, byte 2: 0xff"):
        lines(data, invalid="fail")


def test_a_line_of_ten_megabytes_is_never_held_in_memory():
    class Long(io.RawIOBase):
        remaining = 10 << 20

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            count = min(len(buffer), self.remaining)
            buffer[:count] = b"x" * count
            self.remaining -= count
            return count

    tracemalloc.start()
    try:
        stream = cast(BinaryIO, io.BufferedReader(Long()))
        result = list(read_lines(stream, limit_bytes=1000, name="in", invalid="fail"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result == [Line("x" * 1000, 1, True, None)]
    assert peak < 1 << 20


def test_a_line_is_returned_before_the_stream_ends():
    read, write = os.pipe()
    with open(read, "rb") as stream, open(write, "wb", buffering=0) as out:  # noqa: PTH123 - descriptors
        out.write(b"first\nsec")
        incoming = read_lines(stream, limit_bytes=100, name="in", invalid="fail")
        received: list[Line] = []
        thread = threading.Thread(target=lambda: received.append(next(incoming)))
        thread.start()
        thread.join(timeout=5)
        assert [line.text for line in received] == ["first"]
        out.write(b"ond\n")
        assert next(incoming).text == "second"


def test_gzip_is_recognised_by_its_content(tmp_path: Path):
    path = tmp_path / "plainly.txt"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    assert list(file_lines(path, limit=10)) == [b"a", b"b"]
    assert list(file_lines(path, limit=10, keep_ends=True)) == [b"a\n", b"b\n"]
    with open_text(path) as stream:
        assert stream.read() == b"a\nb\n"
    path = tmp_path / "not.gz"
    path.write_bytes(b"a\n")
    assert list(file_lines(path, limit=10)) == [b"a"]


def test_damaged_and_missing_files_are_reported_by_name(tmp_path: Path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"a\n" * 100_000)[:-20])
    with pytest.raises(DataError, match=r"cut\.gz: damaged gzip after line \d+"):
        list(file_lines(path, limit=10))
    with pytest.raises(DataError, match=r"nowhere: No such file"):
        list(file_lines(tmp_path / "nowhere", limit=10))


@pytest.mark.parametrize("size", [1, 2, 3, 5000, 1 << 20])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("data", [b"", b"a", b"\x1f", b"\x1f\x8b", b"b\n" * 60_000], ids=len)
def test_every_byte_of_a_pipe_is_read_once(data: bytes, packed: bool, size: int):
    """As with a shell's `<(...)`; the bytes arrive one by one or in chunks."""
    sent = gzip.compress(data) if packed else data
    read, write = os.pipe()

    def feed() -> None:
        with open(write, "wb", buffering=0) as out:  # noqa: PTH123 - a descriptor
            for start in range(0, 60 * size, size):
                out.write(sent[start : start + size])
            out.write(sent[60 * size :])

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    with open_text(Path(f"/dev/fd/{read}")) as stream:
        assert stream.read() == data
    thread.join()
    os.close(read)


def test_a_line_of_a_named_pipe_is_returned_before_its_end(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received, has_read, may_continue = [], threading.Event(), threading.Event()

    def read() -> None:
        with open_text(pipe) as stream:
            received.append(stream.readline())
            has_read.set()
            may_continue.wait()
            received.append(stream.read())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    with pipe.open("wb", buffering=0) as out:
        out.write(b"a\n")
        assert has_read.wait(timeout=30)
        out.write(b"b")
    may_continue.set()
    thread.join()
    assert received == [b"a\n", b"b"]


def test_a_file_is_closed_with_its_stream(tmp_path: Path):
    path = tmp_path / "file"
    for content in (b"a\n", gzip.compress(b"a\n")):
        path.write_bytes(content)
        before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - the names alone
        with open_text(path) as stream:
            stream.readline()
        assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
