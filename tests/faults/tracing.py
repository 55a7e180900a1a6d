"""strace: which system calls a command makes, and a kill or an error injected at one of them, below Python.

`when=` counts the calls of one name in one thread, from the moment strace was attached; a resumed run makes the same
calls every time, so a call of one trace is struck again by its name and number.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CHANGING = ("write", "pwrite64", "fsync", "ftruncate", "rename", "renameat2", "mkdir", "unlink", "unlinkat", "rmdir")
"""Calls that change what is on the disk, or promise that it is there."""

_LINE = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)")
_PROBE = """
import os, sys
handle = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
try:
    os.fsync(handle)
except OSError as error:
    print(error.errno)
"""


class Call(NamedTuple):
    """The `number`-th call of its name (counted from 1), and its arguments as strace shows them."""

    name: str
    number: int
    arguments: str


def works(folder: Path) -> bool:
    """Whether strace is here and may inject a fault."""
    if shutil.which("strace") is None:
        return False
    inject = ["-e", "trace=fsync", "-e", "inject=fsync:error=ENOSPC:when=1"]
    command = ["strace", "-f", "-o", "/dev/null", *inject, sys.executable, "-S", "-c", _PROBE, str(folder / "probe")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout == "28\n"


def watching() -> list[str]:
    """Options that write every changing call to the trace."""
    return ["-e", f"trace={','.join(CHANGING)}", "-s", "0"]


def killing(call: Call) -> list[str]:
    """Options that end the process when it makes this call, which is not done any more."""
    return ["-e", f"trace={call.name}", "-e", f"inject={call.name}:signal=SIGKILL:when={call.number}"]


def filling(call: Call) -> list[str]:
    """Options that let this call fail as on a full disk."""
    return ["-e", f"trace={call.name}", "-e", f"inject={call.name}:error=ENOSPC:when={call.number}"]


def calls(trace: str, *, pid: int, root: Path) -> list[Call]:
    """The calls of the first thread below `root`, in their order."""
    counts: dict[str, int] = {}
    traced_calls: list[Call] = []
    for line in trace.splitlines():
        match = _LINE.match(line)
        if match and int(match["pid"]) == pid:
            name = match["name"]
            counts[name] = counts.get(name, 0) + 1
            if str(root) in match["arguments"]:
                traced_calls.append(Call(name, counts[name], match["arguments"]))
    return traced_calls
