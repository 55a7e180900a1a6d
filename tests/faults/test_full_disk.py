"""A full disk at every call that needs room: the old checkpoint is intact, one message says so, no litter (P6).

Once a single call fails, as if space were freed at once, and once every call from there on, as if it were not;
with the fault layer, with strace, with a limit on the size of files and with a file system that is really full.
"""

import random
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import tracing
from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import Ended, Scene, Warm, differences, families, fate, litter, report, system_calls

pytestmark = pytest.mark.slow


NEEDING = ("open", "write", "half", "save", "fsync", "mkdir", "rename", "exchange")
"""Calls that a full disk can refuse, as the layer names them."""


def filling(root: Path, *, at: int, lasting: bool) -> dict[str, Any]:
    return {"kind": "full", "root": str(root), "at": at, "lasting": lasting}


def verdict(ended: Ended, run: Path, scene: Scene, warm: Warm) -> list[str]:
    """What is wrong after a full disk; a call whose failure does no harm may go unsaid, if the end is the same."""
    if ended.code == 0:
        return differences(run, scene.whole)
    wrong = [f"litter: {name}" for name in litter(run)]
    if ended.code not in (1, 2):
        wrong.append(f"exit code {ended.code}")
    messages = [line for line in ended.err.splitlines() if line.startswith("calque: ")]
    if len(messages) != 1 or "No space left" not in messages[0] or "Traceback" in ended.err:
        wrong.append(f"said: {ended.err[-300:]!r}")
    return wrong + fate(warm, run, scene.whole)


def fill_at(warm: Warm, scene: Scene, place: Path, points: Iterable[tuple[int, bool]]) -> tuple[int, list[str]]:
    """How many calls of the layer failed, and what went wrong after which."""
    wrong: list[str] = []
    tried = 0
    for point, lasting in points:
        run = scene.copy(place)
        ended = warm("train", "--resume", run, fault=filling(run, at=point, lasting=lasting))
        tried += 1
        name = f"{point} {scene.calls[point - 1]}{' and on' if lasting else ''}"
        wrong += report(name, verdict(ended, run, scene, warm))
    return tried, wrong


def needing(scene: Scene) -> list[int]:
    return [k for k, call in enumerate(scene.calls, start=1) if call.split()[0] in NEEDING]


@families
def test_a_disk_that_is_full_at_a_sample_of_calls(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, seed: int, tally: Tally
) -> None:
    original = scene(family)
    generator = random.Random(f"{seed}/full/{family}")
    saves = [k for k in needing(original) if "checkpoints/step-" in original.calls[k - 1]]
    points = [(generator.choice(saves), lasting) for lasting in (False, True)]
    points += [(generator.choice(needing(original)), lasting) for lasting in (False, True)]
    tried, wrong = fill_at(warm, original, tmp_path / "run", points)
    tally("full disk at a call, fault layer", family, tried=tried, wrong=wrong)


@pytest.mark.full
@families
@pytest.mark.parametrize("lasting", [False, True])
def test_a_disk_that_is_full_at_every_call(
    family: str, lasting: bool, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    original = scene(family)
    tried, wrong = fill_at(warm, original, tmp_path / "run", [(k, lasting) for k in needing(original)])
    tally("full disk at a call, fault layer", family, tried=tried, wrong=wrong)


def fill_below(warm: Warm, scene: Scene, place: Path, sample: int | None, seed: object) -> tuple[int, list[str]]:
    """The same with strace: one call of the save of a checkpoint fails."""
    calls = [
        call
        for call in system_calls(warm, scene, place)
        if call.name in ("write", "pwrite64", "fsync", "mkdir") and (sample is None or "step-" in call.arguments)
    ]
    wrong: list[str] = []
    chosen = calls if sample is None else random.Random(f"{seed}").sample(calls, sample)
    for call in chosen:
        run = scene.copy(place)
        ended = warm("train", "--resume", run, strace=tracing.filling(call))
        wrong += report(call, verdict(ended, run, scene, warm))
    return len(chosen), wrong


@families
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("sample", [2, pytest.param(None, marks=pytest.mark.full)])
def test_a_disk_that_is_full_at_system_calls(
    family: str, sample: int | None, warm: Warm, scene: Scenes, tmp_path: Path, seed: int, tally: Tally
) -> None:
    tried, wrong = fill_below(warm, scene(family), tmp_path / "run", sample, seed=f"{seed}/full/{family}")
    tally("full disk at a call, strace", family, tried=tried, wrong=wrong)


@families
def test_a_limit_on_the_size_of_files(family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally) -> None:
    """`ulimit -f`: the checkpoint before stays, whatever part of the next one fits."""
    original = scene(family)
    largest = max(path.stat().st_size for path in original.base.rglob("*.safetensors"))
    wrong: list[str] = []
    for limit in (largest // 2, largest - 1):
        run = original.copy(tmp_path / "run")
        ended = warm("train", "--resume", run, largest=limit)
        wrong += [] if ended.code == 2 else [f"{limit}: exit code {ended.code}"]
        wrong += [] if "the disk is full (File too large)" in ended.err else [f"{limit}: said {ended.err[-300:]}"]
        wrong += [f"{limit}: {problem}" for problem in litter(run) + fate(warm, run, original.whole)]
    tally("full disk, ulimit -f", family, tried=2, wrong=wrong)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A file system of that many bytes."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "calque-faults", str(place)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no file system may be mounted here")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@families
def test_a_file_system_that_is_really_full(
    family: str, warm: Warm, scene: Scenes, small_disk: Callable[[int], Path], tally: Tally, seed: int
) -> None:
    """And when there is room again, a resume ends the same."""
    original = scene(family)
    size = sum(path.stat().st_size + 4096 for path in original.base.rglob("*"))
    disk = small_disk(3 * size + (1 << 20))
    run = original.copy(disk / "run")
    room = shutil.disk_usage(disk).free
    step = sum(path.stat().st_size for path in (run / "checkpoints" / "step-2").iterdir())
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(room - random.Random(f"{seed}/{family}").randrange(1, 2 * step)))
    ended = warm("train", "--resume", run)
    ballast.unlink()
    wrong = verdict(ended, run, original, warm)
    assert ended.code in (1, 2)
    tally("full disk, a small tmpfs", family, tried=1, wrong=wrong)
