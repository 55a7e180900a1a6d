"""What standard error is told of lines, kept short where it is true of many."""

from collections import Counter

import typer

SHOWN = 10  # lines that are told of each kind, before they are counted


class Remarks:
    """Says of the lines of a file what is to be said: of each kind the first few, and at the end how many there are."""

    def __init__(self, name: str, *, shown: float = SHOWN) -> None:
        self.name, self.shown = name, shown
        self.counts: Counter[str] = Counter()

    def say(self, message: str, *, line: int, kind: str | None = None) -> None:
        """Says it of a line, unless as much was said of its kind (the message itself, where none is given)."""
        kind = kind or message
        self.counts[kind] += 1
        if self.counts[kind] <= self.shown:
            typer.echo(f"{self.name}: line {line}: {message}", err=True)

    def end(self) -> None:
        """Says how many lines there were of each kind that was not told in full."""
        for kind, count in self.counts.items():
            if count > self.shown:
                typer.echo(f"{self.name}: {count:,} lines in all: {kind}", err=True)
