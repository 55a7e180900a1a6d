"""Checkpoints in `RUN/checkpoints/step-N/`. Each is complete or absent, so no pointer to the newest is needed.

A folder holds one safetensors file per group of tensors (`weights`, `optimiser`, `sums`, ...), `state.json` and the
manifest, whose details record the step, whether the save was scheduled rather than caused by an interrupt, and the step
of the previous checkpoint.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from calque.errors import FolderError
from calque.folders import Manifest, remove_folder, remove_stale, survey_folder, verify_folder, write_folder
from calque.folders.weights import read_tensors
from calque.parsing import parse_json

KIND = "checkpoint"
FORMAT = 1
STATE = "state.json"

_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})")


class Snapshot(NamedTuple):
    """Everything needed to resume a run: tensors by group and name, and JSON values (step, epoch, batch, history)."""

    tensors: dict[str, dict[str, Tensor]]
    values: dict[str, Any]


class LatestCheckpoint(NamedTuple):
    """The checkpoint to resume from, and a message for each newer checkpoint that is damaged."""

    step: int
    path: Path
    snapshot: Snapshot
    skipped: list[str]


def save_checkpoint(folder: Path, snapshot: Snapshot, *, step: int, scheduled: bool, parent: int | None) -> Path:
    """Writes a checkpoint and returns its folder. An intact one of the same step stays until the new one is complete.

    A scheduled checkpoint stays scheduled if an interrupt saves the same step again.
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


def newest_checkpoint(folder: Path) -> LatestCheckpoint | None:
    """The newest intact checkpoint, or None if there are no checkpoints. Raises a FolderError if all are damaged."""
    remove_stale(folder, names=_STEP)
    skipped: list[str] = []
    for step, path in reversed(_steps(folder)):
        try:
            return LatestCheckpoint(step, path, load_checkpoint(path), skipped)
        except FolderError as error:
            skipped.append(str(error))
    if skipped:
        raise FolderError(
            "\n".join(
                [
                    f"{folder}: every checkpoint is damaged, so the run cannot be resumed:",
                    *skipped,
                    "Restore a copy, or move this folder away to start from scratch",
                ]
            )
        )
    return None


def lost_checkpoint(folder: Path, *, reached: int, every: int) -> list[str]:
    """A list with one warning if the newest scheduled checkpoint is missing and an older one is used, else empty.

    A run that has written the metrics of step `reached` has saved the scheduled checkpoints before that step, which are
    `every` steps apart. So if the last of them is missing, it was lost. Raises a FolderError if no checkpoint is left.
    """
    steps = saved_steps(folder)
    expected = (reached - 1) // every * every
    if expected <= max(steps, default=0):
        return []
    if not steps:
        raise FolderError(
            f"{folder}: there is no checkpoint, but the run had reached step {reached} and saved step {expected}. "
            "Restore the checkpoints, or move the run folder elsewhere and start the run again"
        )
    return [
        f"{folder / f'step-{expected}'} is missing: the run had reached step {reached}, but has to continue from an "
        "older checkpoint"
    ]


def saved_steps(folder: Path) -> list[int]:
    """The steps of all checkpoints, intact or damaged."""
    return [step for step, _ in _steps(folder)]


