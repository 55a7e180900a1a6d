"""Raises all problems of the corpora together, as one error."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from calque.data.lines import NOT_UTF8
from calque.errors import DataError

LISTED = 10  # problems
RECODE = "a file in another encoding can be converted, e.g.: iconv -f latin1 -t utf-8 FILE > FILE.utf8"


_HEAD = 8  # lines at the beginning of a file that show whether it is text
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def refuse_binary(lines: Iterable[bytes], *, path: Path, rows: str) -> None:
    """Raises a DataError if a manifest is a binary file, such as one of the images that it should list.

    `rows` says what a manifest lists, in the singular: image or recording.
    """
    head = b"".join(islice(lines, _HEAD))
    if b"\0" in head and not head.startswith(_UTF16):
        raise DataError(
            f"{path}: a binary file, not a manifest; a manifest is a text file with one line per {rows}, which "
            "names its file"
        )


def refuse(problems: Sequence[str], *, more: int = 0) -> None:
    """Raises a DataError that lists the problems, if there are any; `more` is the number of further problems."""
    if problems:
        hidden = len(problems) - LISTED + more if len(problems) > LISTED else more
        summary = [f"… and {hidden:,} more"] if hidden > 0 else []
        advice = [RECODE] if any(problem.endswith(NOT_UTF8) for problem in problems) else []
        raise DataError("\n".join([*problems[:LISTED], *summary, *advice]))
