"""Several recipes under one scheduler: all jobs run, dependencies are kept, and each recipe publishes its results."""

import argparse
import sys
from pathlib import Path
from types import ModuleType

import pytest
from recipes.runner import seeded
from recipes.runner.scheduler import Job, Stage
from recipes.scenes import run as scenes


def recipe(folder: Path, published: list[str], name: str) -> ModuleType:
    """A module whose plan has two jobs; the second appends to the file of the first."""

    def plan(arguments: list[str]) -> seeded.Plan:
        if "bad" in arguments:
            raise ValueError("no such corpus")
        jobs = []
        for label, needs in (("second", ("first",)), ("first", ())):
            output = folder / name / f"{label}.txt"
            earlier = folder / name / "first.txt"
            code = f"import pathlib; pathlib.Path({str(output)!r}).write_text({label!r})"
            if needs:
                code += f"; assert pathlib.Path({str(earlier)!r}).is_file()"
            command = [sys.executable, "-c", code]
            jobs.append(
                Job(label, folder / name, (Stage("writing", lambda command=command: command, output),), needs=needs)
            )
        (folder / name).mkdir(parents=True, exist_ok=True)
        return seeded.Plan(jobs, argparse.Namespace(), lambda: published.append(f"{name} {' '.join(arguments)}"))

    module = ModuleType(name)
    module.plan = plan  # type: ignore[attr-defined]
    return module


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for name in ("tones", "rhymes"):
        monkeypatch.setitem(sys.modules, name, recipe(tmp_path, found, name))
    return found


def test_all_jobs_run_and_all_recipes_publish(published: list[str], tmp_path: Path) -> None:
    """Both recipes have jobs of the same names."""
    assert seeded.main(["--jobs", "2", "--", "tones", "here", "--", "rhymes", "there", "a.b=1"]) == 0
    assert published == ["tones here", "rhymes there a.b=1"]
    for name in ("tones", "rhymes"):
        assert {path.name for path in (tmp_path / name).glob("*.txt")} == {"first.txt", "second.txt"}


def test_a_mistake_is_reported_before_anything_runs(
    published: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert seeded.main(["--", "tones", "here", "--", "rhymes", "bad"]) == 2
    assert "rhymes: no such corpus" in capsys.readouterr().err
    assert not published and not list(tmp_path.glob("*/*.txt"))


@pytest.mark.parametrize("module", ["recipes.nowhere", "recipes.runner.files"])
def test_a_module_that_is_no_recipe_is_a_mistake(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert seeded.main(["--", module, "OUT"]) == 2
    assert f"{module}: not a recipe" in capsys.readouterr().err


def test_the_same_seed_twice_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scenes").mkdir()  # drawn already
    assert scenes.main([str(tmp_path), "--seeds", "2", "2", "--only", "soft"]) == 2
    assert "recipes.scenes: soft-2 would be run twice" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--"], ["--jobs", "2"]])
def test_no_recipe_is_a_mistake(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        seeded.main(arguments)
    assert raised.value.code == 2
    assert "name at least one recipe" in capsys.readouterr().err


def test_results_are_saved_where_the_options_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "README.md"
    page.write_text("# Tones\n\n<!-- results -->\n\n<!-- /results -->\n")
    parser = seeded.seeded_parser("about tones", seeds=[4, 5], jobs=3)
    options = parser.parse_args(["--keep", str(tmp_path / "results.json"), "--write", str(page)])
    assert options.seeds == [4, 5] and options.jobs == 3 and options.device == "auto" and options.minutes is None
    seeded.publish(options, {"wer": 3}, "| table |")
    assert "| table |" in page.read_text() and "| table |" in capsys.readouterr().out
    assert '"wer": 3' in (tmp_path / "results.json").read_text()
