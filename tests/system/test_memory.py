"""Training takes no more memory on a longer corpus."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("pairs", "steps"),
    [
        pytest.param(2_000_000, 20, marks=pytest.mark.slow),
        pytest.param(50_000_000, 200, marks=pytest.mark.full),  # 3 GB on disk
    ],
)
def test_anonymous_memory_does_not_grow_with_the_store(tmp_path: Path, pairs: int, steps: int) -> None:
    """Of 50 thousand pairs and of many more, ± 50 MB; read whole, two million would take 120."""
    command = [sys.executable, "-m", "benchmarks.stores", "50000", str(pairs)]
    command += ["--folder", str(tmp_path), "--steps", str(steps)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
