"""Output files appear only when complete and are resumed by the same command only; pipes are written directly."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from calque.commands.output import DirectOutput, ResumableFile, fingerprint, refuse_output, sink
from calque.errors import CalqueError, DataError
from calque.folders.stale import held_lock


def begin(part: ResumableFile) -> ResumableFile:
    return part.__enter__()


def cut(part: ResumableFile) -> None:
    """As if the process had died: what was written may be there, nothing else happens."""
    part.flush()
    part._open.close()


def test_a_part_is_resumed_by_the_same_command_only(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first = begin(ResumableFile(path, made_from="A"))
    first.write(b"1\n2\n")
    first.checkpoint(2)
    first.write(b"3 is not wh")
    cut(first)
    with ResumableFile(path, made_from="A") as resumed:
        assert resumed.lines == 2
        resumed.write(b"3\n")
    assert path.read_bytes() == b"1\n2\n3\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    with ResumableFile(path, made_from="A") as anew:
        assert anew.lines == 0


def test_a_part_of_another_command_is_counted_and_discarded(tmp_path: Path) -> None:
    for made_from, kept, discarded in (("one", 0, 0), ("one", 2, 0), ("other", 0, 2)):
        part = ResumableFile(tmp_path / "out", made_from=made_from)
        with pytest.raises(KeyboardInterrupt), part:
            assert (part.lines, part.discarded) == (kept, discarded)
            if not part.lines:
                part.write(b"a\nb\n")
            part.checkpoint(2)
            raise KeyboardInterrupt


@pytest.mark.parametrize("second", ["B", None])
def test_a_note_does_not_describe_the_bytes_of_another_command(tmp_path: Path, second: str | None) -> None:
    """A is interrupted after a window, B in its first window; then A must start again."""
    path = tmp_path / "out"
    a = begin(ResumableFile(path, made_from="A"))
    a.write(b"A\n" * 5)
    a.checkpoint(5)
    cut(a)
    b = begin(ResumableFile(path, made_from=second))
    assert b.lines == 0
    b.write(b"B\n" * 8)
    cut(b)
    with ResumableFile(path, made_from="A") as resumed:
        assert resumed.lines == 0
        resumed.write(b"A\n" * 10)
    assert path.read_bytes() == b"A\n" * 10


def test_two_processes_do_not_write_one_part(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with ResumableFile(path, made_from="A") as first:
        first.write(b"first\n")
        first.checkpoint(1)
        with pytest.raises(DataError, match="another process is writing this file"), ResumableFile(path, made_from="A"):
            pass
        first.write(b"second\n")
    assert path.read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("begun_again", [False, True])
def test_a_part_that_another_process_renames_meanwhile_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun_again: bool
) -> None:
    """Between opening a part and locking it, its writer may finish: what is locked then is the finished file."""
    path, part = tmp_path / "out", tmp_path / "out.part"
    part.write_bytes(b"whole\n")
    interrupted: list[Path] = []
    third: list[ResumableFile] = []

    @contextmanager
    def late_lock(locked: Path) -> Iterator[bool | None]:
        with held_lock(locked) as held:
            if not interrupted:
                interrupted.append(part.replace(path))
                if begun_again:
                    third.append(begin(ResumableFile(path)))
            yield held

    monkeypatch.setattr("calque.commands.output.held_lock", late_lock)
    refusal = pytest.raises(DataError, match="another process") if begun_again else nullcontext()
    with refusal, ResumableFile(path) as output:
        output.write(b"mine\n")
    assert interrupted
    assert path.read_bytes() == (b"whole\n" if begun_again else b"mine\n")
    for part in third:
        cut(part)


def test_a_failure_leaves_no_file_and_no_empty_part(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(ValueError, match="before"), ResumableFile(path):
        raise ValueError("before anything")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="after"), ResumableFile(path) as part:
        part.write(b"kept\n")
        raise ValueError("after something")
    assert [file.name for file in tmp_path.iterdir()] == ["out.part"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path: Path, is_there: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if is_there:
        target.write_bytes(b"old\n")
    link.symlink_to("target")
    with sink(link) as out:
        out.write(b"new\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"new\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "target"]


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with sink(pipe, made_from="A") as out:
        assert isinstance(out, DirectOutput)
        out.write(b"through\n")
        out.checkpoint(1)
    reader.join()
    assert got == [b"through\n"]
    assert pipe.is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_devices_and_open_files_are_never_replaced(path: str) -> None:
    assert isinstance(sink(Path(path)), DirectOutput)


def test_output_to_the_name_of_an_open_file_is_appended(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        with sink(Path(f"/dev/fd/{log.fileno()}")) as out:
            out.write(b"behind\n")
    assert (tmp_path / "log").read_bytes() == b"before\nbehind\n"


def test_a_pipe_has_no_fingerprint_and_is_not_read(tmp_path: Path) -> None:
    model, file, pipe = tmp_path / "model", tmp_path / "file", tmp_path / "pipe"
    model.mkdir()
    (model / "manifest.json").write_text("{}", encoding="utf-8")
    file.write_bytes(b"a\n")
    os.mkfifo(pipe)

    def made_from(input: Path | None, *files: Path | None) -> str | None:
        return fingerprint(models=[model], input=input, files=files, settings=[])

    assert made_from(file, None, file) == made_from(file, None, file) != made_from(file, file, None)
    assert made_from(None, file) is None
    assert made_from(pipe, file) is None  # would wait for a writer if it were opened
    assert made_from(file, pipe) is None


def test_an_output_that_is_an_input_or_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\n")
    (tmp_path / "link").symlink_to("in")
    for output in ("in", "link"):
        with pytest.raises(DataError, match="is also an input"):
            refuse_output(tmp_path / output, None, tmp_path / "in")
    with pytest.raises(DataError, match="is a folder"):
        refuse_output(tmp_path)
    refuse_output(Path("/dev/null"), Path("/dev/null"))
    refuse_output(tmp_path / "new", tmp_path / "in")


def test_an_output_in_a_missing_folder_is_rejected_with_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere/x")
    for output, folder, why in (
        ("nodir/x", "nodir", "no such folder"),
        ("link", f"{tmp_path}/nowhere", "no such folder"),
        ("file/x", "file", "is a file"),
    ):
        with pytest.raises(DataError, match=f"^{output}: cannot be written: {folder}: {why}"):
            refuse_output(Path(output))
    long = "x" * 253
    with (
        pytest.raises(DataError, match=f"^{long}: cannot be written: its temporary file {long}.part: "),
        ResumableFile(Path(long)),
    ):
        pass
    refuse_output(Path("x"))
    refuse_output(Path("/dev/stdout"))


@pytest.mark.parametrize("made_from", ["A", None])
def test_a_full_disk_is_reported_with_the_name_and_what_is_kept(tmp_path: Path, made_from: str | None) -> None:
    path = Path(os.path.relpath(tmp_path / "out"))
    part = ResumableFile(path, made_from=made_from)
    with pytest.raises(CalqueError) as error, part, Path("/dev/full").open("wb") as full:
        part.write(b"1\n")
        part.checkpoint(1)
        os.dup2(full.fileno(), part._file.fileno())
        part.write(b"2\n")
        part.flush()
    resumable = "; what was written before is intact, and the same command resumes from there"
    assert str(error.value) == f"{path}: No space left on device{resumable if made_from else ''}"
    assert error.value.code == 1
    assert not (tmp_path / "out").exists()


def test_a_full_device_is_reported_with_its_name() -> None:
    with pytest.raises(CalqueError, match=r"^/dev/full: No space left on device$"), sink(Path("/dev/full")) as out:
        out.write(b"1\n")