def load_checkpoint(path: Path) -> Snapshot:
    """The snapshot in a checkpoint, whose files are verified. Tensors are on the CPU and independent of the files."""
    manifest = _verify(path)
    if STATE not in manifest.files:
        raise FolderError(f"{path} has no {STATE}")
    groups = [name.removesuffix(".safetensors") for name in manifest.files if name.endswith(".safetensors")]
    try:
        values = parse_json((path / STATE).read_bytes())
    except ValueError as error:
        raise FolderError(f"{path / STATE}: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise FolderError(f"{path / STATE}: not a JSON object")
    return Snapshot({group: _load_tensors(path, group) for group in groups}, values)


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint, whose files are verified, without the rest of the snapshot."""
    if "weights.safetensors" not in _verify(path).files:
        raise FolderError(f"{path} has no weights.safetensors")
    return _load_tensors(path, "weights")


def scheduled_steps(folder: Path) -> list[int]:
    """The steps of scheduled checkpoints, oldest first, except those whose file names or sizes show damage."""
    return [step for step, manifest in _intact(folder).items() if manifest.details["scheduled"]]


def prune_checkpoints(folder: Path, *, keep: int, also: Collection[int] = ()) -> list[int]:
    """Removes all but the newest `keep` scheduled checkpoints and the steps in `also`. Returns the removed steps.

    Call it after a successful save. Unscheduled checkpoints are removed once a newer scheduled one exists. A damaged
    checkpoint does not count towards `keep`; it is removed once it is older than the scheduled ones that are kept. The
    newest intact checkpoint always stays; if none is intact, nothing is removed.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    intact = _intact(folder)
    if not _removable(folder, intact, keep=keep, also=also):
        return []
    while intact and not _verifies(folder / f"step-{max(intact)}"):
        del intact[max(intact)]
    removable = _removable(folder, intact, keep=keep, also=also)
    for step in removable:
        remove_folder(folder / f"step-{step}")
    return removable


def _removable(folder: Path, intact: Mapping[int, Manifest], *, keep: int, also: Collection[int]) -> list[int]:
    newest = [step for step, manifest in sorted(intact.items()) if manifest.details["scheduled"]][-keep:]
    if not newest:
        return []
    steps = (step for step, _ in _steps(folder) if not (step in also and step in intact))
    return [step for step in steps if step < newest[0] or (step in intact and step not in newest and step < newest[-1])]


def _fill(folder: Path, snapshot: Snapshot) -> None:
    for group, tensors in snapshot.tensors.items():
        # copies, since safetensors rejects tensors that share storage
        copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        save_file(copies, folder / f"{group}.safetensors")
    (folder / STATE).write_text(json.dumps(snapshot.values, indent=1) + "\n", encoding="utf-8")


def _load_tensors(path: Path, group: str) -> dict[str, Tensor]:
    file = path / f"{group}.safetensors"
    try:
        # copies, since safetensors returns views of the mapped file: they change, or crash, when the file changes
        return {name: tensor.clone() for name, tensor in read_tensors(file).items()}
    except (SafetensorError, OSError) as error:
        raise FolderError(f"{file} could not be read: {error}") from error


def _steps(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = ((_STEP.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def _intact(folder: Path) -> dict[int, Manifest]:
    """The manifests, by step, oldest first, of the checkpoints whose files have the names and sizes listed there."""
    manifests = {step: _survey(path) for step, path in _steps(folder)}
    return {step: manifest for step, manifest in manifests.items() if manifest}


def _survey(path: Path) -> Manifest | None:
    try:
        return _checked(path, survey_folder(path, kind=KIND, formats=[FORMAT]))
    except FolderError:
        return None


def _verify(path: Path) -> Manifest:
    return _checked(path, verify_folder(path, kind=KIND, formats=[FORMAT]))


def _checked(path: Path, manifest: Manifest) -> Manifest:
    """Returns the manifest of a checkpoint if it is consistent. Otherwise, raises a FolderError.

    Its step must be the one in the folder's name, and it must record whether the checkpoint was scheduled.
    """
    step = manifest.details.get("step")
    match = _STEP.fullmatch(path.name)
    if match and step != int(match[1]):
        raise FolderError(f"{path} holds the checkpoint of step {step}: the folder was renamed or swapped")
    if not isinstance(manifest.details.get("scheduled"), bool):
        raise FolderError(f"{path} is damaged: its manifest lacks the key `scheduled` (true or false) in `details`")
    return manifest


def _verifies(path: Path) -> bool:
    try:
        _verify(path)
    except FolderError:
        return False
    return True
