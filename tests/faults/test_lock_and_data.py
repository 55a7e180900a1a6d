"""One trainer for one run folder, also after a kill; and data that changed since the run began is refused by name."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.training.lock import run_lock
from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import Scene, Warm, differences, families, killing

pytestmark = pytest.mark.slow


@families
def test_the_lock_of_a_killed_trainer_is_recovered_also_when_its_number_lives_again(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """The number in the file is that of this very process, which lives, and is no trainer."""
    original = scene(family)
    run = original.copy(tmp_path / "run")
    ended = warm("train", "--resume", run, fault=killing(run, at=40))
    assert ended.was_killed
    assert (run / "lock").read_text() == f"{ended.pid}\n"
    (run / "lock").write_text(f"{os.getpid()}\n")
    assert warm("train", "--resume", run).code == 0
    wrong = differences(run, original.whole)
    tally("stale lock, recycled number", family, tried=1, wrong=wrong)


def contents(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}


@families
def test_a_second_trainer_is_refused_and_changes_nothing(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path
) -> None:
    run = scene(family).copy(tmp_path / "run")
    before = contents(run)
    with run_lock(run):
        refused = warm("train", "--resume", run)
    assert refused.code == 2
    assert f"pid {os.getpid()} is training in this folder; wait for it or stop it" in refused.err
    assert contents(run) == before


def edit(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("a", "b", 1), encoding="utf-8")


def swap(corpus: Path) -> None:
    (corpus / "source").rename(corpus / "kept")
    (corpus / "target").rename(corpus / "source")
    (corpus / "kept").rename(corpus / "target")


def append(corpus: Path) -> None:
    for side in ("source", "target"):
        with (corpus / side).open("a", encoding="utf-8") as file:
            file.write("a b c\n")


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a letter of the source": (lambda folder: edit(folder / "corpus" / "source"), ["data.train[1].source", "changed"]),
    "a letter of the target": (lambda folder: edit(folder / "corpus" / "target"), ["data.train[1].target", "changed"]),
    "a line more": (lambda folder: append(folder / "corpus"), ["train[1].source", "train[1].target", "changed"]),
    "sides swapped": (lambda folder: swap(folder / "corpus"), ["train[1].source", "train[1].target", "changed"]),
    "a file gone": (lambda folder: (folder / "corpus" / "target").unlink(), ["data.train[1].target", "no such file"]),
    "a setting of the text": (
        lambda folder: _replace(folder / "run" / "config.toml", "joint = true", "joint = false"),
        ["text.joint: was true, is false"],
    ),
    "a bit of the prepared store": (
        lambda folder: _flip(next((folder / "run" / "store").rglob("*.values"))),
        [".values"],
    ),
}


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def moved(scene: Scene, folder: Path) -> Path:
    """A scene's unfinished run and its corpus in another folder."""
    old = scene.base.parent
    shutil.copytree(old / "corpus", folder / "corpus")
    _replace(scene.copy(folder / "run") / "config.toml", str(old), str(folder))
    return folder


@families
@pytest.mark.parametrize("change", CHANGES)
def test_data_that_changed_since_the_run_began_is_refused_with_what_changed(
    family: str, change: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    folder = moved(scene(family), tmp_path)
    harm, expected = CHANGES[change]
    harm(folder)
    checkpoints = sorted(path.name for path in (folder / "run" / "checkpoints").iterdir())
    refused = warm("train", "--resume", folder / "run")
    assert refused.code == 2, refused.err
    assert "Traceback" not in refused.err
    for text in expected:
        assert text in refused.err
    assert "remove this one" not in refused.err, "which would not help a run that has begun"
    assert sorted(path.name for path in (folder / "run" / "checkpoints").iterdir()) == checkpoints
    tally("changed data", family, tried=1, wrong=[])


def test_removing_the_store_does_not_let_other_data_in(warm: Warm, scene: Scenes, tmp_path: Path) -> None:
    folder = moved(scene("transformer"), tmp_path)
    shutil.rmtree(folder / "run" / "store")
    edit(folder / "corpus" / "target")
    refused = warm("train", "--resume", folder / "run")
    assert refused.code == 2
    assert "data.train[1].target: the contents of" in refused.err


@families
def test_data_that_was_moved_is_the_same_data(family: str, warm: Warm, scene: Scenes, tmp_path: Path) -> None:
    folder = moved(scene(family), tmp_path)
    assert warm("train", "--resume", folder / "run").code == 0
    assert differences(folder / "run", scene(family).whole) == ["config.toml"]  # which says where the corpus is
