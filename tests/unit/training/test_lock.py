"""The run lock: one trainer per folder, and no stale lock after a death."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calque.errors import FolderError
from calque.training import lock
from calque.training.lock import owner, run_lock

HOLD = """
import os, sys, time
from pathlib import Path
from calque.training.lock import run_lock
with run_lock(Path(sys.argv[1])):
    child = os.fork() if sys.argv[2] == "workers" else 1
    if child == 0:
        os.read(0, 1)  # outlives its parent until standard input closes, and notices late
        time.sleep(0.3)
        os._exit(0)
    os.write(1, b"held\\n")
    os.read(0, 1)
"""


@contextmanager
def holder(folder: Path, *, workers: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", HOLD, str(folder), "workers" if workers else "alone"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process


def test_a_second_process_is_rejected_with_the_number_of_the_first(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(FolderError, match=f"pid {process.pid} is training in this folder"), run_lock(tmp_path):
            pass
        process.communicate(b"x")
    with run_lock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    assert (tmp_path / "lock").read_text() == ""


def test_the_lock_of_a_killed_process_is_recovered(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
        assert (tmp_path / "lock").read_text() == f"{process.pid}\n"
        with run_lock(tmp_path):
            pass


def test_workers_of_a_killed_process_are_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path, workers=True) as process:
        assert process.stdin is not None
        process.kill()
        process.wait()
        with (
            pytest.raises(FolderError, match="has exited, but its child processes still run"),
            run_lock(tmp_path, patience=0),
        ):
            pass
        process.stdin.close()
        with run_lock(tmp_path, patience=30):
            pass


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with run_lock(tmp_path / "new"):
        with pytest.raises(FolderError, match="is training in this folder"), run_lock(tmp_path / "new"):
            pass
        with pytest.raises(FolderError), run_lock(tmp_path / "new"):
            pass


def test_an_error_inside_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(tmp_path):
        print(1 / 0)
    with run_lock(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "nonsense", "-5", "99999999999999999999999999"])
def test_the_content_of_a_released_lock_does_not_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with run_lock(tmp_path):
        assert owner(tmp_path) == os.getpid()


def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match="lock could not be opened"), run_lock(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_owner_holds_the_lock_and_is_not_just_a_number_in_the_file(tmp_path: Path) -> None:
    """As after a kill in a container, where the next process has the same number."""
    assert owner(tmp_path) is None
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")
    assert owner(tmp_path) is None
    with run_lock(tmp_path):
        assert owner(tmp_path) == os.getpid()
    assert owner(tmp_path) is None


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(_handle: int, _how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with pytest.raises(FolderError, match=r"lock cannot be locked \(Function not implemented\)"), run_lock(tmp_path):
        pass
