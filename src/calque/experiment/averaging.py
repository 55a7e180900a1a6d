"""`calque average`: writes the mean of a run's checkpoints as a model folder."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from safetensors.torch import save_file

from calque.engine.folder import has_int8_weights, is_own_run, load
from calque.engine.model_files import FORMATS, KIND, WEIGHTS, write_model_folder
from calque.engine.tagger_folder import CONFUSION
from calque.engine.translation_folder import CONFIDENCE
from calque.errors import FolderError
from calque.folders import MANIFEST, verify_folder
from calque.folders.weights import refuse_unfit
from calque.training.averaging import mean_weights
from calque.training.checkpoints import load_weights, scheduled_steps
from calque.training.journal import read_journal
from calque.training.lock import owner
from calque.training.progress import rank
from calque.training.runs import CONFIG, selection_of


def average_run(run: Path, *, of: Literal["last", "best"], count: int | None, output: Path) -> list[int]:
    """Writes the mean of a run's checkpoints as a model folder, and returns their steps.

    Averages all checkpoints or `count` of them: the latest, or those with the best validation scores. The confidence
    and confusion files of the run's own model are not copied, as they were measured with other weights.
    """
    if not (run / CONFIG).is_file() or (run / MANIFEST).exists():
        raise FolderError(f"{run} is not a run folder; name the folder that `calque train` created")
    if is_own_run(run):
        raise FolderError(
            f"{run} is a run of a custom task, whose checkpoints cannot be averaged afterwards; train it with "
            "training.average, training.ema or training.averaged_sgd, which average weights during training"
        )
    if has_int8_weights(run):
        raise FolderError(
            f"{run}: its model has weights rounded to 8 bits; restore the run's original model, run `calque "
            "average`, and then `calque quantise`"
        )
    if owner(run) is not None:
        raise FolderError(f"{run} is being trained: wait for it or stop it, as training adds and removes checkpoints")
    folder = run / "checkpoints"
    saved = scheduled_steps(folder)
    steps = saved if of == "last" else _best_first(run, steps=saved)[::-1]
    if not steps or len(steps) < (count or 1):
        validated = "validated " if of == "best" else ""
        listed = f", of steps {', '.join(map(str, sorted(steps)))}" if steps else ""
        raise FolderError(
            f"{run} has {len(steps)} {validated}checkpoints{listed}, but {count or 'at least 1'} are needed; "
            "training.keep sets how many a run keeps, and training.average_of = 'best' keeps the best ones"
        )
    chosen = sorted(steps[-count:] if count else steps)
    mean = mean_weights([load_weights(folder / f"step-{step}") for step in chosen])
    refuse_unfit(load(run / "model", device="cpu").model, mean, origin=f"the mean of checkpoints in {folder}")

    def fill(new: Path) -> None:
        shutil.copytree(
            run / "model", new, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST, CONFIDENCE, CONFUSION)
        )
        save_file(mean, new / WEIGHTS)
        card = (new / "README.md").read_text(encoding="utf-8")
        steps = f"\nThe weights are the mean of the checkpoints of steps {', '.join(map(str, chosen))}.\n"
        (new / "README.md").write_text(card + steps, encoding="utf-8")

    format = verify_folder(
        run / "model", kind=KIND, formats=FORMATS
    ).format  # all other files are those of the run's model
    write_model_folder(output, fill=fill, format=format)
    return chosen


def _best_first(run: Path, *, steps: Sequence[int]) -> list[int]:
    """Those of the `steps` that the run validated, best first."""
    selection = selection_of(run)
    ranks = {
        line["step"]: rank(
            selection.worth(line) if selection.metric in line else -math.inf,
            tie=selection.tie(line) if selection.tie_breaker in line else 0.0,
            loss=line["loss"],
            step=line["step"],
        )
        for line in read_journal(run / "metrics.jsonl")
        if line["kind"] == "valid" and "averaged" not in line and line["step"] in steps
    }
    return sorted(ranks, key=ranks.__getitem__)
