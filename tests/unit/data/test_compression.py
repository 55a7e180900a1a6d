"""Compressed files: the same bytes as the uncompressed file, damage named, and formats that cannot be read refused."""

import bz2
import gzip
import hashlib
import lzma
import os
import random
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.data.compression import SUFFIXES, unsupported
from calque.data.lines import file_lines, open_text
from calque.errors import DataError

LINES = b"".join(b"%d %s\n" % (number, hashlib.md5(b"%d" % number).digest().hex().encode()) for number in range(3000))


def zstd(data: bytes) -> bytes:
    """`data`, compressed by Python 3.14, by the package that reads it too, or by the program."""
    try:
        import zstandard

        return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))
    except ImportError:
        if not shutil.which("zstd"):
            pytest.skip("neither zstandard nor zstd is installed")
        return subprocess.run(["zstd", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def needs_zstandard() -> None:
    if sys.version_info < (3, 14):
        pytest.importorskip("zstandard")


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": zstd,
}


@pytest.fixture(params=PACKERS)
def format(request: pytest.FixtureRequest) -> str:
    if request.param == "zstd":
        needs_zstandard()
    return str(request.param)


def test_compressed_files_are_recognised_by_their_content(format: str, tmp_path: Path) -> None:
    """Also several streams in one file, an empty one among them, and zeros at the end; the digest is the file's."""
    pack, path = PACKERS[format], tmp_path / "plainly.txt"
    for content in (pack(LINES), pack(b"") + pack(LINES[:999]) + pack(LINES[999:]) + bytes(8)):
        path.write_bytes(content)
        digest = hashlib.sha256()
        assert b"".join(file_lines(path, limit=100, keep_ends=True, digest=digest)) == LINES
        assert digest.digest() == hashlib.sha256(content).digest()
    path.write_bytes(pack(b""))
    assert list(file_lines(path, limit=100)) == []


def test_damage_is_named_and_never_silent(format: str, tmp_path: Path) -> None:
    """Truncated at random, one bit flipped, or followed by something else; in the first or in the second stream."""
    path, generator = tmp_path / "damaged", random.Random(format)
    first = PACKERS[format](LINES[:50_000])
    whole = first + PACKERS[format](LINES[50_000:])
    damaged = [whole + b"garbage"]
    for _ in range(40):
        place = generator.randrange(12, len(whole))
        damaged.append(whole[:place] if place != len(first) else whole[:-1])
        damaged.append(whole[:place] + bytes([whole[place] ^ 1 << generator.randrange(8)]) + whole[place + 1 :])
    for content in damaged:
        path.write_bytes(content)
        try:
            lines = list(file_lines(path, limit=100, keep_ends=True))
        except DataError as error:
            assert f"{path}: damaged {format} after line " in str(error)
        else:  # such as a flipped bit in the time that gzip records
            assert b"".join(lines) == LINES


def test_a_pipe_may_be_compressed(format: str) -> None:
    read, write = os.pipe()
    sent = PACKERS[format](LINES)

    def feed() -> None:
        with open(write, "wb", buffering=0) as out:  # noqa: PTH123 - a descriptor
            for start in range(0, len(sent), 701):
                out.write(sent[start : start + 701])

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    with open_text(Path(f"/dev/fd/{read}")) as stream:
        assert stream.read() == LINES
    thread.join()
    os.close(read)


def test_a_line_that_expands_a_thousandfold_is_never_held_in_memory(format: str, tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(PACKERS[format](bytes(24 << 20)))
    tracemalloc.start()
    try:
        assert [len(line) for line in file_lines(path, limit=100)] == [101]
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b"BZh9 is a magic number", b"\xfd7z", b"(", b"Pa\n", b"BZh91AY&SX"])
def test_text_that_begins_like_a_compressed_file_is_text(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text.xz"
    path.write_bytes(text)
    assert list(file_lines(path, limit=100)) == [text.rstrip(b"\n")]
    assert unsupported(path) is None


def test_zstandard_without_its_package_and_archives_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    contents = {"a.zst": b"\x28\xb5\x2f\xfd rest", "b.zst": b"\x50\x2a\x4d\x18 rest", "c.zip": b"PK\x03\x04 rest"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        expected = "extract it first: unzip" if name == "c.zip" else r"pip install zstandard.*zstd -d"
        with pytest.raises(DataError, match=rf"{name}: .*{expected} {tmp_path / name}"):
            list(file_lines(tmp_path / name, limit=100))
        assert unsupported(tmp_path / name)


def test_the_usual_suffixes() -> None:
    assert SUFFIXES == (".gz", ".xz", ".bz2", ".zst")
