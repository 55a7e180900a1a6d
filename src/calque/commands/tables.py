"""Tables of plain text, for a terminal or a pipe."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from calque.commands.rendering import one_field

GAP = "  "

Row = Sequence[str]


def aligned(rows: Sequence[Row], *, left: int = 1) -> list[str]:
    """Formats rows as lines of aligned columns, the first `left` columns flush left and the others flush right.

    Wide characters count twice; control characters become spaces.
    """
    cells = [[one_field(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return [
        GAP.join(
            set_cell_size(cell, width) if place < left else " " * (width - cell_len(cell)) + cell
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def table(header: Row, rows: Sequence[Row]) -> list[str]:
    """Formats a table with a header whose columns are all flush left."""
    return aligned([header, *rows], left=len(header))
