"""Every `calque train` of the documentation, as it is written there, describes a run that can begin."""

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from calque.config import Values
from calque.errors import Interrupted
from calque.experiment import running
from tests.conftest import Answer, toy_corpus

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("objectives.md", "search.md", "training.md", "tutorial.md", "architectures.md")


def _commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8").replace("\\\n", " ")
        for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
            found = [line.split("  #")[0].strip() for line in block.splitlines() if line.startswith("calque train ")]
            yield from ((page, line) for line in found if "--resume" not in line)


COMMANDS = list(_commands())


def test_search_from_python_works_as_written(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "search.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "book").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    for word, letter in (("The", "a"), ("station", "b"), ("train", "c")):  # what this model can say
        example = example.replace(f'"{word}"', f'"{letter}"')
    found: dict[str, Any] = {}
    exec(example, found)
    assert len(found["translation"].candidates) == 1
    assert found["best"].text.startswith("a")
    assert "b" in found["best"].text


def test_there_are_such_commands() -> None:
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_run_can_begin(
    page: str,
    line: str,
    tmp_path: Path,
    trained: Path,
    command: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(line)[1:]
    (tmp_path / "RUN").symlink_to(trained)
    corpus = toy_corpus(tmp_path / "corpus")
    for option, name in pairwise(arguments):
        if option in ("--source", "--target", "--text", "--valid-source", "--valid-target"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(corpus["source"].read_bytes())

    def begun(folder: Path, *_: object, **__: object) -> Values:
        assert (folder / "config.toml").is_file()
        raise Interrupted("begun")

    monkeypatch.setattr(running, "_go_on", begun)
    answer = command(*arguments)
    assert (answer.code, answer.out) == (75, ""), f"{page}: {line}\n{answer.err}"
