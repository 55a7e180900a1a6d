"""kill -9 at random moments of a longer run, two resumes each, and at the ends of epochs: the same bytes (P1, P9).

The run has dropout, accumulation, early stopping's counters and averaging; nothing in it falls together by its
intervals. A real process, started as a user starts it, is in `test_signals`.
"""

import random
import shutil
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from calque.training.journal import read_journal
from tests.faults.conftest import Tally
from tests.faults.runs import LONG, Ended, Warm, config_file, counting, differences, families, killing, sound_steps
from tests.faults.server import PATIENCE

pytestmark = pytest.mark.slow


class Long(NamedTuple):
    """A longer, undisturbed run."""

    config: Path
    whole: Path
    calls: list[str]
    seconds: float


Longs = Callable[[str], Long]


@pytest.fixture(scope="session")
def long(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Longs:
    @cache
    def make(family: str) -> Long:
        folder = tmp_path_factory.mktemp(f"long-{family}")
        config = config_file(folder, family, *LONG)
        ended = warm("train", "--config", config, "--run", folder / "whole", fault=counting(folder / "whole"))
        assert ended.code == 0, ended.err
        return Long(config, folder / "whole", ended.log.splitlines(), ended.seconds)

    return make


DRAWS = 10
"""How often two moments are drawn, where the run is over before one of them."""


def killed_twice(warm: Callable[..., Ended], original: Long, run: Path, generator: random.Random) -> list[str]:
    """Begun and killed, resumed and killed, and resumed to the end: what is wrong then.

    A run that was over before its kill proves nothing: two other moments are drawn, unless it ended wrong.
    """
    for _ in range(DRAWS):
        kills, wrong = two_kills(warm, original, run, generator)
        if kills == 2 or wrong:
            return wrong
    raise AssertionError(f"{DRAWS} times the run was over before it had been killed twice")


def two_kills(warm: Callable[..., Ended], original: Long, run: Path, generator: random.Random) -> tuple[int, list[str]]:
    """How many of two kills struck, and what is wrong in the end."""
    shutil.rmtree(run, ignore_errors=True)
    arguments: list[Any] = ["--config", original.config, "--run", run]
    wounds: list[str] = []
    for line in sorted(generator.sample(range(1, len(read_journal(original.whole / "metrics.jsonl"))), 2)):
        delay = generator.uniform(0, original.seconds / 10)
        watch = {"file": str(run / "metrics.jsonl"), "lines": line, "delay": delay, "numbers": [9]}
        ended = warm("train", *arguments, watch=watch)
        assert ended.seconds < PATIENCE, "it hung, and was killed for that"
        if not ended.was_killed:
            break
        steps = list(sound_steps(run))
        wounds.append(f"kill -9 {delay:.3f} s after line {line}, checkpoints {steps}")
        if any("resuming from step" in line for line in ended.err.splitlines()) and not steps:
            return len(wounds), [*wounds, "no checkpoint is left"]
        arguments = ["--resume", run]
    else:
        ended = warm("train", *arguments)
    wrong = differences(run, original.whole) if ended.code == 0 else [ended.err]
    return len(wounds), [*wounds, *wrong] if wrong else []


class Late(NamedTuple):
    """A warm process in which the kills of some commands come too late; it writes down how each one ended."""

    warm: Warm
    missed: range
    codes: list[int]

    def __call__(self, *arguments: object, watch: dict[str, Any] | None = None) -> Ended:
        if watch is not None and len(self.codes) in self.missed:
            watch = {**watch, "lines": 10**9}
        ended = self.warm(*arguments, watch=watch)
        self.codes.append(ended.code)
        return ended


def test_a_run_that_is_over_before_its_kill_does_not_count(
    warm: Warm, long: Longs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, run = long("luong2015"), tmp_path / "run"
    late = Late(warm, missed=range(1, 2), codes=[])
    assert killed_twice(late, original, run, random.Random(0)) == []
    assert late.codes[1] == 0
    assert late.codes[-3:] == [-9, -9, 0]
    monkeypatch.setattr(f"{__name__}.DRAWS", 2)
    late = Late(warm, missed=range(9), codes=[])
    with pytest.raises(AssertionError, match="2 times the run was over"):
        killed_twice(late, original, run, random.Random(0))
    assert late.codes == [0, 0]


@families
def test_kills_at_random_moments(family: str, warm: Warm, long: Longs, tmp_path: Path, seed: int, tally: Tally) -> None:
    wrong = killed_twice(warm, long(family), tmp_path / "run", random.Random(f"{seed}/{family}"))
    tally("two kills at random moments", family, tried=1, wrong=wrong)


@pytest.mark.full
@families
def test_thirty_kills_at_random_moments(
    family: str, warm: Warm, long: Longs, tmp_path: Path, seed: int, tally: Tally
) -> None:
    generator = random.Random(f"{seed}/thirty/{family}")
    wrong = [killed_twice(warm, long(family), tmp_path / "run", generator) for _ in range(30)]
    tally(
        "two kills at random moments", family, tried=30, wrong=["; ".join(problems) for problems in wrong if problems]
    )


@families
def test_a_kill_where_an_epoch_ends(
    family: str, warm: Warm, long: Longs, tmp_path: Path, seed: int, tally: Tally
) -> None:
    """At the first line of metrics and at the first checkpoint in a new epoch, and before the last step."""
    original = long(family)
    lines = read_journal(original.whole / "metrics.jsonl")
    trained = [number for number, line in enumerate(lines, start=1) if line["kind"] == "train"]
    turns = [number for before, number in pairwise(trained) if lines[number - 1]["epoch"] != lines[before - 1]["epoch"]]
    assert turns, "no epoch ended"
    number = random.Random(f"{seed}/epoch/{family}").choice(turns)
    writes = [k for k, call in enumerate(original.calls, start=1) if call == "write metrics.jsonl"]
    run = tmp_path / "run"
    assert warm(
        "train", "--config", original.config, "--run", run, fault=killing(run, at=writes[number - 1])
    ).was_killed
    ended = warm("train", "--resume", run)
    assert ended.code == 0, ended.err
    wrong = differences(run, original.whole)
    tally("kill where an epoch ends", family, tried=1, wrong=wrong)
