"""Taking off what editors leave around a line of text."""

BYTE_ORDER_MARK = "\ufeff"


def strip_return(line: str) -> tuple[str, bool]:
    """The line without one carriage return at its end, and whether there was one (a file of Windows lines)."""
    return line.removesuffix("\r"), line.endswith("\r")


def strip_bom(line: str) -> tuple[str, bool]:
    """The line without a byte order mark at its start, and whether there was one; for a file's first line only."""
    return line.removeprefix(BYTE_ORDER_MARK), line.startswith(BYTE_ORDER_MARK)
