"""A command that is started alone is the one that `calque` has among all others, and imports none of these."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from calque.commands import applications
from calque.commands.applications import COMMANDS, application, application_for
from calque.commands.main import app


def described(command: Any) -> Any:
    """What a command takes and says: its parameters, its help and its subcommands."""
    parameters = [
        (type(each), each.name, each.opts, each.secondary_opts, each.required, getattr(each, "help", None))
        for each in command.params
    ]
    subcommands = {name: described(each) for name, each in getattr(command, "commands", {}).items()}
    return command.name, command.help, command.callback.__module__ if command.callback else "", parameters, subcommands


def command_of(app: typer.Typer, name: str) -> Any:
    group: Any = typer.main.get_command(app)
    return group.commands[name]


def test_the_commands_are_the_modules_that_have_them() -> None:
    folder = Path(str(applications.__file__)).parent
    named = {path.stem for path in folder.glob("*.py") if f"def {path.stem}(" in path.read_text(encoding="utf-8")}
    assert {name for name in named if f'"""`calque {name}`' in (folder / f"{name}.py").read_text()} <= set(COMMANDS)
    assert list(typer.main.get_command(app).commands) == list(COMMANDS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_the_same_alone_and_among_all(name: str) -> None:
    alone = application_for([name, "--help"])
    assert list(typer.main.get_command(alone).commands) == [name]  # type: ignore[attr-defined]
    assert described(command_of(alone, name)) == described(command_of(app, name))


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["transalte"], ["-h", "train"]])
def test_help_and_mistakes_see_all_commands(arguments: list[str]) -> None:
    every: Any = typer.main.get_command(application_for(arguments))
    assert list(every.commands) == list(COMMANDS)
    runner = CliRunner()
    first, second = (runner.invoke(each, arguments, prog_name="calque") for each in (application_for(arguments), app))
    assert (first.output, first.exit_code) == (second.output, second.exit_code)


def test_completion_sees_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CALQUE_COMPLETE", "complete_bash")
    every: Any = typer.main.get_command(application_for(["translate"]))
    assert list(every.commands) == list(COMMANDS)


def test_an_application_of_one_command_still_takes_its_name() -> None:
    outcome = CliRunner().invoke(application(["doctor"]), ["doctor", "--help"])
    assert outcome.exit_code == 0 and "doctor" in outcome.output


def test_no_other_command_is_imported() -> None:
    code = """
import sys
from calque.commands.main import run
sys.argv = ["calque", "translate", "--help"]
try:
    run()
finally:
    names = ("torch", "calque.commands.train", "calque.commands.inspect", "rich.progress")
    print("LOADED", *(name for name in names if name in sys.modules))
"""
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.splitlines()[-1].strip() == "LOADED"
