"""Folders: written atomically, and every kind of damage is reported."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from calque.errors import FolderError
from calque.folders import manifest as manifests
from calque.folders import (
    remove_folder,
    stale,
    survey_folder,
    upgrades,
    verify_folder,
    weights,
    write_folder,
    writing,
)


def fill(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(bytes(range(256)))
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer" / "pieces.txt").write_text("a b c", encoding="utf-8")


def write(path: Path, *, replace: bool = False, fill: Callable[[Path], None] = fill) -> manifests.Manifest:
    return write_folder(path, kind="model", format=1, fill=fill, details={"name": "é", "n": 1.5}, replace=replace)


def verify(path: Path) -> manifests.Manifest:
    return verify_folder(path, kind="model", formats=[1])


def edit_manifest(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    """Changes a manifest as an attacker would: with a seal that matches."""
    values = json.loads((path / "manifest.json").read_text())
    change(values)
    files = {name: manifests.FileEntry(**entry) for name, entry in values["files"].items()}
    manifest = manifests.Manifest(values["kind"], values["format"], files, values["details"])
    (path / "manifest.json").write_bytes(manifests.render(manifest))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_written_folder_verifies(tmp_path: Path) -> None:
    manifest = write(tmp_path / "deep" / "model")
    assert verify(tmp_path / "deep" / "model") == manifest
    assert list(manifest.files) == ["tokenizer/pieces.txt", "weights.bin"]
    assert manifest.files["weights.bin"].size == 256
    assert manifest.details == {"name": "é", "n": 1.5}
    assert names(tmp_path / "deep") == ["model"]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_all_files_have_the_mode_of_new_files(tmp_path: Path, umask: int) -> None:
    """safetensors creates its files for their owner alone."""

    def fill_privately(folder: Path) -> None:
        fill(folder)
        save_file({"weight": torch.zeros(2)}, folder / "weights.safetensors")
        (folder / "tokenizer" / "pieces.txt").chmod(0o600)

    before = os.umask(umask)
    try:
        write(tmp_path / "new", fill=fill_privately)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert modes == {0o666 & ~umask}


def test_same_content_gives_the_same_manifest_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()


@pytest.mark.parametrize("exchange", [True, False])
def test_replacing_leaves_only_the_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(writing, "_renameat2_exchange", lambda *_: False)
    write(tmp_path / "model")
    write(tmp_path / "model", replace=True, fill=lambda folder: (folder / "new").touch())
    assert list(verify(tmp_path / "model").files) == ["new"]
    assert names(tmp_path) == ["model"]


def test_an_existing_folder_is_rejected_and_an_empty_one_accepted(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write(tmp_path / "model")
    with pytest.raises(FolderError, match="already exists"):
        write(tmp_path / "model")
    verify(tmp_path / "model")


def test_a_foreign_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(FolderError, match="may not have written it"):
        write(tmp_path / "thesis", replace=True)
    (tmp_path / "thesis" / "manifest.json").write_text('{"kind": "web page"}')
    with pytest.raises(FolderError, match="contains a web page, not a model"):
        write(tmp_path / "thesis", replace=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError, match="not a folder"):
        write(tmp_path / "file", replace=True)
    assert names(tmp_path) == ["file", "thesis"]
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EFBIG, "File too large"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
@pytest.mark.parametrize("replace", [True, False])
def test_a_full_disk_leaves_the_old_folder_and_no_temporary_one(
    tmp_path: Path, error: Exception, replace: bool
) -> None:
    if replace:
        write(tmp_path / "model")

    def fail(folder: Path) -> None:
        fill(folder)
        raise error

    with pytest.raises(FolderError, match="what was written before is intact: the disk is full"):
        write(tmp_path / "model", replace=True, fill=fail)
    assert names(tmp_path) == (["model"] if replace else [])
    if replace:
        verify(tmp_path / "model")


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_disk_that_fills_at_any_fsync_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(writing, "_renameat2_exchange", lambda *_: False)
    real, calls, failing = os.fsync, 0, 0

    def fsync(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    if replace:
        write(tmp_path / "model")
    before = names(tmp_path)
    while True:
        calls, failing = 0, failing + 1
        try:
            write(tmp_path / "model", replace=replace, fill=lambda folder: (folder / "new").touch())
        except FolderError as error:
            assert "disk is full" in str(error)
            assert names(tmp_path) == before
            assert not replace or "weights.bin" in verify(tmp_path / "model").files
        else:
            break
    assert failing == 5  # file, manifest, folder, parent; then nothing failed
    assert "new" in verify(tmp_path / "model").files


def test_ctrl_c_while_writing_leaves_no_temporary_folder(tmp_path: Path) -> None:
    def interrupt(folder: Path) -> None:
        fill(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "model", fill=interrupt)
    assert names(tmp_path) == []


def test_a_programming_error_is_not_wrapped(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "model", fill=lambda _: print(1 / 0))
    assert names(tmp_path) == []


def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="could not be written"):
        write(tmp_path / "file" / "model")


@pytest.mark.parametrize("name", ["manifest.json", "a b", "ü", ".hidden", "deep/er/file", "link", "empty/"])
def test_unverifiable_files_are_not_written(tmp_path: Path, name: str) -> None:
    def unverifiable(folder: Path) -> None:
        if name == "link":
            (folder / name).symlink_to("/etc/passwd")
        elif name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()

    with pytest.raises(FolderError, match="cannot be listed in a manifest"):
        write(tmp_path / "model", fill=unverifiable)
    assert names(tmp_path) == []


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from calque.folders import write_folder
def fill(folder):
    (folder / "half").write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
write_folder(Path(sys.argv[1]), kind="model", format=1, fill=fill)
"""


