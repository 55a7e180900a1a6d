"""Checkpoints: whatever is killed, flipped, truncated, lost or swapped, the newest intact one is used."""

import errno
import json
import os
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calque.errors import FolderError
from calque.folders.stale import held_lock
from calque.training.checkpoints import (
    Snapshot,
    load_checkpoint,
    load_weights,
    lost_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    scheduled_steps,
)


def snapshot(step: int) -> Snapshot:
    tied = torch.full((3, 5), float(step))
    weights = {"embedding": tied, "output": tied, "turned": torch.arange(6.0).view(2, 3).T, "one": torch.tensor(step)}
    optimiser = {"moment": torch.full((7,), step / 3, dtype=torch.bfloat16, requires_grad=True)}
    tensors = {"weights": weights, "optimiser": optimiser, "random": {"cpu": torch.arange(9, dtype=torch.uint8)}}
    return Snapshot(tensors, {"step": step, "epoch": 0.1 + step, "best": float("-inf"), "name": "é"})


def save(folder: Path, step: int, *, scheduled: bool = True) -> Path:
    return save_checkpoint(folder, snapshot(step), step=step, scheduled=scheduled, parent=None)


def are_equal(first: Snapshot, second: Snapshot) -> bool:
    def plain(tensors: dict[str, torch.Tensor]) -> dict[str, object]:
        return {name: (tensor.dtype, tensor.tolist()) for name, tensor in sorted(tensors.items())}

    groups = [
        {group: plain(named) for group, named in sorted(snapshot.tensors.items())} for snapshot in (first, second)
    ]
    return groups[0] == groups[1] and first.values == second.values


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def flip(file: Path, *, bit: int = 0) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    file.write_bytes(content)


def test_a_saved_snapshot_is_restored(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "checkpoints", snapshot(7), step=7, scheduled=False, parent=5)
    assert names(path) == [
        "manifest.json",
        "optimiser.safetensors",
        "random.safetensors",
        "state.json",
        "weights.safetensors",
    ]
    latest = newest_checkpoint(tmp_path / "checkpoints")
    assert latest is not None
    assert (latest.step, latest.path, latest.skipped) == (7, path, [])
    assert are_equal(latest.snapshot, snapshot(7))
    assert list(load_weights(path)) == list(latest.snapshot.tensors["weights"])
    details = json.loads((path / "manifest.json").read_text())["details"]
    assert details == {"step": 7, "scheduled": False, "parent": 5}


def test_the_same_snapshot_gives_the_same_bytes(tmp_path: Path) -> None:
    for run in "ab":
        save(tmp_path / run, 3)
    for file in names(tmp_path / "a" / "step-3"):
        assert (tmp_path / "a" / "step-3" / file).read_bytes() == (tmp_path / "b" / "step-3" / file).read_bytes()


def test_loaded_tensors_are_independent_of_each_other_and_of_their_files(tmp_path: Path) -> None:
    loaded = load_checkpoint(save(tmp_path, 3))
    file = tmp_path / "step-3" / "weights.safetensors"
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))
    loaded.tensors["weights"]["embedding"].zero_()
    assert loaded.tensors["weights"]["output"].eq(3).all()


def test_nothing_saved_is_none_and_stale_folders_are_no_checkpoints(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "none") is None
    (tmp_path / "step-5.tmp-1").mkdir()
    (tmp_path / "step-x").mkdir()
    assert newest_checkpoint(tmp_path) is None
    assert scheduled_steps(tmp_path) == []
    assert names(tmp_path) == ["step-x"]


def test_a_save_cleans_what_a_killed_save_of_another_step_left(tmp_path: Path) -> None:
    (tmp_path / "step-5.tmp-1").mkdir()
    save(tmp_path, 6)
    assert names(tmp_path) == ["step-6"]


def test_steps_are_compared_as_numbers(tmp_path: Path) -> None:
    for step in (9, 10, 100, 0):
        save(tmp_path, step)
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 100
    assert scheduled_steps(tmp_path) == [0, 9, 10, 100]


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
    flip(tmp_path / "step-3" / "optimiser.safetensors", bit=900)
    (tmp_path / "step-2" / "weights.safetensors").unlink()
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 1
    assert are_equal(latest.snapshot, snapshot(1))
    assert "step-3 is damaged:\n  optimiser.safetensors: changed" in latest.skipped[0]
    assert "step-2 is damaged:\n  weights.safetensors: missing" in latest.skipped[1]


def test_if_all_are_damaged_the_error_names_each(tmp_path: Path) -> None:
    for step in (1, 2):
        os.truncate(save(tmp_path, step) / "state.json", 3)
    with pytest.raises(FolderError, match=r"(?s)every checkpoint is damaged.*step-2.*step-1.*start from scratch"):
        newest_checkpoint(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_is_detected(tmp_path: Path, data: st.DataObject) -> None:
    if not (tmp_path / "step-2").exists():
        save(tmp_path, 1)
        save(tmp_path, 2)
    file = tmp_path / "step-2" / data.draw(st.sampled_from(names(tmp_path / "step-2")))
    bit = data.draw(st.integers(0, 8 * file.stat().st_size - 1))
    flip(file, bit=bit)
    try:
        latest = newest_checkpoint(tmp_path)
        assert latest is not None
        assert latest.step == 1
        assert are_equal(latest.snapshot, snapshot(1))
    finally:
        flip(file, bit=bit)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_truncation_is_detected(tmp_path: Path, data: st.DataObject) -> None:
    if not (tmp_path / "step-2").exists():
        save(tmp_path, 1)
        save(tmp_path, 2)
    file = tmp_path / "step-2" / data.draw(st.sampled_from(names(tmp_path / "step-2")))
    content = file.read_bytes()
    file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    try:
        latest = newest_checkpoint(tmp_path)
        assert latest is not None
        assert latest.step == 1
        assert scheduled_steps(tmp_path) == [1]
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("file", ["weights.safetensors", "state.json", "manifest.json"])
def test_files_swapped_between_checkpoints_are_detected(tmp_path: Path, file: str) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / "step-2" / file).rename(tmp_path / "kept")
    (tmp_path / "step-3" / file).rename(tmp_path / "step-2" / file)
    (tmp_path / "kept").rename(tmp_path / "step-3" / file)
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 1
    assert [message.splitlines()[0].split("/")[-1][:6] for message in latest.skipped] == ["step-3", "step-2"]


