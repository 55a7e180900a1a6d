"""Plants bugs: a function of the package is compiled again with one piece of its text replaced.

    edited(evaluation.ranking.target_ranks, "~(scores < own)", "(scores > own)")

A bug planted so is what a slip of the hand would have written, and it is an error if the text is no longer there.
"""

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


def edited(function: Any, old: str, new: str) -> Plant:
    """Replaces `old`, which occurs once in the function's source, by `new`, wherever the function is known by name.

    Methods, properties and class methods are named by their class: `edited((Class, "method"), …)`.
    """

    def plant(patch: pytest.MonkeyPatch) -> None:
        if isinstance(function, tuple):
            owner, name = function
            raw = vars(owner)[name]
            patch.setattr(owner, name, _compiled(raw, old, new, name=name))
            return
        name = function.__name__
        changed = _compiled(function, old, new, name=name)
        for module in [module for path, module in sys.modules.items() if path.partition(".")[0] in ("calque", "tests")]:
            if vars(module).get(name) is function:
                patch.setattr(module, name, changed)

    return plant


def set_to(owner: object, name: str, value: object) -> Plant:
    """Replaces a constant."""
    return lambda patch: patch.setattr(owner, name, value)


def _compiled(raw: Any, old: str, new: str, *, name: str) -> Any:
    plain = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
    plain = inspect.unwrap(plain)
    text = textwrap.dedent(inspect.getsource(plain))
    assert text.count(old) == 1, f"{name}: {old!r} occurs {text.count(old)} times in\n{text}"
    found: dict[str, Any] = {}
    exec(compile(text.replace(old, new), f"<{name} with a planted bug>", "exec"), plain.__globals__, found)
    return found[name]
