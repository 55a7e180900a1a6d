"""Every `calque train` of the documentation, as it is written there, describes a run that can begin."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from recipes.digits.tones import write_tones

from calque.config import Values
from calque.errors import Interrupted
from calque.experiment import running
from tests.conftest import Answer, toy_corpus, without_plots
from tests.histories import write_sequences
from tests.promises.subjects import SUBJECTS
from tests.tagged import write_columns, write_conllu

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "objectives.md",
    "search.md",
    "training.md",
    "tutorial.md",
    "architectures.md",
    "language_models.md",
    "tagging.md",
    "embedding.md",
    "recommendation.md",
    "corpora.md",
    "character_level.md",
    "alignment.md",
    "speech.md",
    "recipes.md",
)


def _commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8").replace("\\\n", " ")
        for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
            lines = [line.split("  #")[0].strip() for line in block.splitlines() if line.startswith("calque train ")]
            yield from ((page, line) for line in lines if "--resume" not in line)


def _example(page: str) -> str:
    """The Python of a page."""
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    return str(example)


COMMANDS = list(_commands())


def test_the_page_for_python_works_as_written(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its examples, one after the other."""
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 6
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "book").symlink_to(trained)
    corpus = toy_corpus(tmp_path)
    for name, side in (("train.de", "source"), ("train.en", "target")):
        (tmp_path / name).symlink_to(corpus[side])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec("\n".join(examples), names)
    assert names["run"].summary.step == 25
    assert names["moved"].text
    assert names["forced"].text


def test_search_from_python_works_as_written(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = _example("search.md")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "book").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    for word, letter in (("The", "a"), ("station", "b"), ("train", "c")):  # what this model can say
        example = example.replace(f'"{word}"', f'"{letter}"')
    names: dict[str, Any] = {}
    exec(example, names)
    assert len(names["translation"].candidates) == 1
    assert names["best"].text.startswith("a")
    assert "b" in names["best"].text


def test_alignment_from_python_works_as_written() -> None:
    names: dict[str, Any] = {}
    exec(_example("alignment.md"), names)
    assert names["links"] == {(0, 0), (1, 1)}
    assert names["targets"][0] == 0


@pytest.mark.parametrize(
    ("page", "run", "subject"),
    [
        ("language_models.md", "english", "language model of lines"),
        ("tagging.md", "upos", "tagging"),
        ("embedding.md", "book", "embedding"),
        ("recommendation.md", "shop", "recommendation"),
    ],
)
def test_python_of_the_other_tasks_works_as_written(
    page: str, run: str, subject: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with without_plots():
        SUBJECTS[subject].train(tmp_path / "runs" / run, *NO_COLUMNS[subject], "training.steps=2")
    exec(_example(page), {})
    assert capsys.readouterr().out


NO_COLUMNS = {"language model of lines": (), "tagging": ("task.inputs=[]",), "recommendation": (), "embedding": ()}


def _table(lines: list[str], option: str, *, columns: list[str], delimiter: str) -> str:
    """A table with these columns, and with a header if its option or their names require one."""
    if option == "--jsonl":
        outer = {name.partition(".")[0] for name in columns}
        objects = ({key: {name.partition(".")[2]: line for name in columns} for key in outer} for line in lines)
        return "".join(json.dumps(values) + "\n" for values in objects)
    is_named = any(not name.isdigit() for name in columns)
    names = columns if is_named else ["one", "two", "three"]
    rows = [[line] * len(names) for line in lines]
    delimiter = "\t" if option == "--tsv" else delimiter
    return "".join(delimiter.join(row) + "\n" for row in ([names] if is_named or option != "--tsv" else []) + rows)


def test_the_corpus_of_the_character_level_page_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(_example("character_level.md"), {})
    lines = {name: (tmp_path / name).read_text(encoding="utf-8").splitlines() for name in ("train.lemma", "test.lemma")}
    train, test = ({line.split()[0] for line in part} for part in lines.values())
    assert len(test) == 300 and not train & test
    page = (DOCS / "character_level.md").read_text(encoding="utf-8")
    (check,) = re.findall(r"^calque (data check .*)$", page, re.MULTILINE)
    (message,) = re.findall(r"^(text\.kind=characters: .*)$", page, re.MULTILINE)
    answer = command(*shlex.split(check))
    assert answer.code == 0
    assert f"text: {message}\n" in answer.out


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
    columns = {option: name for option, name in pairwise(arguments) if option.endswith("-column")}
    delimiter = dict(pairwise(arguments)).get("--delimiter", ",")
    for option, name in pairwise(arguments):
        path = tmp_path / name
        if option in ("--source", "--target", "--text", "--valid-text", "--valid-source", "--valid-target"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(corpus["source"].read_bytes())
        if option == "--alignments":
            path.write_text("\n" * corpus["source"].read_text(encoding="utf-8").count("\n"), encoding="utf-8")
        if option in ("--tsv", "--csv", "--valid-csv", "--jsonl"):
            lines = corpus["source"].read_text(encoding="utf-8").splitlines()
            path.write_text(
                _table(lines, option, columns=list(columns.values()), delimiter=delimiter), encoding="utf-8"
            )
        if option in ("--conll", "--valid-conll"):
            (write_conllu if name.endswith(".conllu") else write_columns)(path, sentences=9)
        if option == "--sequences":
            write_sequences(path, users=9)
        if option in ("--audio", "--valid-audio"):
            write_tones(path.parent, recordings=9).rename(path)

    def begun(folder: Path, *_: object, **__: object) -> Values:
        assert (folder / "config.toml").is_file()
        raise Interrupted("begun")

    monkeypatch.setattr(running, "_continue", begun)
    answer = command(*arguments)
    assert (answer.code, answer.out) == (75, ""), f"{page}: {line}\n{answer.err}"
