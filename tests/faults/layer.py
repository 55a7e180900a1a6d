"""A fault layer in Python: counts what a process asks of the file system, and at the k-th call strikes.

It sees opening for writing, writing, truncating, fsync, mkdir, rename, exchange, unlink and rmdir below one folder. A
write counts twice: before it, and with half of its bytes on the disk. It stays until its process ends, so it is for
forks. Where strace works, the same faults are injected from outside, below Python (`tracing`).
"""

import builtins
import errno
import fcntl
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["count", "kill", "full", "signal"]

_CHANGES = {"os.mkdir": "mkdir", "os.rename": "rename", "os.remove": "unlink", "os.rmdir": "rmdir"}
_FILLING = {"open", "write", "half", "save", "fsync", "mkdir", "rename", "exchange"}  # what a full disk can refuse


class Fault(NamedTuple):
    """What happens at the `at`-th call below `root` (counted from 1).

    count: nothing. kill: SIGKILL. signal: `number` is sent, and the call continues. full: ENOSPC, from then on at every
    call that needs room if it is `lasting`.
    """

    kind: Kind
    root: str
    at: int = 0
    number: int = 0
    lasting: bool = False
    again: str = ""  # a signal comes a second time at the first call that begins so


class Layer:
    """Counts calls, writes each to `log`, and strikes."""

    def __init__(self, fault: Fault, *, log: Path) -> None:
        self.fault = fault
        self.count = 0
        self._root = os.path.realpath(fault.root)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write
        self._has_struck_again = False

    def call(self, kind: str, path: str) -> None:
        """One call is about to be made."""
        path = os.path.realpath(path)
        if not (path == self._root or path.startswith(self._root + os.sep)):
            return
        self.count += 1
        fault = self.fault
        name = f"{kind} {os.path.relpath(path, self._root)}"
        self._write(self._log, f"{name}\n".encode())
        is_due = self.count == fault.at or (fault.lasting and self.count > fault.at)
        if fault.again and name.startswith(fault.again) and not self._has_struck_again:
            self._has_struck_again = is_due = True
        if not is_due:
            return
        match fault.kind:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "signal":
                os.kill(os.getpid(), fault.number)
            case "full" if kind in _FILLING:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *([path] if kind in ("open", "mkdir") else []))

    def will_strike_next(self) -> bool:
        return self.fault.kind in ("kill", "full") and self.count + 1 == self.fault.at


def install(fault: Fault, *, log: Path) -> None:
    """From now on every call of this process is seen."""
    layer = Layer(fault, log=log)
    _patch_functions(layer)
    _patch_open(layer)
    _patch_safetensors(layer)
    sys.addaudithook(lambda event, arguments: _hear(layer, event, arguments))


def _hear(layer: Layer, event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            layer.call("open", os.fsdecode(path))
    elif event == "ctypes.dlsym" and arguments[1] == "renameat2":
        layer.call("exchange", layer.fault.root)
    elif event in _CHANGES:
        at = arguments[-1] if event != "os.rename" else arguments[2]
        layer.call(_CHANGES[event], _resolve(arguments[0], at))


def _resolve(path: Any, at: int) -> str:
    name = os.fsdecode(path)
    return os.path.join(_path_of(at), name) if at >= 0 else name  # noqa: PTH118 - not a Path yet


def _path_of(handle: int) -> str:
    try:
        if sys.platform == "darwin":
            return fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115
    except OSError:
        return ""


def _patch_functions(layer: Layer) -> None:
    def counted(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def function(handle: int, *arguments: Any) -> Any:
            layer.call(kind, _path_of(handle))
            return real(handle, *arguments)

        return function

    for kind, name in (("fsync", "fsync"), ("write", "write"), ("write", "pwrite"), ("truncate", "ftruncate")):
        setattr(os, name, counted(kind, getattr(os, name)))


def _patch_open(layer: Layer) -> None:
    real = io.open

    def opened(file: Any, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
        file_object = real(file, mode, *arguments, **keywords)
        return (
            _Torn(file_object, layer, path=_path_of(file_object.fileno())) if set(mode) & set("wax+") else file_object
        )

    io.open = builtins.open = opened


class _Torn:
    """A file opened for writing whose writes can be cut in half."""

    def __init__(self, file: Any, layer: Layer, *, path: str) -> None:
        self._file, self._layer, self._path = file, layer, path

    def write(self, data: Any) -> Any:
        self._layer.call("write", self._path)
        if self._layer.will_strike_next():
            self._file.write(data[: len(data) // 2])
            self._file.flush()
        self._layer.call("half", self._path)
        return self._file.write(data)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def truncate(self, *arguments: Any) -> Any:
        self._layer.call("truncate", self._path)
        return self._file.truncate(*arguments)

    def __enter__(self) -> "_Torn":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _patch_safetensors(layer: Layer) -> None:
    """Its writes come out of Rust, unseen: before it, with half a file, and with all of it."""
    from calque.engine import model_files
    from calque.training import checkpoints

    real = checkpoints.save_file

    def save_file(tensors: Any, path: Any, *arguments: Any, **keywords: Any) -> None:
        layer.call("save", str(path))
        real(tensors, path, *arguments, **keywords)
        if layer.will_strike_next():
            os.truncate(path, os.stat(path).st_size // 2)  # noqa: PTH116
        layer.call("half", str(path))

    checkpoints.save_file = model_files.save_file = save_file