def test_folders_of_killed_writers_are_removed_and_those_of_running_writers_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path / "model")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        unfinished = f"model.tmp-{writer.pid}"
        write(tmp_path / "model")
        assert names(tmp_path) == ["model", unfinished]
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        (tmp_path / f"other.tmp-{writer.pid}").mkdir()
        (tmp_path / "model.tmp-1").mkdir()  # the process runs, but nobody holds the lock
        write(tmp_path / "model", replace=True)
    assert names(tmp_path) == ["model", f"other.tmp-{writer.pid}"]


def test_without_folder_locks_the_process_id_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(stale.fcntl, "flock", no_locks)
    monkeypatch.setattr(stale, "is_running", lambda pid: pid == 1)
    (tmp_path / "model.tmp-1").mkdir()
    (tmp_path / "model.tmp-2").mkdir()
    write(tmp_path / "model")
    assert names(tmp_path) == ["model", "model.tmp-1"]


def test_a_half_removed_folder_is_never_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "model")
    monkeypatch.setattr(stale.shutil, "rmtree", lambda *_, **__: None)
    remove_folder(tmp_path / "model")
    assert names(tmp_path) == [f"model.tmp-{os.getpid()}"]
    monkeypatch.undo()
    write(tmp_path / "model")
    assert names(tmp_path) == ["model"]
    (tmp_path / "link").symlink_to(tmp_path / "model")
    remove_folder(tmp_path / "link")
    with pytest.raises(FolderError, match="could not be removed"):
        remove_folder(tmp_path / "link")
    verify(tmp_path / "model")
    assert names(tmp_path) == ["model"]


def test_a_removal_that_cannot_be_synced_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "model")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderError, match="could not be removed: the disk is full"):
        remove_folder(tmp_path / "model")
    assert names(tmp_path) == []


