"""Planted bugs in the tasks beside translation: for each there is a test of the suite that fails, by an assertion.

Those tests pass as they are; a test that were called wrongly would fail with any bug.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.laws.planted_tasks import TASK_BUGS, TaskBug

FEWEST = 6
"""Bugs of each group."""

BUGS = {f"{group}: {name}": bug for group, bugs in TASK_BUGS.items() for name, bug in bugs.items()}
TESTS = {f"{bug.test.__name__}-{list(bug.arguments.values())}": bug for bug in BUGS.values()}


def call(test: Callable[..., None], arguments: Mapping[str, Any], *, tmp_path: Path) -> None:
    """Calls a test with what its fixtures would give, and always with the same seed."""
    with pytest.MonkeyPatch.context() as patch:
        fixtures = {"tmp_path": tmp_path, "monkeypatch": patch, "seed": 1}
        wanted = inspect.signature(test).parameters
        test(**{name: value for name, value in fixtures.items() if name in wanted} | dict(arguments))


@pytest.mark.parametrize("name", BUGS)
def test_a_test_notices(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        call(bug.test, bug.arguments, tmp_path=tmp_path)


@pytest.mark.full  # they are run where they belong, too
@pytest.mark.parametrize("bug", TESTS.values(), ids=[bug.test.__name__ for bug in TESTS.values()])
def test_the_same_test_passes_without_a_bug(bug: TaskBug, tmp_path: Path) -> None:
    call(bug.test, bug.arguments, tmp_path=tmp_path)


def test_every_group_has_enough_bugs() -> None:
    assert {group: len(bugs) for group, bugs in TASK_BUGS.items() if len(bugs) < FEWEST} == {}
