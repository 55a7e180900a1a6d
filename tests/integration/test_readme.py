"""The README's own commands, run as they stand there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from calque.commands.main import app
from calque_phrasebook import phrasebook
from tests.tagged import write_conllu

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
SCRIPTS = [line for line in COMMANDS if line.startswith("./scripts/")]
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(command: str, *, folder: Path, timeout: int = 900) -> str:
    """What a shell command prints on standard output; it must succeed."""
    done = subprocess.run(
        command, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_has_its_test() -> None:
    """A command that comes to the README must be run by one of the tests below."""
    assert SCRIPTS == ["./scripts/quickstart", "./scripts/test"]
    others = [line for line in COMMANDS if line not in SCRIPTS]
    assert all(line.startswith(("calque ", "pip install ")) for line in others)
    assert sum(kind == "python" for kind, _ in BLOCKS) == 1


def test_every_task_and_every_command_is_shown() -> None:
    assert all(f"calque train {option} " in README for option in ("--source", "--text", "--conll"))
    assert all(f"calque {name} runs/" in README for name in ("translate", "generate", "tag"))
    pages = [README, (ROOT / "README.zh.md").read_text(encoding="utf-8")]
    listed = [set(re.findall(r"^\| `(calque [a-z ]+)` \|", page, flags=re.MULTILINE)) for page in pages]
    assert (
        listed[0]
        == listed[1]
        == {f"calque {name}" for name in _commands(typer.main.get_command(app)) if name not in ("data", "ngram")}
    )


def _commands(group: Any, *before: str) -> Iterator[str]:
    for name, child in group.commands.items():
        yield " ".join([*before, name])
        yield from _commands(child, *before, name) if hasattr(child, "commands") else ()


def test_chinese_readme_has_the_same_commands() -> None:
    chinese = (ROOT / "README.zh.md").read_text(encoding="utf-8")
    assert re.findall(r"```(bash|python)\n(.*?)```", chinese, flags=re.DOTALL) == BLOCKS


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.slow
def test_your_own_files(tmp_path: Path) -> None:
    """The `calque` commands and the Python lines, in their order, in a folder with the files they name.

    Trainings are cut to a few steps.
    """
    book = phrasebook(source="de", target="en", pairs=100)
    for part in ("train", "test"):
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in getattr(book, part))
            (tmp_path / f"{part}.{language}").write_text(text, encoding="utf-8")
    (tmp_path / "news.en").write_bytes((tmp_path / "train.en").read_bytes())
    for part, count in (("train", 120), ("test", 20)):
        write_conllu(tmp_path / f"{part}.conllu", sentences=count, seed=count)
    for command in COMMANDS:
        if command.startswith("calque "):
            run(command + " training.steps=40" * command.startswith("calque train "), folder=tmp_path)
    assert len((tmp_path / "test.hypothesis").read_text(encoding="utf-8").splitlines()) == len(book.test)
    gold, tagged = ((tmp_path / name).read_text().splitlines() for name in ("test.conllu", "tagged.conllu"))
    assert [line.split("\t")[:3] for line in tagged] == [line.split("\t")[:3] for line in gold]
    (python,) = (text for kind, text in BLOCKS if kind == "python")
    (tmp_path / "example.py").write_text(python, encoding="utf-8")
    assert len(run(f"{sys.executable} example.py", folder=tmp_path).splitlines()) == 1


@pytest.mark.slow
def test_quickstart_reaches_its_figures(tmp_path: Path) -> None:
    """The first command a newcomer runs: its held-out scores, far above both baselines."""
    printed = run(f"{SCRIPTS[0]} --out {tmp_path / 'quickstart'}", folder=ROOT, timeout=1500)
    rows = re.findall(r"^(.+?)\s{2,}([\d.]+)\s+([\d.]+)\s+([\d.]+) %$", printed, flags=re.MULTILINE)
    scores = {name: (float(bleu), float(exact)) for name, bleu, _, exact in rows}
    bleu, exact = scores["this model"]
    assert bleu >= 90
    assert exact >= 80
    for name in ("word by word", "nearest training sentence"):
        assert scores[name][0] < 45
        assert scores[name][1] < 20
    for made in ("data/train.zh", "run/model/weights.safetensors", "run/plots/training.png", "scores.png"):
        assert (tmp_path / "quickstart" / made).is_file()


@pytest.mark.slow
def test_an_installed_copy_works_anywhere(tmp_path: Path) -> None:
    """`pip install .`: the package is whole without the repository around it."""
    (install,) = (line for line in COMMANDS if line.startswith("pip install"))
    copy, installed = tmp_path / "copy", tmp_path / "installed"
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "runs", "quickstart", ".*")
    shutil.copytree(ROOT, copy, ignore=ignored)
    pip = install.replace("pip ", f"{sys.executable} -m pip ", 1)
    run(f"{pip} --quiet --no-deps --no-build-isolation --target {installed}", folder=copy)
    for package in ("calque", "calque_phrasebook"):
        assert (installed / package / "py.typed").is_file()
    here = f"PYTHONPATH={installed} {sys.executable} -S -c"
    where = f"import sys; sys.path[1:1] = {[path for path in sys.path if 'site-packages' in path]!r}"
    source = f"{where}; import calque_phrasebook as book; print(book.__file__)"
    assert str(installed) in run(f'{here} "{source}"', folder=tmp_path)