def test_a_renamed_checkpoint_is_detected(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2).rename(tmp_path / "step-9")
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 1
    assert "holds the checkpoint of step 2" in latest.skipped[0]
    assert scheduled_steps(tmp_path) == [1]


def test_a_link_is_detected(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path / "elsewhere", 2)
    (tmp_path / "step-2").symlink_to(tmp_path / "elsewhere" / "step-2")
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 1
    save(tmp_path, 2)
    assert not (tmp_path / "step-2").is_symlink()
    load_checkpoint(tmp_path / "elsewhere" / "step-2")


def test_weights_are_verified(tmp_path: Path) -> None:
    flip(save(tmp_path, 1) / "weights.safetensors", bit=8 * 400)
    with pytest.raises(FolderError, match="weights"):
        load_weights(tmp_path / "step-1")
    bare = save_checkpoint(tmp_path, Snapshot({}, {}), step=2, scheduled=True, parent=1)
    with pytest.raises(FolderError, match=r"no weights\.safetensors"):
        load_weights(bare)
    assert load_checkpoint(bare) == Snapshot({}, {})


@pytest.mark.parametrize("harm", ["flip", "truncate", "manifest", "none"])
def test_saving_a_step_again_replaces_it(tmp_path: Path, harm: str) -> None:
    path = save(tmp_path, 1)
    match harm:
        case "flip":
            flip(path / "weights.safetensors", bit=3333)
        case "truncate":
            os.truncate(path / "weights.safetensors", 5)
        case "manifest":
            (path / "manifest.json").write_text("")
    save(tmp_path, 1)
    assert are_equal(load_checkpoint(path), snapshot(1))
    assert names(tmp_path) == ["step-1"]


def test_an_interrupt_at_a_scheduled_step_leaves_it_scheduled(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 1, scheduled=False)
    assert scheduled_steps(tmp_path) == [1]
    save(tmp_path, 2, scheduled=False)
    save(tmp_path, 2)
    assert scheduled_steps(tmp_path) == [1, 2]


def test_pruning_keeps_the_newest_scheduled_ones(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        save(tmp_path, step)
    save(tmp_path, 5, scheduled=False)
    save(tmp_path, 35, scheduled=False)
    save(tmp_path, 45, scheduled=False)
    assert prune_checkpoints(tmp_path, keep=2) == [5, 10, 20, 35]
    assert names(tmp_path) == ["step-30", "step-40", "step-45"]
    assert prune_checkpoints(tmp_path, keep=2) == []
    save(tmp_path, 50)
    assert prune_checkpoints(tmp_path, keep=2) == [30, 45]
    with pytest.raises(ValueError, match="at least 1"):
        prune_checkpoints(tmp_path, keep=0)


def test_pruning_only_unscheduled_ones_removes_nothing(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step, scheduled=False)
    assert prune_checkpoints(tmp_path, keep=1) == []


def test_pruning_does_not_count_damaged_ones(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4, 5):
        save(tmp_path, step)
    (tmp_path / "step-4" / "state.json").unlink()
    (tmp_path / "step-1" / "manifest.json").unlink()
    assert prune_checkpoints(tmp_path, keep=2) == [1, 2]
    assert names(tmp_path) == ["step-3", "step-4", "step-5"]


def test_pruning_never_removes_the_newest_that_verifies(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    save(tmp_path, 3, scheduled=False)
    for step in (4, 5):
        flip(save(tmp_path, step) / "weights.safetensors", bit=3000)  # sizes are right
    assert prune_checkpoints(tmp_path, keep=1) == [1]
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 3
    for step in (2, 3):
        flip(tmp_path / f"step-{step}" / "weights.safetensors", bit=3000)
    assert prune_checkpoints(tmp_path, keep=1) == []


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
        with pytest.raises(FolderError, match=r"step-2 could not be written.*the disk is full"):
            save(tmp_path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["step-1"]

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderError, match="disk is full"):
        save(tmp_path, 1)
    assert names(tmp_path) == ["step-1"]
    assert are_equal(load_checkpoint(tmp_path / "step-1"), snapshot(1))


def test_a_checkpoint_moved_aside_for_its_replacement_is_restored(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "step-1").rename(tmp_path / "step-1.old-77")
    (tmp_path / "step-1.tmp-77").mkdir()
    latest = newest_checkpoint(tmp_path)
    assert latest is not None
    assert latest.step == 1
    assert names(tmp_path) == ["step-1"]


def test_a_missing_checkpoint_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    for reached in (0, 1, 500):
        assert lost_checkpoint(folder, reached=reached, every=500) == []
    with pytest.raises(FolderError, match="no checkpoint, but the run had reached step 501 and saved step 500"):
        lost_checkpoint(folder, reached=501, every=500)
    save(folder, 500)
    for reached in (0, 501, 1000):
        assert lost_checkpoint(folder, reached=reached, every=500) == []
    (message,) = lost_checkpoint(folder, reached=1720, every=500)
    assert "step-1500 is missing: the run had reached step 1720" in message


def test_no_folder_locks_are_left_behind(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with held_lock(tmp_path / "step-1") as held:
        assert held
