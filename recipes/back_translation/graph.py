"""Jobs for the scheduler: the runs of the recipe, and the texts that some runs translate for others.

A run is trained on corpora, which are pairs of files in the recipe's folder. A synthesis translates a file with a
trained run. `{seed}` in a path stands for the seed of the run.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calque.config import read_toml, values_to_toml
from recipes.runner.scheduler import Job, Stage, train_command


class Corpus(NamedTuple):
    """Two parallel files below the recipe's folder, and how often an epoch reads each pair."""

    source: str
    target: str
    weight: float = 1.0


class Training(NamedTuple):
    """A run: its corpora, the syntheses it needs, and the run whose weights and tokenizer it starts from."""

    name: str
    corpora: tuple[Corpus, ...]
    valid: Corpus
    needs: tuple[str, ...] = ()
    start: str | None = None
    settings: tuple[str, ...] = ()
    cost: float = 2.0


class Synthesis(NamedTuple):
    """A file that a run translates; a command of recipes.back_translation.steps writes synthetic/NAME-{seed}.txt."""

    name: str
    needs: tuple[str, ...]
    command: tuple[str, ...]


def training_job(
    training: Training, seed: int, *, out: Path, prefix: str, config: Path, settings: Sequence[str]
) -> Job:
    """The job that trains a run; its config is written when it starts."""
    run = out / "runs" / f"{training.name}-{seed}"

    def command() -> list[str]:
        path = out / "configs" / f"{run.name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(values_to_toml(run_values(training, seed, out=out, config=config)), encoding="utf-8")
        return train_command(run, ["--config", str(path), f"seed={seed}", *training.settings, *settings])

    return Job(
        f"{prefix}-{run.name}",
        run,
        (Stage("training", command, run / "trained"),),
        needs=tuple(f"{prefix}-{name}-{seed}" for name in (*training.needs, *filter(None, [training.start]))),
        cost=training.cost,
        summary=lambda: "trained",
    )


def run_values(training: Training, seed: int, *, out: Path, config: Path) -> dict[str, Any]:
    """The config of a run: the recipe's, with the corpora of this run and the run that it starts from."""
    values = read_toml(config)

    def corpus(entry: Corpus) -> dict[str, Any]:
        source, target = (str(out / side.format(seed=seed)) for side in (entry.source, entry.target))
        return {"kind": "files", "source": source, "target": target, "weight": entry.weight}

    valid = {key: value for key, value in corpus(training.valid).items() if key != "weight"}
    values["data"] = {"train": [corpus(entry) for entry in training.corpora], "valid": [valid]}
    if training.start is not None:
        start = str(out / "runs" / f"{training.start}-{seed}")
        values["text"] = {"kind": "given", "path": start}
        values["training"] = {**values["training"], "warm_start": start}
    return values


def synthesis_job(synthesis: Synthesis, seed: int, *, out: Path, prefix: str, device: str) -> Job:
    """The job that writes a synthetic text."""
    label = f"{synthesis.name}-{seed}"
    arguments = [part.format(seed=seed) for part in synthesis.command]
    output = out / "synthetic" / f"{label}.txt"
    command = [sys.executable, "-m", "recipes.back_translation.steps", *arguments]
    command += ["--out", str(out), "--to", str(output), "--device", device, "--seed", str(seed)]
    return Job(
        f"{prefix}-{label}",
        out / "synthetic" / label,
        (Stage("translating", lambda: command, output),),
        needs=tuple(f"{prefix}-{name}-{seed}" for name in synthesis.needs),
        cost=0.3,
    )
