"""Raises all problems of the corpora together, as one error."""

from collections.abc import Sequence

from calque.data.lines import NOT_UTF8
from calque.errors import DataError

_SHOWN = 10
RECODE = "a file in another encoding can be converted, e.g.: iconv -f latin1 -t utf-8 FILE > FILE.utf8"


def refuse(problems: Sequence[str], *, more: int = 0) -> None:
    """Raises a DataError that lists the problems, if there are any; `more` is the number of further problems."""
    if problems:
        hidden = len(problems) - _SHOWN + more if len(problems) > _SHOWN else more
        summary = [f"… and {hidden:,} more"] if hidden > 0 else []
        advice = [RECODE] if any(problem.endswith(NOT_UTF8) for problem in problems) else []
        raise DataError("\n".join([*problems[:_SHOWN], *summary, *advice]))
