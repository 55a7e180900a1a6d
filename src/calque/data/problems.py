"""Problems of corpora, raised together as one error."""

from collections.abc import Sequence

from calque.errors import DataError

_SHOWN = 10


def refuse(problems: Sequence[str], *, more: int = 0) -> None:
    """Raises a DataError that lists the problems, if there are any; `more` counts those that are not in the list."""
    if problems:
        hidden = len(problems) - _SHOWN + more if len(problems) > _SHOWN else more
        summary = [f"… and {hidden:,} more"] if hidden > 0 else []
        raise DataError("\n".join([*problems[:_SHOWN], *summary]))
