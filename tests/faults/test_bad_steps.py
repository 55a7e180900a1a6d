"""Steps that go wrong: a loss that is no number is left out, a batch that does not fit is halved (P7, P8).

A killed run repeats both: it ends with the bytes of one that had the same bad steps and was not killed.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from calque.training.checkpoints import load_weights
from calque.training.journal import read_journal
from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import Scene, Warm, counting, differences, families, killing, sound_steps

pytestmark = pytest.mark.slow


def bad(kind: str, *steps: int, rows: int = 0) -> dict[str, Any]:
    return {"kind": kind, "steps": steps, "rows": rows}


def killed_at_step_5(warm: Warm, scene: Scene, folder: Path, *, before: dict[str, Any], after: Any) -> list[str]:
    """The problems of a run that had bad steps, was killed when step 5 was logged, and resumed with other bad steps."""
    whole, run = scene.copy(folder / "whole"), scene.copy(folder / "run")
    counted = warm("train", "--resume", whole, fault=counting(whole), step=before)
    assert counted.code == 0, counted.err
    metric_writes = [k for k, call in enumerate(counted.log.splitlines(), start=1) if call == "write metrics.jsonl"]
    fifth = metric_writes[3]  # steps 3, 3 (validation), 4, 5
    assert warm("train", "--resume", run, fault=killing(run, at=fifth), step=before).was_killed
    assert list(sound_steps(run))[-1] == 4
    resumed = warm("train", "--resume", run, step=after)
    return differences(run, whole) if resumed.code == 0 else [resumed.err]


def skipped(run: Path) -> list[int]:
    return [line["skipped"] for line in read_journal(run / "metrics.jsonl") if line["kind"] == "train"]


@families
def test_a_step_that_is_no_number_is_left_out_and_counted_also_after_a_kill(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """In step 5, which is taken twice."""
    step = bad("nan", 5)
    wrong = killed_at_step_5(warm, scene(family), tmp_path, before=step, after=step)
    assert skipped(tmp_path / "run") == [0, 0, 0, 0, 1, 1]
    assert "model/weights.safetensors" in differences(tmp_path / "run", scene(family).whole)
    tally("a loss that is no number", family, tried=1, wrong=wrong)


@families
def test_many_bad_steps_in_a_row_end_the_run_with_the_state_before_them(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """From step 3 on; the message names the batches, and once the cause is gone the run continues."""
    run = scene(family).copy(tmp_path / "run")
    config = (run / "config.toml").read_text(encoding="utf-8")
    assert "skips = 20\n" in config
    (run / "config.toml").write_text(config.replace("skips = 20\n", "skips = 3\n"), encoding="utf-8")
    ended = warm("train", "--resume", run, step=bad("nan", *range(3, 99)))
    assert ended.code == 1, ended.err
    assert "not finite in 3 steps in a row, up to step 5: batches " in ended.err
    assert "Traceback" not in ended.err
    good, kept = (load_weights(run / "checkpoints" / f"step-{step}") for step in (2, 5))
    assert all(torch.equal(value, kept[name]) for name, value in good.items())
    assert warm("train", "--resume", run).code == 0
    assert skipped(run) == [0, 0, 1, 2, 3, 3]
    tally("losses that are no number, in a row", family, tried=1, wrong=[])


@families
def test_a_batch_that_did_not_fit_is_split_again_after_a_kill(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """With dropout another split is another update, so a resume must split as before, however much memory it has."""
    wrong = killed_at_step_5(warm, scene(family), tmp_path, before=bad("memory", 3, 5, rows=4), after=None)
    lines = read_journal(tmp_path / "run" / "history.jsonl")
    assert {line["step"] for line in lines} == {3, 5}
    assert all(line["parts"] > 1 for line in lines)
    assert lines == read_journal(tmp_path / "whole" / "history.jsonl")
    assert "model/weights.safetensors" in differences(tmp_path / "run", scene(family).whole)
    tally("memory that runs out", family, tried=1, wrong=wrong)
