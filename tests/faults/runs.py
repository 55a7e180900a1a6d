"""Runs to be faulted: tiny models of three families, what an uninterrupted run gives, and what must hold after a fault.

`Warm` starts commands in forks of one warm process. A `Scene` is a run that stands right after its first checkpoint;
what is left of it holds two saves, two validations, a pruning and the averaging. It is copied for every fault.
"""

import hashlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from calque.config import check, to_toml, to_values
from calque.experiment import Experiment
from calque.models.systems import system_model
from calque.training.checkpoints import load_checkpoint
from calque.training.journal import read_journal
from tests.conftest import Values, toy_corpus, toy_values
from tests.faults import tracing
from tests.warming import WarmProcess, root_environment

FAMILIES: dict[str, tuple[str, float]] = {
    "luong2015": ("luong2015", 0.016),
    "gehring2017": ("gehring2017", 0.03),
    "transformer": ("tiny", 0.1),
}
"""A recurrent model with attention, a convolutional one and a Transformer, as their systems are, but small."""
families = pytest.mark.parametrize("family", FAMILIES)

SHORT = (
    "data.validation.minimum=4",
    "training.steps=6",
    "training.log_every=1",
    "training.validate_every=3",
    "training.checkpoint_every=2",
    "training.keep=2",
)
# Long enough to be hit, with an interval for everything that shares no factor with the others.
LONG = (
    "data.validation.minimum=4",
    "training.steps=60",
    "training.log_every=7",
    "training.validate_every=13",
    "training.checkpoint_every=11",
    "training.average=3",
)


class Ended(NamedTuple):
    """How a command ended, and what was seen of it."""

    code: int
    out: str
    err: str
    log: str  # of the fault layer
    trace: str  # of strace
    seconds: float
    pid: int

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Warm(WarmProcess):
    """Commands in forks of one process that has everything imported."""

    def __init__(self) -> None:
        super().__init__("-m", "tests.faults.server", env=root_environment())
        self.answer()

    def __call__(self, *arguments: object, **request: Any) -> Ended:
        """`calque ARGUMENTS`, with a `fault`, a bad `step`, a `watch`, options of `strace`, or a `largest` file."""
        return Ended(**self.ask({"arguments": [str(argument) for argument in arguments], **request}))


class Scene(NamedTuple):
    """A family's run: whole, and as it stood after its first checkpoint."""

    family: str
    whole: Path
    base: Path
    beginning: list[str]  # calls of the file system until the first checkpoint, as the layer sees them
    calls: list[str]  # of the rest of the run

    def copy(self, place: Path) -> Path:
        """A fresh copy of the unfinished run."""
        return _copied(self.base, place)

    def copy_whole(self, place: Path) -> Path:
        """A fresh copy of the finished run."""
        return _copied(self.whole, place)


