"""kill -9 at every file-system call of the rest of a run: a checkpoint is there, a resume ends the same (P1, P2, P9).

The rest of a run holds two saves, a pruning, three model folders written (two of them exchanged) and all that lies
between; every fsync, rename, exchange, write, half a write, truncation, mkdir and unlink of it is struck.
"""

import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.faults import tracing
from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import FAMILIES, Scene, Warm, differences, families, fate, killing, report, system_calls

pytestmark = pytest.mark.slow


def kill_at(warm: Warm, scene: Scene, place: Path, points: Iterable[int]) -> tuple[int, list[str]]:
    """How many calls were struck by the layer, and what went wrong after which."""
    wrong: list[str] = []
    struck = 0
    for point in points:
        run = scene.copy(place)
        ended = warm("train", "--resume", run, fault=killing(run, at=point))
        assert ended.was_killed, f"call {point}: {ended.err}"
        struck += 1
        wrong += report(f"{point} {scene.calls[point - 1]}", fate(warm, run, scene.whole))
    return struck, wrong


def kill_below(warm: Warm, scene: Scene, place: Path, sample: int | None, seed: object) -> tuple[int, list[str]]:
    """The same with strace, at `sample` of the system calls, or at all of them."""
    calls = system_calls(warm, scene, place)
    wrong: list[str] = []
    chosen = calls if sample is None else random.Random(f"{seed}").sample(calls, sample)
    for call in chosen:
        run = scene.copy(place)
        ended = warm("train", "--resume", run, strace=tracing.killing(call))
        assert ended.was_killed, f"{call}: {ended.code} {ended.err}"
        wrong += report(call, fate(warm, run, scene.whole))
    return len(chosen), wrong


def kill_beginning(warm: Warm, scene: Scene, run: Path, points: Iterable[int]) -> tuple[int, list[str]]:
    """Killed before there is any checkpoint: a resume begins again, with its data prepared anew, and ends the same."""
    wrong: list[str] = []
    struck = 0
    for point in points:
        shutil.rmtree(run, ignore_errors=True)
        config = scene.whole.parent / "config.toml"
        assert warm("train", "--config", config, "--run", run, fault=killing(run, at=point)).was_killed
        struck += 1
        ended = warm("train", "--resume", run)
        problems = differences(run, scene.whole) if ended.code == 0 else [ended.err[-400:]]
        wrong += report(f"{point} {scene.beginning[point - 1]}", problems)
    return struck, wrong


def begun(scene: Scene) -> int:
    """The first call after the run has its config, from where on it can be resumed."""
    return next(k for k, call in enumerate(scene.beginning, start=1) if call.startswith("rename config.toml")) + 1


def test_a_kill_at_a_sample_of_calls_before_the_first_checkpoint(
    warm: Warm, scene: Scenes, tmp_path: Path, seed: int, tally: Tally
) -> None:
    family = random.Random(seed).choice([*FAMILIES])
    original = scene(family)
    points = random.Random(f"{seed}/beginning").sample(range(begun(original), len(original.beginning) + 1), 4)
    struck, wrong = kill_beginning(warm, original, tmp_path / "run", points)
    tally("kill -9 before the first checkpoint", family, tried=struck, wrong=wrong)


@pytest.mark.full
@families
def test_a_kill_at_every_call_before_the_first_checkpoint(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    original = scene(family)
    struck, wrong = kill_beginning(
        warm, original, tmp_path / "run", range(begun(original), len(original.beginning) + 1)
    )
    tally("kill -9 before the first checkpoint", family, tried=struck, wrong=wrong)


@families
def test_a_kill_at_a_sample_of_calls(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, seed: int, tally: Tally
) -> None:
    original = scene(family)
    saves = [k for k, call in enumerate(original.calls, start=1) if "checkpoints/step-" in call]
    generator = random.Random(f"{seed}/{family}")
    points = generator.sample(saves, 4) + generator.sample(range(1, len(original.calls) + 1), 3)
    struck, wrong = kill_at(warm, original, tmp_path / "run", points)
    tally("kill -9 at a call, fault layer", family, tried=struck, wrong=wrong)


@families
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("sample", [3, pytest.param(None, marks=pytest.mark.full)])
def test_a_kill_at_system_calls(
    family: str, sample: int | None, warm: Warm, scene: Scenes, tmp_path: Path, seed: int, tally: Tally
) -> None:
    struck, wrong = kill_below(warm, scene(family), tmp_path / "run", sample, seed=f"{seed}/{family}")
    tally("kill -9 at a call, strace", family, tried=struck, wrong=wrong)


@pytest.mark.full
@families
def test_a_kill_at_every_call(family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally) -> None:
    original = scene(family)
    struck, wrong = kill_at(warm, original, tmp_path / "run", range(1, len(original.calls) + 1))
    tally("kill -9 at a call, fault layer", family, tried=struck, wrong=wrong)
