"""Checkpoints: `RUN/checkpoints/step-N/`, each whole or absent, the newest sound one found without a pointer.

A folder holds one safetensors file for each group of tensors (`weights`, `optimiser`, `sums`, ...), `state.json`
and the manifest, whose details say the step, whether the save was scheduled, and which step it grew from.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from calque.errors import FolderError
from calque.folders import Manifest, remove_folder, remove_stale, survey_folder, verify_folder, write_folder

KIND = "checkpoint"
FORMAT = 1
STATE = "state.json"

_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})")


class Snapshot(NamedTuple):
    """All that a run needs to go on: tensors by group and name, and JSON values (step, epoch, batch, history)."""

    tensors: dict[str, dict[str, Tensor]]
    values: dict[str, Any]


class Found(NamedTuple):
    """The checkpoint to go on from, and one message for each newer one that was damaged."""

    step: int
    path: Path
    snapshot: Snapshot
    skipped: list[str]


def save_checkpoint(folder: Path, snapshot: Snapshot, *, step: int, scheduled: bool, parent: int | None) -> Path:
    """The folder of a new checkpoint; one of the same step is replaced, and is kept if anything fails.

    What was scheduled stays so when an interrupt saves the same step again.
    """
    path = folder / f"step-{step}"
    remove_stale(folder, names=_STEP)
    before = _survey(path)
    if before is None and os.path.lexists(path):
        remove_folder(path)
    was_scheduled = before is not None and before.details["scheduled"]
    write_folder(
        path,
        kind=KIND,
        format=FORMAT,
        fill=lambda new: _fill(new, snapshot),
        details={"step": step, "scheduled": scheduled or was_scheduled, "parent": parent},
        replace=True,
    )
    return path


def newest_checkpoint(folder: Path) -> Found | None:
    """The newest checkpoint that verifies; None where none was ever saved; a FolderError where all are damaged."""
    remove_stale(folder, names=_STEP)
    skipped: list[str] = []
    for step, path in reversed(_steps(folder)):
        try:
            return Found(step, path, load_checkpoint(path), skipped)
        except FolderError as error:
            skipped.append(str(error))
    if skipped:
        raise FolderError(
            "\n".join(
                [
                    f"{folder}: every checkpoint is damaged, so the run cannot go on from one:",
                    *skipped,
                    "Put back a copy, or move this folder away to start from scratch",
                ]
            )
        )
    return None


def lost_checkpoint(folder: Path, *, reached: int, every: int) -> list[str]:
    """A message if a checkpoint is gone that must have been there; a FolderError if none is left at all.

    A run that has written its line of step `reached` had saved every scheduled step before that one, since it was begun
    or resumed with `every` steps between two of them.
    """
    steps = saved_steps(folder)
    expected = (reached - 1) // every * every
    if expected <= max(steps, default=0):
        return []
    if not steps:
        raise FolderError(
            f"{folder}: there is no checkpoint, but the run had reached step {reached} and saved step {expected}. "
            "Put the checkpoints back, or move the run folder away to start from scratch"
        )
    return [f"{folder / f'step-{expected}'} is missing: the run had reached step {reached}"]


def saved_steps(folder: Path) -> list[int]:
    """Steps whose checkpoints have come into their place, sound or not."""
    return [step for step, _ in _steps(folder)]


def load_checkpoint(path: Path) -> Snapshot:
    """The snapshot in one checkpoint, verified; its tensors are on the CPU and independent of the files."""
    manifest = _verify(path)
    if STATE not in manifest.files:
        raise FolderError(f"{path} has no {STATE}")
    groups = [name.removesuffix(".safetensors") for name in manifest.files if name.endswith(".safetensors")]
    values = json.loads((path / STATE).read_bytes())
    return Snapshot({group: _load_tensors(path, group) for group in groups}, values)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Only the weights of one checkpoint, verified (for averaging)."""
    if "weights.safetensors" not in _verify(path).files:
        raise FolderError(f"{path} has no weights.safetensors")
    return _load_tensors(path, "weights")


def scheduled_steps(folder: Path) -> list[int]:
    """Steps of the scheduled checkpoints, oldest first; damage that shows without reading them is left out."""
    return [step for step, manifest in _sound(folder).items() if manifest.details["scheduled"]]


def prune_checkpoints(folder: Path, *, keep: int, also: Collection[int] = ()) -> list[int]:
    """Steps removed so that the newest `keep` scheduled checkpoints stay, and `also`; call it after a successful save.

    Unscheduled ones go once a newer scheduled one exists. A damaged one never counts as kept; it goes once it is
    older than all that are. The newest that verifies always stays, and without one nothing is removed.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    sound = _sound(folder)
    if not _doomed(folder, sound, keep=keep, also=also):
        return []
    while sound and not _is_whole(folder / f"step-{max(sound)}"):
        del sound[max(sound)]
    doomed = _doomed(folder, sound, keep=keep, also=also)
    for step in doomed:
        remove_folder(folder / f"step-{step}")
    return doomed


def _doomed(folder: Path, sound: Mapping[int, Manifest], *, keep: int, also: Collection[int]) -> list[int]:
    kept = [step for step, manifest in sorted(sound.items()) if manifest.details["scheduled"]][-keep:]
    if not kept:
        return []
    steps = (step for step, _ in _steps(folder) if not (step in also and step in sound))
    return [step for step in steps if step < kept[0] or (step in sound and step not in kept and step < kept[-1])]


def _fill(folder: Path, snapshot: Snapshot) -> None:
    for group, tensors in snapshot.tensors.items():
        # copies, since safetensors refuses names that share storage
        copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        save_file(copies, folder / f"{group}.safetensors")
    (folder / STATE).write_text(json.dumps(snapshot.values, indent=1) + "\n", encoding="utf-8")


def _load_tensors(path: Path, group: str) -> dict[str, Tensor]:
    file = path / f"{group}.safetensors"
    try:
        # copies, since safetensors gives views of the mapped file, which change and crash with it
        return {name: tensor.clone() for name, tensor in load_file(file).items()}
    except (SafetensorError, OSError) as error:
        raise FolderError(f"{file} could not be read: {error}") from error


def _steps(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    found = ((_STEP.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def _sound(folder: Path) -> dict[int, Manifest]:
    """Manifests by step, oldest first, of the checkpoints whose names and sizes are right."""
    found = {step: _survey(path) for step, path in _steps(folder)}
    return {step: manifest for step, manifest in found.items() if manifest}


def _survey(path: Path) -> Manifest | None:
    try:
        return _belonging(path, survey_folder(path, kind=KIND, formats=[FORMAT]))
    except FolderError:
        return None


def _verify(path: Path) -> Manifest:
    return _belonging(path, verify_folder(path, kind=KIND, formats=[FORMAT]))


def _belonging(path: Path, manifest: Manifest) -> Manifest:
    """The manifest, if it is of the step that its folder is called after."""
    found = manifest.details.get("step")
    match = _STEP.fullmatch(path.name)
    if match and found != int(match[1]):
        raise FolderError(f"{path} holds the checkpoint of step {found}: it was renamed or swapped")
    if not isinstance(manifest.details.get("scheduled"), bool):
        raise FolderError(f"{path} does not say whether it was scheduled")
    return manifest


def _is_whole(path: Path) -> bool:
    try:
        _verify(path)
    except FolderError:
        return False
    return True
