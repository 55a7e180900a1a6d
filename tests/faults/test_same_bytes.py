"""Same seed, same bytes (P10), however many threads make the batches (P3)."""

import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import SHORT, Warm, config_file, differences, families, killing

pytestmark = pytest.mark.slow


@families
def test_the_same_seed_twice_gives_the_same_bytes(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    original = scene(family)
    config = original.whole.parent / "config.toml"
    assert warm("train", "--config", config, "--run", tmp_path / "again").code == 0
    wrong = differences(tmp_path / "again", original.whole)
    tally("same seed again", family, tried=1, wrong=wrong)
    assert warm("train", "--config", config, "--run", tmp_path / "other", "seed=4").code == 0
    assert {"metrics.jsonl", "model/weights.safetensors"} <= {*differences(tmp_path / "other", original.whole)}


@families
@pytest.mark.parametrize("workers", [0, 4])
def test_workers_do_not_change_a_byte(
    family: str, workers: int, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """Also when a run is killed with one number of them and resumed with another."""
    original, run = scene(family), tmp_path / "run"
    config = config_file(tmp_path, family, *SHORT, f"training.batch.workers={workers}")
    half = len(original.calls) // 2
    assert warm("train", "--config", config, "--run", run, fault=killing(run, at=half)).was_killed
    text = (run / "config.toml").read_text(encoding="utf-8")
    assert f"workers = {workers}\n" in text
    (run / "config.toml").write_text(text.replace(f"workers = {workers}\n", "workers = 2\n"), encoding="utf-8")
    assert warm("train", "--resume", run).code == 0
    assert warm("train", "--config", config, "--run", tmp_path / "straight").code == 0
    shutil.copy(original.whole / "config.toml", run)  # these say how many, and where the corpus lies
    shutil.copy(original.whole / "config.toml", tmp_path / "straight")
    wrong = differences(run, original.whole) + differences(tmp_path / "straight", original.whole)
    tally(f"{workers} workers instead of 1", family, tried=2, wrong=wrong)
