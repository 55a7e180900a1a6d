"""One trainer for one run folder, also after a kill; and data that changed since the run began is refused by name."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import Figure
from tests.faults.runs import FAMILIES, SHORT, Scene, Warm, config_file, differences, killing

pytestmark = pytest.mark.slow

Scenes = Callable[[str], Scene]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_lock_of_a_killed_trainer_is_recovered_also_when_its_number_lives_again(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, figure: Figure
) -> None:
    """The number in the file is that of this very process, which lives, and is no trainer."""
    one = scene(family)
    run = one.copy(tmp_path / "run")
    ended = warm("train", "--resume", run, fault=killing(run, at=40))
    assert ended.was_killed
    assert (run / "lock").read_text() == f"{ended.pid}\n"
    (run / "lock").write_text(f"{os.getpid()}\n")
    assert warm("train", "--resume", run).code == 0
    wrong = differences(run, one.whole)
    figure("stale lock, recycled number", family, tried=1, held=1 - bool(wrong))
    assert wrong == []


def test_a_second_trainer_is_refused_and_changes_nothing(warm: Warm, scene: Scenes, tmp_path: Path) -> None:
    from calque.training.lock import run_lock

    run = scene("transformer").copy(tmp_path / "run")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    with run_lock(run):
        refused = warm("train", "--resume", run)
    assert refused.code == 2
    assert f"pid {os.getpid()} is training in this folder; wait for it or stop it" in refused.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"} == before


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
    "a bit of the prepared store": (lambda folder: _flip(next((folder / "run" / "store").rglob("*.ids"))), [".ids"]),
}


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def begun(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a corpus of its own, killed after its first checkpoint."""
    folder = tmp_path_factory.mktemp("begun")
    config = config_file(folder, "transformer", *SHORT)
    watch = {"file": str(folder / "run" / "metrics.jsonl"), "lines": 4, "delay": 0, "numbers": [signal.SIGKILL]}
    warm("train", "--config", config, "--run", folder / "run", watch=watch)
    return folder


@pytest.mark.parametrize("change", CHANGES)
def test_data_that_changed_since_the_run_began_is_refused_with_what_changed(
    change: str, begun: Path, warm: Warm, tmp_path: Path, figure: Figure
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(begun, folder)
    _replace(folder / "run" / "config.toml", str(begun), str(folder))
    harm, expected = CHANGES[change]
    harm(folder)
    checkpoints = sorted(path.name for path in (folder / "run" / "checkpoints").iterdir())
    refused = warm("train", "--resume", folder / "run")
    assert refused.code == 2, refused.err
    assert "Traceback" not in refused.err
    for text in expected:
        assert text in refused.err
    assert sorted(path.name for path in (folder / "run" / "checkpoints").iterdir()) == checkpoints
    figure("changed data", "transformer", tried=1, held=1)


def test_removing_the_store_does_not_let_other_data_in(begun: Path, warm: Warm, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(begun, folder)
    _replace(folder / "run" / "config.toml", str(begun), str(folder))
    shutil.rmtree(folder / "run" / "store")
    edit(folder / "corpus" / "target")
    refused = warm("train", "--resume", folder / "run")
    assert refused.code == 2
    assert "data.train[1].target: the contents of" in refused.err


def test_data_that_was_moved_is_the_same_data(begun: Path, warm: Warm, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(begun, folder)
    _replace(folder / "run" / "config.toml", str(begun), str(folder))
    assert warm("train", "--resume", folder / "run").code == 0
