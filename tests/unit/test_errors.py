"""What messages are made of."""

import os
import subprocess

import pytest

from calque.errors import shell_path

NAMES = [
    "runs/1",
    "my runs/1",
    "it's",
    'a"b',
    "$HOME `x` \\",
    "中文",
    "line\nbreak",
    "-x",
    b"\xff'\xfe".decode("utf-8", "surrogateescape"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_path_in_a_command_can_be_pasted(name: str) -> None:
    shown = shell_path(name)
    shown.encode()  # can be printed
    done = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert done.stdout == os.fsencode(f"./{name}" if name.startswith("-") else name)


def test_an_ordinary_path_is_not_quoted() -> None:
    assert shell_path("runs/1") == "runs/1"
