"""Mistakes in the use of a command have one style, and help has the field's words."""

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from tests.conftest import Answer

from calque.commands.main import app

VALUES = {
    "FILE",
    "FILE...",
    "FOLDER",
    "MODEL",
    "RUN",
    "N",
    "FACTOR",
    "SECONDS",
    "NAME",
    "NAMES",
    "COLUMN",
    "CHARACTER",
    "N N",
    "TEXT",
    "STRING",
}
VALUES |= {"WORD", "TARGET:SOURCE", "NAME=PATH,PATH", "[KEY=VALUE]...", "[FOLDER]...", "[SYSTEM]..."}
VALUES |= {"[SENTENCE]... [KEY=VALUE]...", "IMAGE... [KEY=VALUE]..."}


def _commands(group: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield before, group
    for name, child in getattr(group, "commands", {}).items():
        yield from _commands(child, *before, name)


COMMANDS = dict(_commands(typer.main.get_command(app)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trans", "no such command: trans; did you mean translate? See calque --help"),
        ("bogus", "no such command: bogus; see calque --help"),
        ("data chek", "no such command: chek; did you mean check? See calque data --help"),
        ("--bogus", "no such option: --bogus; see calque --help"),
        ("--", "missing command; see calque --help"),
        ("translate", "MODEL is missing: a run or model folder; see calque translate --help"),
        ("translate RUN --nbst 3", "no such option: --nbst; did you mean --nbest? See calque translate --help"),
        ("translate RUN --nbest x", "--nbest: expected a whole number of at least 1, found 'x'; see calque translate"),
        ("average RUN -n 0", "--count: expected a whole number of at least 1, found '0'; see calque average --help"),
        ("data phrasebook --out x --pairs 3", "--pairs: expected a whole number of at least 50, found '3'"),
        ("train --scale wide", "--scale: expected a number such as 0.25, found 'wide'; see calque train --help"),
        ("transcribe RUN a.wav --chunk inf", "--chunk: expected a number of seconds such as 20, found 'inf'"),
        ("transcribe RUN a.wav --chunk nan", "--chunk: expected a number of seconds such as 20, found 'nan'"),
        ("transcribe RUN a.wav --chunk", "--chunk needs a value: SECONDS; see calque transcribe --help"),
        ("generate RUN --maximum", "--maximum needs a value: N; see calque generate --help"),
        ("translate RUN --inline=3", "--inline takes no value; see calque translate --help"),
        ("doctor one two", "unexpected argument: one two; see calque doctor --help"),
        ("score RUN", "--target is missing: the translations to score, one per line"),
    ],
)
def test_a_mistake_is_one_line_in_calques_style(line: str, message: str, command: Callable[..., Answer]) -> None:
    answer = command(*shlex.split(line))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"calque: {message}")
    assert answer.err.count("\n") == 1


def test_a_command_without_arguments_prints_help(command: Callable[..., Answer]) -> None:
    for line in ([], ["data"]):
        answer = command(*line)
        assert "Usage: calque" in answer.out + answer.err
        assert "calque: " not in answer.err


@pytest.mark.parametrize("names", COMMANDS, ids=lambda names: " ".join(names) or "calque")
def test_help_names_values_in_the_fields_words(
    names: tuple[str, ...], command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = command(*names, "--help")
    assert answer.code == 0
    assert not re.search(r"<(bool|str|int|float|path|list)|\b(INTEGER|BOOLEAN)\b|x>=", answer.out)
    for parameter in COMMANDS[names].params:
        if getattr(parameter, "is_flag", False):
            continue
        assert parameter.metavar in VALUES or re.fullmatch(r"\[[\w|-]+\]", str(parameter.metavar)), parameter.name


def test_usage_has_every_argument_once(command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    expected = {
        "translate": "MODEL [KEY=VALUE]...",
        "train": "[KEY=VALUE]...",
        "average": "RUN",
        "quantise": "MODEL FOLDER",
        "systems": "[NAME]",
        "inspect": "MODEL [SENTENCE]... [KEY=VALUE]...",
    }
    for name, arguments in expected.items():
        assert re.search(rf"Usage: calque {name} \[OPTIONS\] {re.escape(arguments)} *\n", command(name, "--help").out)


@pytest.mark.parametrize(
    ("name", "panels"),
    [
        ("train", ["Training data", "Validation data", "Model and settings", "Run", "Help"]),
        (
            "translate",
            ["Input and output", "Search", "Further models", "Constraints", "Unknown words", "Computation", "Help"],
        ),
    ],
)
def test_options_are_grouped(
    name: str, panels: list[str], command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert re.findall(r"╭─ (.+?) ─", command(name, "--help").out) == ["Arguments", *panels]
