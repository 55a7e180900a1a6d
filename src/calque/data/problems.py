"""Problems of corpora, told together."""

from collections.abc import Sequence

from calque.errors import DataError

_SHOWN = 10


def refuse(problems: Sequence[str], *, more: int = 0) -> None:
    """Raises a DataError that shows the problems, if there are any; `more` were found and not kept."""
    if problems:
        hidden = len(problems) - _SHOWN + more if len(problems) > _SHOWN else more
        rest = [f"… and {hidden:,} more"] if hidden > 0 else []
        raise DataError("\n".join([*problems[:_SHOWN], *rest]))