def _copied(folder: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    return place


def system_calls(warm: Warm, scene: Scene, place: Path) -> list[tracing.Call]:
    """What the rest of a run asks of the system, as strace sees it."""
    run = scene.copy(place)
    traced = warm("train", "--resume", run, strace=tracing.watching())
    calls = tracing.calls(traced.trace, pid=traced.pid, root=run)
    assert {"write", "fsync", "rename", "renameat2", "mkdir"} <= {call.name for call in calls}, traced.trace[-2000:]
    return calls


def config_file(folder: Path, family: str, *overrides: str) -> Path:
    """A config in which nothing is left to be chosen."""
    name, scale = FAMILIES[family]
    model = to_values(system_model(name, scale=scale))
    values: Values = toy_values(toy_corpus(folder / "corpus", pairs=200), model, "text.joint=true", *overrides)
    file = folder / "config.toml"
    file.write_text(to_toml(check(Experiment, values, origin="test")), encoding="utf-8")
    return file


def make_scene(warm: Warm, folder: Path, family: str) -> Scene:
    """The whole run, and one that was killed at the first call after its first checkpoint was in its place."""
    config = config_file(folder, family, *SHORT)
    whole, base, rest = folder / "whole", folder / "base", folder / "rest"
    counted = warm("train", "--config", config, "--run", whole, fault=counting(whole))
    assert counted.code == 0, counted.err
    calls = counted.log.splitlines()
    saved = next(k for k, call in enumerate(calls) if call.startswith("rename checkpoints/step-2.tmp"))
    after = next(k for k, call in enumerate(calls) if k > saved and call == "write metrics.jsonl")
    assert warm("train", "--config", config, "--run", base, fault=killing(base, at=after + 1)).was_killed
    assert list(sound_steps(base)) == [2]
    scene = Scene(family, whole, base, beginning=calls[: saved + 1], calls=[])
    scene.copy(rest)
    again = warm("train", "--resume", rest, fault=counting(rest))
    assert again.code == 0, again.err
    assert differences(rest, whole) == []
    return scene._replace(calls=again.log.splitlines())


def counting(root: Path) -> dict[str, Any]:
    return {"kind": "count", "root": str(root)}


def killing(root: Path, *, at: int) -> dict[str, Any]:
    return {"kind": "kill", "root": str(root), "at": at}


def sound_steps(run: Path) -> Iterator[int]:
    """Steps whose checkpoint loads, oldest first; a fault may leave litter, but never a damaged one in its place."""
    for step in steps(run):
        load_checkpoint(run / "checkpoints" / f"step-{step}")
        yield step


def steps(run: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step-*") if path.name[5:].isdigit())


def digests(run: Path) -> dict[str, str]:
    """SHA-256 of all that must be the same however a run came to its end."""
    files = [run / "metrics.jsonl", run / "samples.txt", run / "config.toml", run / "run.json"]
    files += [path for part in ("model", "checkpoints") for path in sorted((run / part).rglob("*")) if path.is_file()]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def differences(run: Path, whole: Path, *, history: bool = True) -> list[str]:
    """Files of a finished run that are not those of the whole one; without `history`, who followed whom may differ.

    That is so after an interrupt, whose extra save is the parent of the next one. Litter and doubled lines are named.
    """
    actual, expected = digests(run), digests(whole)
    if not history:
        for names in (actual, expected):
            for name in [*names]:
                if name.startswith("checkpoints/") and name.endswith(".json"):
                    del names[name]
    wrong = [name for name in sorted({*actual, *expected}) if actual.get(name) != expected.get(name)]
    lines = [(line["kind"], line["step"], "averaged" in line) for line in read_journal(run / "metrics.jsonl")]
    return wrong + (["metrics.jsonl: doubled lines"] if len(set(lines)) < len(lines) else []) + litter(run)


def litter(run: Path) -> list[str]:
    """Temporary and replaced files, which must not remain."""
    return [str(path.relative_to(run)) for path in run.rglob("*") if ".tmp" in path.name or ".old-" in path.name]


def report(point: object, problems: list[str]) -> list[str]:
    """One line for a point at which something is wrong, printed at once, since an enumeration takes minutes."""
    lines = [f"{point}: {'; '.join(problems)}"] if problems else []
    for line in lines:
        print(line, flush=True)
    return lines


def fate(warm: Warm, run: Path, whole: Path, *, before: int = 2, history: bool = True) -> list[str]:
    """What is wrong after a fault: no loadable checkpoint, or another end than that of the whole run."""
    sound = list(sound_steps(run))
    if not sound or max(sound) < before:
        return [f"checkpoints {sound}, but there was one of step {before}"]
    resumed = warm("train", "--resume", run)
    if resumed.code != 0:
        return [f"resume: exit code {resumed.code}: {resumed.err[-400:]}"]
    if f"resuming from step {max(sound)}\n" not in resumed.err:
        return [f"checkpoints {sound}, but: {resumed.err}"]
    return differences(run, whole, history=history)
