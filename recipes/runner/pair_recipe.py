"""A recipe on pairs of texts: what is prepared, trained, decoded and scored, and the table of its results.

A recipe is a value: functions that prepare a corpus and score outputs, the systems to train, the rows of the table.
`recipes.runner.pair_jobs` trains and scores it. A recipe writes everything to one folder: data/GROUP holds train, valid
and test, each as .source and .target; runs/SYSTEM-SEED are the runs; results/ROW-SEED.json holds the scores, with the
outputs next to it.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from recipes.runner.files import read_json, read_lines, write_lines
from recipes.runner.pages import mean_and_range, table
from recipes.runner.scheduler import Job

PARTS = ("train", "valid", "test")
REFERENCES = "references"  # a row that scores the references themselves
BASELINE = "baseline"  # the seed of results that no training changes
Pair = tuple[str, str]
Outputs = Sequence[str]


class System(NamedTuple):
    """A model to train, once per seed."""

    name: str
    config: Path
    group: str = "all"  # the data it is trained on
    settings: tuple[str, ...] = ()
    reverse: bool = False  # reads targets and generates sources
    cost: float = 1.0  # relative duration of training


class Row(NamedTuple):
    """A row of the table: a system and how it is decoded."""

    name: str
    label: str
    system: str
    search: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()  # search settings to try; the best on validation is used
    channel: str | None = None  # the reverse system that reranks the beam
    group: str = "all"


class Baseline(NamedTuple):
    """A row that needs no network: a function computes the test outputs of a group, given its folder."""

    name: str
    label: str
    outputs: Callable[[Path], Outputs]
    group: str = "all"


class Column(NamedTuple):
    """A column of the table: a metric, its title and its digits."""

    metric: str
    title: str
    digits: int = 1


@dataclass(frozen=True)
class Recipe:
    """Everything that a recipe consists of."""

    name: str
    module: str  # where this object is: its attribute RECIPE
    prepare: Callable[[Path, Path], Any]  # (folder of corpora, data folder): writes all groups; returns counts
    score: Callable[[Path, Outputs], Mapping[str, float]]  # (folder of a group, outputs for its test sources)
    systems: tuple[System, ...]
    rows: tuple[Row, ...]
    baselines: tuple[Baseline, ...]
    columns: tuple[Column, ...]
    samples: int = 4
    validate: Callable[[Path, Outputs], float] | None = None  # the score of a group's validation outputs, not restored
    jobs: "JobsOf | None" = None  # trains the wanted runs in a way of its own, instead of `systems`
    restore: Callable[[Path, Outputs], list[str]] = field(
        default=lambda _group, outputs: list(outputs)
    )  # to plain text
    references: Callable[[Path], list[str]] | None = None  # of a group's test sources; None: its restored targets

    def __post_init__(self) -> None:
        if self.validate is None and any(row.tried for row in self.rows):
            raise ValueError(f"{self.name}: rows that try settings need a validation score")

    @property
    def lines(self) -> "list[Baseline | Row]":
        """The lines of the table, baselines first."""
        return [*self.baselines, *self.rows]

    def system(self, name: str) -> System:
        """The system with this name."""
        return next(system for system in self.systems if system.name == name)

    def row(self, name: str) -> Row:
        """The row with this name."""
        return next(row for row in self.rows if row.name == name)


class Options(NamedTuple):
    """The options that all jobs of a recipe share."""

    seeds: tuple[int, ...]
    device: str
    settings: tuple[str, ...]
    rows: tuple[str, ...] | None = None  # None: all


JobsOf = Callable[[Recipe, Path, Options, set[str]], list[Job]]  # (recipe, its folder, options, names of runs)


def write_pairs(folder: Path, parts: Mapping[str, Iterable[Pair]]) -> None:
    """Writes the parts of a group; each part has a file of sources and a file of targets."""
    for part, pairs in parts.items():
        listed = list(pairs)
        for side, texts in (("source", [source for source, _ in listed]), ("target", [target for _, target in listed])):
            write_lines(folder / f"{part}.{side}", texts)


def read_part(folder: Path, part: str) -> list[Pair]:
    """The pairs of a part that `write_pairs` wrote."""
    sources, targets = (read_lines(folder / f"{part}.{side}") for side in ("source", "target"))
    return list(zip(sources, targets, strict=True))


def collect(recipe: Recipe, out: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of every row so far, baselines first: one entry per seed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in recipe.lines:
        paths = sorted((out / "results").glob(f"{row.name}-*.json"), key=_seed)
        results = [read_json(path) for path in paths if _name(path) == row.name]
        if results:
            found[row.name] = results
    return found


def page(recipe: Recipe, results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The table of all rows: mean and range over seeds; a row without results says so."""
    lines = []
    for row in recipe.lines:
        found = results.get(row.name, ())
        values = [
            mean_and_range([entry["scores"][column.metric] for entry in found], digits=column.digits)
            for column in recipe.columns
            if found
        ] or ["not measured yet", *[""] * (len(recipe.columns) - 1)]
        lines.append((row.label, *values, "–" if isinstance(row, Baseline) else str(len(found) or "")))
    return table(("system", *(column.title for column in recipe.columns), "seeds"), lines)


def samples(recipe: Recipe, out: Path, *, rows: Sequence[str]) -> str:
    """Some test sources with their references and the outputs of rows' first seeds, as a Markdown list."""
    groups = {row.name: row.group for row in recipe.lines}
    rows = [name for name in rows if name != REFERENCES]
    texts = []
    for group in dict.fromkeys(groups[name] for name in rows):
        folder = out / "data" / group
        pairs = read_part(folder, "test")
        outputs = {
            name: read_lines(paths[0])
            for name in rows
            if groups[name] == group and (paths := sorted((out / "results").glob(f"{name}-*.txt"), key=_seed))
        }
        targets = [target for _, target in pairs]
        references = recipe.references(folder) if recipe.references else recipe.restore(folder, targets)
        for place in sorted(random.Random(1).sample(range(len(pairs)), min(recipe.samples, len(pairs)))):
            texts.append(f"- {shorten(pairs[place][0])}")
            texts.append(f"  - *reference*: {shorten(references[place])}")
            texts += [f"  - *{name}*: {shorten(lines[place])}" for name, lines in outputs.items()]
    return "\n".join(texts)


def shorten(text: str, *, limit: int = 240) -> str:
    """The text as Markdown code, cut at `limit` characters."""
    return f"`{(text if len(text) <= limit else text[:limit] + ' …').replace('`', chr(39))}`"


def _name(path: Path) -> str:
    return path.stem.rpartition("-")[0]


def _seed(path: Path) -> int:
    seed = path.stem.rpartition("-")[2]
    return int(seed) if seed.isdigit() else 0
