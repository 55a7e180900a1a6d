"""The recipe that compares precisions on Multi30k: its jobs and its tables."""

import json
from pathlib import Path

import pytest
from recipes.multi30k import precision
from recipes.runner import evaluating


def scored(out: Path, name: str, *, plain: float, changes: dict[str, float]) -> None:
    """Writes the results of a run: BLEU on val, and 1 less on the test set."""
    folder = out / name
    folder.mkdir(parents=True)
    (folder / "trained").touch()
    for part, value in zip(precision.SETS, (plain, plain - 1), strict=True):
        for way in precision.WAYS:
            scores = {precision.METRIC: {"value": value + changes.get(way, 0.0)}}
            precision.result_file(folder, part, way).write_text(json.dumps(scores))


def test_tables_have_means_over_seeds_and_changes_of_every_run(tmp_path: Path) -> None:
    scored(tmp_path, "best-bfloat16-1", plain=42.0, changes={"int8": 0.1, "both": -0.3})
    scored(tmp_path, "best-bfloat16-2", plain=43.0, changes={"int8": -0.1})
    (tmp_path / "best-bfloat16-3").mkdir()
    (tmp_path / "best-bfloat16-3" / "trained").touch()  # not scored yet
    first, second = precision.page(precision.collect(tmp_path)).split("\n\n")
    assert first.splitlines()[2] == "| best | bfloat16 | 42.50 (42.00 to 43.00) | 41.50 (41.00 to 42.00) | 2 |"
    rows = second.splitlines()[2:]
    assert rows[0] == "| best-bfloat16-1 | 42.00 | +0.10 | +0.00 | -0.30 | 41.00 | +0.10 | +0.00 | -0.30 |"
    assert rows[2] == "| mean of 2 |  | +0.00 | +0.00 | -0.15 |  | +0.00 | +0.00 | -0.15 |"
    assert len({line.count("|") for line in second.splitlines()}) == 1


def test_a_job_trains_and_scores_in_every_way(tmp_path: Path) -> None:
    run = precision.Trained("lstm", "bfloat16", 2)
    job = precision.job(run, corpus=tmp_path, out=tmp_path / "out", settings=["training.steps=1"])
    commands = [stage.command() for stage in job.stages]
    assert {"training.precision=bfloat16", "seed=2", "training.steps=1"} < set(commands[0])
    assert commands[1][-2:] == ["shortlist", str(tmp_path / "out" / "lstm-bfloat16-2")]
    assert len(commands) == 2 + len(precision.SETS) * len(precision.WAYS)
    both = next(command for command in commands if "shortlist=true" in command and "int8" in command)
    assert str(tmp_path / "val.en.gz") in both and both[3].endswith("val.both.json")


def test_an_evaluation_that_fails_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert evaluating.main([str(tmp_path / "result.json"), str(tmp_path / "missing")]) != 0
    assert not (tmp_path / "result.json").exists()
    assert "missing" in capfd.readouterr().err
