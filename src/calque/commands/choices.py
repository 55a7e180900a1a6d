"""Options with a few valid words, refused with the list of them."""

from collections.abc import Sequence
from typing import Any

from calque.errors import ConfigError


def choice(value: str, choices: Sequence[str], *, option: str) -> Any:
    """`value`, if it is one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{option}: {value!r} is not one of {', '.join(choices)}")
    return value