def test_a_flipped_bit_in_the_kind_is_reported_as_damage(tmp_path: Path) -> None:
    write(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    for old, new in (
        (b'"kind": "model"', b'"kind": "modem"'),
        (b'"kind"', b'"kine"'),
        (b'"format": 1', b'"format": 3'),
    ):
        original = file.read_bytes()
        file.write_bytes(original.replace(old, new))
        with pytest.raises(FolderError, match=r"is damaged:\n  manifest\.json: changed since it was written"):
            verify(tmp_path / "model")
        file.write_bytes(original)
    file.write_text('{"kind": "web page"}')
    with pytest.raises(FolderError, match="kind 'web page'; expected 'model'"):
        verify(tmp_path / "model")


@given(data=st.data())
def test_every_flipped_bit_is_detected(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped"
    if not path.exists():
        write(path)
    name = data.draw(st.sampled_from(["manifest.json", "weights.bin", "tokenizer/pieces.txt"]))
    original = (path / name).read_bytes()
    offset = data.draw(st.integers(0, len(original) - 1))
    flipped = bytearray(original)
    flipped[offset] ^= 1 << data.draw(st.integers(0, 7))
    try:
        (path / name).write_bytes(flipped)
        with pytest.raises(FolderError, match="flipped"):
            verify(path)
    finally:
        (path / name).write_bytes(original)
    verify(path)


def test_every_fifth_bit_of_a_manifest_is_detected(tmp_path: Path) -> None:
    write(tmp_path / "model", fill=lambda folder: (folder / "a").touch())
    file = tmp_path / "model" / "manifest.json"
    original = file.read_bytes()
    for bit in range(0, 8 * len(original), 5):
        flipped = bytearray(original)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(FolderError):
            survey_folder(tmp_path / "model", kind="model", formats=[1])


def link_file(path: Path) -> None:
    (path / "weights.bin").rename(path.parent / "elsewhere")
    (path / "weights.bin").symlink_to(path.parent / "elsewhere")


def link_folder(path: Path) -> None:
    (path / "tokenizer").rename(path.parent / "elsewhere")
    (path / "tokenizer").symlink_to(path.parent / "elsewhere")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: os.truncate(path / "weights.bin", 255), "weights.bin: 255 bytes found, 256 expected"),
    "missing": (lambda path: (path / "weights.bin").unlink(), "weights.bin: missing"),
    "extra": (lambda path: (path / "extra.py").touch(), "extra.py: not listed"),
    "extra below": (lambda path: (path / "tokenizer" / "x").touch(), "tokenizer/x: not listed"),
    "extra folder": (lambda path: (path / "x").mkdir(), "x: is an empty sub-folder"),
    "link": (link_file, "weights.bin: is a link"),
    "linked folder": (link_folder, "tokenizer: is a link"),
    "pipe": (lambda path: os.mkfifo(path / "pipe"), "pipe: neither"),
    "odd name": (lambda path: (path / "a\nb").touch(), r"'a\\nb': not an allowed file name"),
    "too deep": (lambda path: (path / "tokenizer" / "deep").mkdir(), "tokenizer/deep: neither"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "has no manifest.json"),
    "manifest is a folder": (
        lambda path: ((path / "manifest.json").unlink(), (path / "manifest.json").mkdir()),
        "manifest.json: not a regular file",
    ),
    "empty manifest": (lambda path: (path / "manifest.json").write_text(""), "not a JSON object"),
    "nested manifest": (lambda path: (path / "manifest.json").write_text("[" * 10**6), "not a JSON object"),
    "list manifest": (lambda path: (path / "manifest.json").write_text("[]"), "not a JSON object"),
    "huge manifest": (lambda path: os.truncate(path / "manifest.json", 1 << 30), "not a regular file of at most"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(tmp_path: Path, damage: str) -> None:
    write(tmp_path / "model")
    harm, message = DAMAGES[damage]
    harm(tmp_path / "model")
    with pytest.raises(FolderError, match=message):
        verify(tmp_path / "model")


HOSTILITIES: dict[str, tuple[Callable[[dict[str, object]], object], str]] = {
    "newer": (lambda values: values.update(format=2), "format 2, which is newer than this version of Calque"),
    "older": (lambda values: values.update(format=0), "format 0, which Calque cannot read"),
    "true format": (lambda values: values.update(format=True), "format True"),
    "kind": (lambda values: values.update(kind="corpus"), "kind 'corpus'; expected 'model'"),
}


@pytest.mark.parametrize("hostility", HOSTILITIES)
def test_kind_and_format_are_checked(tmp_path: Path, hostility: str) -> None:
    write(tmp_path / "model")
    change, message = HOSTILITIES[hostility]
    edit_manifest(tmp_path / "model", change)
    with pytest.raises(FolderError, match=message):
        verify(tmp_path / "model")


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "..", "a/../../b", "a/b/c", "a\\b", "", ".", "c:x", "a\n", "manifest.json", "ü"],
)
def test_hostile_names_are_rejected_before_any_file_is_read(tmp_path: Path, name: str) -> None:
    write(tmp_path / "model")
    (tmp_path / "secret").write_bytes(b"")
    entry = manifests.FileEntry(0, "0" * 64)
    manifest = manifests.Manifest("model", 1, {name: entry}, {})
    (tmp_path / "model" / "manifest.json").write_bytes(manifests.render(manifest))
    with pytest.raises(FolderError, match="not an allowed file name"):
        verify(tmp_path / "model")


@pytest.mark.parametrize(
    "entry",
    [
        {"size": -1, "sha256": "0" * 64},
        {"size": True, "sha256": "0" * 64},
        {"size": 1.0, "sha256": "0" * 64},
        {"size": 1, "sha256": "0" * 63},
        {"size": 1, "sha256": "0" * 64, "run": "rm"},
        {"size": 1},
        [],
        None,
    ],
)
def test_malformed_entries_are_rejected(tmp_path: Path, entry: object) -> None:
    write(tmp_path / "model")
    values = {"kind": "model", "format": 1, "files": {"weights.bin": entry}, "details": {}}
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(FolderError, match=r"'weights.bin': (its|has no) size"):
        verify(tmp_path / "model")


def test_sizes_are_bounded_before_reading(tmp_path: Path) -> None:
    write(tmp_path / "model")
    (tmp_path / "model" / "weights.bin").unlink()
    entry = manifests.FileEntry(1 << 50, "0" * 64)
    manifest = manifests.Manifest("model", 1, {"weights.bin": entry}, {})
    (tmp_path / "model" / "manifest.json").write_bytes(manifests.render(manifest))
    with pytest.raises(FolderError, match="lists more than"):
        verify(tmp_path / "model")


