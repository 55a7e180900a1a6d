"""Contenders of `python -m benchmarks.decode`: anything that translates a file with a given model."""

import json
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.processes import Usage
from benchmarks.source_trees import SourceTree


class Decoder(Protocol):
    """A contender that translates. Every call starts a new process, so that its whole cost is measured."""

    @property
    def name(self) -> str: ...

    @property
    def precision(self) -> str:
        """The data type of the contender's matrix products: float32, bfloat16 or int8."""

    def count_tokens(self, source: Path, *, beam: int, folder: Path) -> list[int]:
        """The number of output tokens of every line, end mark included; this unmeasured run also warms up caches."""

    def translate(self, source: Path, *, output: Path, beam: int) -> Usage:
        """Writes one translation per line to a new file; a beam of 1 is greedy."""


class CalqueDecoder(NamedTuple):
    """`calque translate` of one source tree."""

    tree: SourceTree
    model: Path
    threads: int
    settings: tuple[str, ...] = ()  # of the search, KEY=VALUE
    label: str = ""  # appended to the name of the tree
    precision: str = "float32"

    @property
    def name(self) -> str:
        return f"{self.tree.name} {self.label}".rstrip()

    def count_tokens(self, source: Path, *, beam: int, folder: Path) -> list[int]:
        output = folder / "tokens.jsonl"
        self._run(source, output=output, beam=beam, options=("--format", "jsonl"))
        with output.open(encoding="utf-8") as lines:
            counts = [tokens_of(json.loads(line)) for line in lines]
        output.unlink()
        return counts

    def translate(self, source: Path, *, output: Path, beam: int) -> Usage:
        return self._run(source, output=output, beam=beam)

    def _run(self, source: Path, *, output: Path, beam: int, options: tuple[str, ...] = ()) -> Usage:
        output.unlink(missing_ok=True)  # an unfinished output would be completed instead of written anew
        return self.tree.calque(
            *("translate", self.model, "--input", source, "--output", output, "--beam", str(beam), "--device", "cpu"),
            *options,
            *(() if self.precision == "float32" else ("--precision", self.precision)),
            *(("length_penalty=0",) if beam == 1 else ()),  # with a penalty, a beam of 1 is not greedy
            *self.settings,
            folder=output.parent,
            threads=self.threads,
            log=output.with_suffix(".log"),
        )


def tokens_of(answer: dict[str, list[dict[str, list[str]]]]) -> int:
    """The number of pieces of the best candidate, end mark included, in a line of `calque translate --format jsonl`."""
    candidates = answer["candidates"]
    return len(candidates[0]["pieces"]) + 1 if candidates else 0
