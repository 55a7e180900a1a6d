"""The command as a process: pipes that stay open, pipes that close, and a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from calque.config import values_to_toml
from tests.conftest import environment, toy_corpus, toy_values

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "calque", "translate"]


def test_translations_come_before_standard_input_closes(trained: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, str(trained)], env=environment(), **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in (b"a b c\n", b"h g\n", b"\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert process.stdout.readline() == text
        process.stdin.write(b"d e")  # the last line has no end
        process.stdin.close()
        assert process.stdout.read() == b"d e\n"
        assert process.wait(timeout=60) == 0


def test_a_reader_that_leaves_is_not_a_crash(trained: Path, tmp_path: Path) -> None:
    """`calque translate … | head -1`, from a file and from a pipe that is still open."""
    (tmp_path / "many").write_text("a b c\n" * 5000, encoding="utf-8")
    for options in (["--input", str(tmp_path / "many")], []):
        reading, writing = os.pipe()
        source, feed = os.pipe()
        process = subprocess.Popen(
            [*COMMAND, str(trained), "--beam", "1", *options],
            stdin=source,
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        os.close(writing)
        os.close(source)
        os.write(feed, b"a b c\n")
        assert os.read(reading, 6) == b"a b c\n"
        os.close(reading)
        if not options:
            os.write(feed, b"a b c\n" * 10)
        _, err = process.communicate(timeout=120)
        os.close(feed)
        assert b"Traceback" not in err
        assert b"Fatal" not in err
        assert b"Exception ignored" not in err
        assert process.returncode == 141, "as for any program that SIGPIPE ends"


def test_a_full_device_is_one_message(trained: Path) -> None:
    env = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, str(trained)], input=b"a b\n", stdout=full, stderr=subprocess.PIPE, env=env, timeout=120
        )
    assert (done.returncode, done.stderr) == (1, b"calque: standard output: No space left on device\n")


def _read_until(terminal: int, text: bytes, *, seconds: float = 90) -> bytes:
    read, deadline = b"", time.monotonic() + seconds
    while text not in read:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        assert ready, f"{text!r} did not come: {read!r}"
        read += os.read(terminal, 4096)
    return read


def test_at_a_terminal_it_is_a_conversation(trained: Path) -> None:
    terminal, inside = pty.openpty()
    process = subprocess.Popen([*COMMAND, str(trained)], stdin=inside, stdout=inside, stderr=inside, env=environment())
    os.close(inside)
    try:
        _read_until(terminal, b"> ")
        os.write(terminal, b"a b c\n")
        assert b"\na b c\r\n" in _read_until(terminal, b"\na b c\r\n> ")
        os.write(terminal, b"\xff\xfe\n")  # not UTF-8: reported, and the conversation goes on
        _read_until(terminal, b"> ")
        os.write(terminal, b"h g\n")
        _read_until(terminal, b"\nh g\r\n> ")
        os.write(terminal, b"\x04")  # Ctrl-D
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_a_conversation_follows_all_options(trained: Path, tmp_path: Path) -> None:
    """Terms, marks, forbidden words and formats hold at a terminal as they do for a file."""
    (tmp_path / "terms").write_text("a\th h\n", encoding="utf-8")
    (tmp_path / "forbid").write_text("c\n", encoding="utf-8")
    options = [
        "--terms",
        str(tmp_path / "terms"),
        "--forbid",
        str(tmp_path / "forbid"),
        "--inline",
        "--format",
        "jsonl",
    ]
    terminal, inside = pty.openpty()
    with (tmp_path / "out").open("wb") as out:
        command = [*COMMAND, str(trained), *options]
        process = subprocess.Popen(command, stdin=inside, stdout=out, stderr=inside, env=environment())
    os.close(inside)
    try:
        _read_until(terminal, b"Ctrl-D ends.")
        os.write(terminal, b'</term>\na <term target="g g">b</term> c\n\x04')
        _read_until(terminal, b"before this </term>")  # reported, and the conversation goes on
        assert process.wait(timeout=60) == 0
        (row,) = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
        best = row["candidates"][0]["text"]
        assert row["source"] == "a b c"
        assert "h h" in best
        assert "g g" in best
        assert "c" not in best
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.parametrize("option", [False, True])
def test_typed_at_a_terminal_but_written_to_a_file_only_results_are_written(
    trained: Path, tmp_path: Path, option: bool
) -> None:
    """Redirected, or with --output: an invitation is printed, and no bar."""
    terminal, inside = pty.openpty()
    more = ["--output", str(tmp_path / "out")] if option else []
    with (tmp_path / ("other" if option else "out")).open("wb") as out:
        command = [*COMMAND, str(trained), *more]
        process = subprocess.Popen(command, stdin=inside, stdout=out, stderr=inside, env=environment())
    os.close(inside)
    try:
        _read_until(terminal, b"Ctrl-D ends.")
        os.write(terminal, b"a b c\n\x04")
        assert process.wait(timeout=60) == 0
        assert (tmp_path / "out").read_bytes() == b"a b c\n"
        os.set_blocking(terminal, False)
        with suppress(OSError):
            assert b"translating" not in os.read(terminal, 4096)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_training_at_a_terminal_shows_a_bar_and_piped_does_not(trained: Path) -> None:
    """The bar is for eyes only; resuming a finished run is enough to see it."""
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "calque", "train", "--resume", str(trained)]
    process = subprocess.Popen(command, stdin=inside, stdout=subprocess.PIPE, stderr=inside, env=environment())
    os.close(inside)
    shown = _read_until(terminal, b"step 200/200")
    while select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
    out, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert process.returncode == 0
    assert out.decode() == f"{trained}\n"
    assert b"next: calque translate" in shown


@pytest.mark.parametrize("ends", [os.pipe, pty.openpty], ids=["pipe", "terminal"])
def test_training_continues_to_its_end_without_a_reader(ends: Callable[[], tuple[int, int]], tmp_path: Path) -> None:
    """As with `calque train ... 2>&1 | head -1`, or where the connection to a terminal is lost."""
    corpus, run = toy_corpus(tmp_path), tmp_path / "run"
    (tmp_path / "toy.toml").write_text(values_to_toml(toy_values(corpus, "plain")), encoding="utf-8")
    command = [sys.executable, "-m", "calque", "train", "--config", str(tmp_path / "toy.toml"), "--run", str(run)]
    reader, inside = ends()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=inside, stderr=inside, env=environment(), start_new_session=True
    )
    os.close(inside)
    try:
        _read_until(reader, b"data: ")
        os.close(reader)
        assert process.wait(timeout=90) == 0
    finally:
        process.kill()
        process.wait()
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert "step 14: validation loss" in log
    assert (run / "checkpoints" / "step-14").is_dir()