def test_missing_folders_and_links_are_rejected(tmp_path: Path) -> None:
    write(tmp_path / "model")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    (tmp_path / "file").touch()
    for name, message in [("none", "not a folder"), ("file", "not a folder"), ("link", "is a link")]:
        with pytest.raises(FolderError, match=message):
            verify(tmp_path / name)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path / "model")
    (tmp_path / "model" / "weights.bin").unlink()
    (tmp_path / "model" / "x").touch()
    os.truncate(tmp_path / "model" / "tokenizer" / "pieces.txt", 1)
    with pytest.raises(FolderError) as caught:
        verify(tmp_path / "model")
    assert str(caught.value).splitlines() == [
        f"{tmp_path / 'model'} is damaged:",
        "  tokenizer/pieces.txt: 1 bytes found, 5 expected",
        "  weights.bin: missing",
        "  x: not listed in manifest.json",
    ]


@pytest.mark.parametrize("key", ["files", "details"])
def test_sections_that_are_no_objects_are_rejected(tmp_path: Path, key: str) -> None:
    write(tmp_path / "model")
    path = tmp_path / "model" / "manifest.json"
    values = {**json.loads(path.read_text()), key: [1]}
    del values["seal"]
    path.write_text(json.dumps({**values, "seal": manifests._seal_of(values)}))
    with pytest.raises(FolderError, match=r"manifest\.json: `files` and `details` must be objects"):
        verify(tmp_path / "model")


def test_a_manifest_with_a_number_that_json_does_not_have_is_damaged(tmp_path: Path) -> None:
    write(tmp_path / "model")
    path = tmp_path / "model" / "manifest.json"
    text = path.read_text()
    assert "1.5" in text
    path.write_text(text.replace("1.5", "NaN"))
    with pytest.raises(FolderError, match="damaged"):
        verify(tmp_path / "model")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "model")

    def refuse(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(manifests, "sha256_of", refuse)
    with pytest.raises(FolderError, match=r"pieces\.txt could not be read: Permission denied"):
        verify(tmp_path / "model")


def test_a_process_runs_until_it_has_ended() -> None:
    assert stale.is_running(os.getpid())
    assert stale.is_running(1)  # of another user, if this one is not root
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert not stale.is_running(child.pid)
    assert not stale.is_running(1 << 70)  # a number that no process has


# Weights


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    whole = {"a": torch.ones(2), "ids": torch.tensor([1])}
    save_file(whole, tmp_path / "weights")
    assert weights.read_weights(tmp_path / "weights").keys() == whole.keys()
    broken = {**whole, "b": torch.tensor([1.0, torch.nan]), "c": torch.tensor([torch.inf])}
    save_file(broken, tmp_path / "weights")
    with pytest.raises(
        FolderError, match=r"training diverged: these tensors contain values that are not finite:\n  b\n  c$"
    ):
        weights.read_weights(tmp_path / "weights")


def test_weights_with_a_path_that_is_not_utf_8_are_read(tmp_path: Path) -> None:
    save_file({"a": torch.arange(3)}, tmp_path / "weights")
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    (tmp_path / "weights").rename(path)
    assert weights.read_tensors(path)["a"].tolist() == [0, 1, 2]


# Upgrades


def test_a_length_profile_of_an_earlier_format_has_no_limits_unless_it_says_so() -> None:
    """Folders of format 2 had limits for some days before the number changed."""
    earlier = {"pieces": 6, "sentences": 1}
    assert upgrades.upgrade_length_profile(earlier, format=2) == {**earlier, "targets": []}
    assert upgrades.upgrade_length_profile({**earlier, "targets": [[6, 9]]}, format=2)["targets"] == [[6, 9]]
    assert upgrades.upgrade_length_profile(earlier, format=3) == earlier


def test_a_model_of_format_1_is_a_translation_model_with_vocabularies_by_column() -> None:
    earlier = {"source_pieces": 7, "target_pieces": 9, "model": {"encoder": {"kind": "recurrent"}}, "joint": False}
    assert upgrades.upgrade_model(earlier, format=1, origin="x") == {
        "task": {"kind": "translation"},
        "vocabularies": {"source": 7, "target": 9},
        "model": {"encoder": {"kind": "recurrent"}},
        "joint": False,
    }
    assert upgrades.upgrade_model(earlier, format=2, origin="x") == earlier
    with pytest.raises(FolderError, match=r"x: this is a language model of an earlier .*calque train --text FILE"):
        upgrades.upgrade_model({"model": {"encoder": {"kind": "none"}}}, format=1, origin="x")
