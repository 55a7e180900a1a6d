"""The input text of commands, read from a file (plain or compressed) or from standard input."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.data.lines import Invalid, Line
    from calque.devices import DeviceName, PrecisionName


def refuse_unreadable(*paths: Path | None) -> None:
    """Raises a DataError that lists all files that cannot be opened or decompressed, before any work is done."""
    from calque.data.compression import unsupported

    problems = []
    for path in paths:
        if path is None or is_pipe(path):  # opening and closing a pipe disconnects its writer
            continue
        try:
            if reason := unsupported(path):
                problems.append(f"{path}: {reason}")
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
    if problems:
        raise DataError("\n".join(problems))


def exists(path: Path) -> bool:
    """Whether a file exists; False for an impossible name, such as one that is too long."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_pipe(path: Path) -> bool:
    """Whether a path exists but cannot be read twice: a pipe, a terminal or another device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def input_lines(path: Path | None, *, limit: int | None = None, invalid: "Invalid") -> Iterator["Line"]:
    """Yields the lines of a file, or of standard input as they arrive; raises a DataError if they cannot be read."""
    from calque.data.lines import LINE_LIMIT, path_lines, read_lines, readable

    limit = LINE_LIMIT if limit is None else limit
    if path is not None:
        yield from path_lines(path, limit=limit, invalid=invalid)
        return
    name = input_name(None)
    with readable(name) as seen, _standard_input() as stream:
        for line in read_lines(stream, limit_bytes=limit, name=name, invalid=invalid):
            seen.line = line.number
            yield line


def raw_input_lines(path: Path | None, *, limit: int) -> Iterator[bytes]:
    """Yields the lines of a file, or of standard input, as bytes with line ends; cuts lines over `limit` bytes."""
    from calque.data.lines import file_lines, raw_lines, readable

    if path is not None:
        yield from file_lines(path, limit=limit, keep_ends=True)
        return
    with readable(input_name(None)) as seen, _standard_input() as stream:
        for seen.line, line in enumerate(raw_lines(stream, limit=limit, keep_ends=True), start=1):
            yield line


def input_name(path: Path | None) -> str:
    """The name that messages use for an input: its path, or standard input."""
    return str(path) if path else "standard input"


def _standard_input() -> AbstractContextManager[BinaryIO]:
    try:  # a separate reader: one thread may wait for input while another exits
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # standard input is not a file, as in tests
        return closing(sys.stdin.buffer)


def device_and_precision(device: str, precision: str, *, gradients: bool = False) -> "tuple[DeviceName, PrecisionName]":
    """The values of --device and --precision, checked.

    If `gradients` are needed, int8 is rejected, because its products have no gradients, and `auto` means float32.
    """
    from calque.devices import DEVICES, PRECISIONS

    if gradients and precision == "int8":
        raise ConfigError("--precision int8: inspection needs gradients, which int8 does not support; use float32")
    if gradients and precision == "auto":
        precision = "float32"
    return choice(device, DEVICES, option="--device"), choice(precision, PRECISIONS, option="--precision")


def warn_unknown(text: str, *, encode: Callable[[str], Sequence[int]], name: str) -> None:
    """Warns about the parts of a text that a model reads as <unk>; `name` is the name of the text in the warning."""
    from calque.text import UNK

    if count := list(encode(text)).count(UNK):
        unknown = [word for word in text.split() if UNK in encode(word)]
        listed = ", ".join(map(repr, dict.fromkeys(unknown))) if unknown else f"{count:,} pieces"
        typer.echo(
            f"warning: {name}: these parts are not in the model's vocabulary and are read as <unk>: {listed}", err=True
        )


def choice(value: str, choices: Sequence[str], *, option: str) -> Any:
    """`value` if it is one of `choices`; raises a ConfigError otherwise."""
    if value not in choices:
        raise ConfigError(f"{option}: {value!r} is not one of {', '.join(choices)}")
    return value
