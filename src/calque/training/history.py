"""What happened to a run and must happen again on a resume: batches that were split for want of memory.

`RUN/history.jsonl` has a line for each, written before the step goes on, so that a kill right after it changes nothing.
"""

from pathlib import Path

from calque.training.journal import Journal, read_journal


class History:
    """How many parts the batches of a step are taken in: one, unless memory ran out there before.

    Every rank reads it and one writes.
    """

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self._path, self._writes = path, writes
        lines = read_journal(path, counts=("step", "parts"))
        self._parts: dict[int, int] = {line["step"]: line["parts"] for line in lines}

    def parts(self, step: int) -> int:
        """In how many parts a step's batches are taken."""
        return self._parts.get(step, 1)

    def record(self, step: int, *, parts: int) -> None:
        """From now on a step's batches are taken in so many parts; on disk when this returns."""
        self._parts[step] = parts
        if self._writes:
            with Journal(self._path) as journal:
                journal.append({"step": step, "parts": parts})
                journal.sync()
