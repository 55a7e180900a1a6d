"""The distillation recipe, run as it is on a toy corpus."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import environment, toy_corpus

RUN = Path(__file__).parents[3] / "recipes/distillation/run"


@pytest.mark.slow
def test_a_student_learns_from_what_its_teacher_says(trained: Path, tmp_path: Path) -> None:
    for seed, (name, pairs) in enumerate((("train", 200), ("val", 20), ("test", 10))):
        files = toy_corpus(tmp_path / name, pairs=pairs, change=list, seed=seed + 5)
        for side, path in files.items():
            path.rename(tmp_path / f"{name}.{side}")
    settings = [f"training.{key}=6" for key in ("steps", "validate_every", "checkpoint_every")]
    command = [
        RUN,
        trained,
        tmp_path,
        tmp_path / "out",
        "source",
        "target",
        *settings,
        "training.threads=1",
        "model.tie=none",
    ]
    variables = {
        **environment(),
        "CALQUE": f"{sys.executable} -m calque",
        "PYTHON": sys.executable,
        "VALID": "val",
        "SCALE": "0.1",
        "BEAM": "2",
        "NBEST": "2",
    }
    for _ in range(2):  # the second time it finds what is there
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=variables, timeout=500)
        assert done.returncode == 0, done.stderr
    assert "this run is finished" in done.stdout + done.stderr
    nbest = (tmp_path / "out/distilled/part-0.tsv").read_text(encoding="utf-8").splitlines()
    distilled = (tmp_path / "out/distilled/train.target").read_text(encoding="utf-8").splitlines()
    sources = (tmp_path / "train.source").read_text(encoding="utf-8").splitlines()
    assert len(distilled) == len(sources) < len(nbest) <= 2 * len(sources)
    assert (
        sum(translation == source for translation, source in zip(distilled, sources, strict=True)) > 50
    )  # the teacher has learnt
    assert f'target = "{tmp_path / "out/distilled/train.target"}"' in (tmp_path / "out/student/config.toml").read_text()
    scores = (tmp_path / "out/scores.txt").read_text(encoding="utf-8")
    assert "== teacher: " in scores and "== student: " in scores
    assert scores.count("chrf") >= 2


@pytest.mark.parametrize("name", ["distillation/run", "multi30k/run"])
def test_scripts_say_how_they_are_used(name: str) -> None:
    script = RUN.parents[1] / name
    completed = subprocess.run([str(script), "--help"], capture_output=True, text=True, env=environment(), timeout=60)
    wrong = subprocess.run([str(script)], capture_output=True, text=True, env=environment(), timeout=60)
    assert (completed.returncode, wrong.returncode) == (0, 2)
    assert completed.stdout == wrong.stderr and f"recipes/{name} " in completed.stdout and "CALQUE" in completed.stdout
