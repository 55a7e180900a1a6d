"""The recipe of scenes: its jobs are commands that exist, and its table says what was reached."""

import argparse
from pathlib import Path

import pytest
from recipes.scenes import run

from calque.config import check, read_toml
from calque.experiment import Experiment, experiment_values


def options(**changes: object) -> argparse.Namespace:
    defaults = {"small": False, "language": "en", "device": "cpu", "settings": ["training.threads=1"]}
    return argparse.Namespace(**{**defaults, **changes})


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("entry", run.ENTRIES, ids=lambda entry: entry.name)
def test_every_training_has_valid_settings(entry: run.Entry, small: bool, tmp_path: Path) -> None:
    job = run.job(entry, 2, out=tmp_path, options=options(small=small))
    command = job.stages[0].command()
    arguments = command[command.index("train") + 1 :]
    settings = [argument for argument in arguments if "=" in argument]
    scale = float(arguments[arguments.index("--scale") + 1]) if "--scale" in arguments else 1.0
    values = experiment_values(
        config=run.HERE / "base.toml",
        system=entry.system,
        corpora={"train": [{"kind": "images", "path": "a"}]},
        assignments=settings,
        scale=scale,
    )
    experiment = check(Experiment, values, origin="recipe")
    assert experiment.seed == 2 and experiment.task.kind == "captioning" and experiment.training.device == "cpu"
    assert experiment.training.steps == (3000 if small else read_toml(run.HERE / "base.toml")["training"]["steps"])


def result(exact: float, inside: float) -> dict:
    return {
        "exact_match": {"value": exact},
        "bleu": {"value": exact},
        "attention": {"inside": inside, "area": 0.05, "points": 0.5, "names": 10},
    }


def test_the_table_has_means_ranges_and_verdicts() -> None:
    page = run.page({"soft": [result(96, 0.4), result(98, 0.6)], "hard": [result(80, 0.7)], "transformer": []})
    soft, hard = page.splitlines()[2:]
    assert "97.0 (96.0 to 98.0)" in soft and "95 reached" in soft and "50.0 (40.0 to 60.0); boxes cover 5.0" in soft
    assert "95 missed" in hard and hard.endswith("| 1 |")


def test_pictures_of_one_seed_are_kept(tmp_path: Path) -> None:
    drawn = tmp_path / "out" / "soft-1" / "attention"
    drawn.mkdir(parents=True)
    (drawn / f"{run.PICTURED:06}.png").write_bytes(b"picture")
    run.keep_pictures(tmp_path / "out", tmp_path, seed=1)
    assert (tmp_path / "attention-soft.png").read_bytes() == b"picture"
    assert not (tmp_path / "attention-hard.png").exists()
