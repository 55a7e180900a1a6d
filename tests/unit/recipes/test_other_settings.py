"""The results of a folder have one set of settings: a recipe refuses to add others."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from recipes.digits import run as digits
from recipes.recommendation import run as recommendation
from recipes.retrieval import run as retrieval
from recipes.runner import seeded
from recipes.scenes import run as scenes

CHANGED = ["training.steps=3"]


@pytest.mark.parametrize(
    ("recipe", "others"),
    [
        (scenes, [["--small"], ["--language", "zh"], CHANGED]),
        (recommendation, [CHANGED]),
        (retrieval, [CHANGED]),
        (digits, [["--strings", "9"], ["--tested-strings", "9"], CHANGED]),
    ],
    ids=["scenes", "recommendation", "retrieval", "digits"],
)
def test_other_settings_need_another_folder(
    recipe: ModuleType,
    others: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(seeded, "run_jobs", lambda jobs, **_options: started.append(jobs) or 0)
    for name in ("score_baselines", "write_corpus", "write_records"):
        monkeypatch.setattr(recipe, name, lambda path, *_arguments, **_options: path, raising=False)
    monkeypatch.setattr(recipe, "both_directions", lambda *_arguments: (tmp_path, tmp_path), raising=False)
    out = tmp_path / "out"
    (out / "scenes").mkdir(parents=True)  # drawn already
    folders = [str(out)] if recipe is scenes else [str(tmp_path), str(out)]
    assert recipe.main(folders) == 0 and len(started) == 1
    for other in others:
        assert recipe.main([*folders, *other]) == 2
        assert "was started with other settings" in capsys.readouterr().err
    assert len(started) == 1
    assert recipe.main([*folders, "--jobs", "1", "--device", "cpu"]) == 0 and len(started) == 2
