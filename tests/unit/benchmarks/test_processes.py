"""What a process cost, against a process whose cost is known."""

import os
import resource
import sys
from pathlib import Path

import pytest
from benchmarks.errors import ContenderError
from benchmarks.processes import Usage, run_measured

BURN = "import time\nwhile time.process_time() < {}: pass\n"


def measure(code: str, *, folder: Path) -> Usage:
    return run_measured([sys.executable, "-c", code], environment=os.environ, folder=folder)


def test_cpu_seconds_are_those_of_the_process_and_of_its_children(tmp_path: Path) -> None:
    alone = measure(BURN.format(0.4), folder=tmp_path)
    assert 0.4 <= alone.cpu < 0.9
    assert alone.wall >= 0.39
    family = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN.format(0.4)!r}])"
    assert 0.4 <= measure(family, folder=tmp_path).cpu < 0.9


def test_waiting_costs_wall_time_alone(tmp_path: Path) -> None:
    asleep = measure("import time; time.sleep(0.5)", folder=tmp_path)
    assert asleep.wall >= 0.5
    assert asleep.cpu < 0.4


def test_the_peak_is_of_memory_in_bytes(tmp_path: Path) -> None:
    """It counts from the largest resident set that this process has ever had, so the block is larger than that."""
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    block = ours + (200 << 20)
    peak = measure(f"block = b'x' * {block}", folder=tmp_path).peak
    assert block < peak < block + (100 << 20)


def test_a_failure_tells_the_command_the_code_and_the_last_lines(tmp_path: Path) -> None:
    code = "import sys\nfor number in range(100): print('line', number)\nsys.exit(7)"
    with pytest.raises(ContenderError, match=r"exit code 7: .*\n(.*\n)*  line 99$") as raised:
        measure(code, folder=tmp_path)
    assert "line 5\n" not in str(raised.value)


def test_a_killed_process_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ContenderError, match="exit code -9"):
        measure("import os; os.kill(os.getpid(), 9)", folder=tmp_path)
