"""What reports of recipes share: the tested rows of a folder of runs, ranges, and pages with a place for results."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fleet import write_json
from variants import RESULT, Row


class Tested(NamedTuple):
    """A row with a seed: what judge.py wrote of it, and its translations."""

    seed: int
    result: Mapping[str, Any]
    translations: list[str]

    @property
    def bleu(self) -> float:
        """Lowercased."""
        return float(self.result["scores"]["bleu_lowercased"])


def read_tested(out: Path, row: str) -> list[Tested]:
    """What was tested of a row, by seed; nothing where it has not come so far."""
    found = [json.loads(path.read_bytes()) for path in (out / "tested").glob("*.json")]
    mine = sorted((each for each in found if each["name"] == row), key=lambda each: each["seed"])
    return [Tested(each["seed"], each, _lines(out / "tested" / f"{row}-{each['seed']}.de")) for each in mine]


def of_runs(out: Path, run: str, *path: str) -> list[float]:
    """A number that every seed's result.json of a variant has; `path` are its keys."""
    found = [_at(json.loads(each.read_bytes()), path) for each in sorted(out.glob(f"{run}-[0-9]*/result.json"))]
    return [float(value) for value in found]


def summary(out: Path, name: str, row: Row, tested: Sequence[Tested]) -> dict[str, Any]:
    """What every table tells of a row."""
    return {
        "told": row.told,
        "bleu": [each.bleu for each in tested],
        "chrf": [each.result["scores"]["chrf"] for each in tested],
        "penalty": length_penalty(tested),
        "tried": by_penalty(out, name),
        "valid": valid_of(out, name, row, tested),
        "signatures": tested[0].result["scores"]["signatures"],
    }


def valid_of(out: Path, name: str, row: Row, tested: Sequence[Tested]) -> list[float]:
    """Lowercased BLEU on val of each that was tested, translated in the same way; those that nobody has are missing."""
    found = []
    for each in tested:
        path = out / "settled" / f"{name}-{each.seed}.json"
        if not path.is_file() and not row.together:  # of an ensemble a run of it tells nothing
            path = out / str(each.result["run"]) / RESULT
        tried = json.loads(path.read_bytes())["tried"] if path.is_file() else []
        found += [one["bleu_lowercased"] for one in tried if one["setting"] == each.result["scores"]["setting"]]
    return found


def by_penalty(out: Path, row: str) -> dict[str, float]:
    """Lowercased BLEU on val, in the mean of seeds, for every length penalty; empty without a choice."""
    seeds = [json.loads(path.read_bytes())["tried"] for path in sorted((out / "settled").glob(f"{row}-[0-9]*.json"))]
    return {
        str(each[0]["setting"][1]): mean([one["bleu_lowercased"] for one in each]) for each in zip(*seeds, strict=True)
    }


def told_by_penalty(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What every row's length penalties came to, a line a row."""
    lines = [
        f"- {row['told']}: " + ", ".join(f"{penalty}: {value:.2f}" for penalty, value in row["tried"].items())
        for row in rows.values()
        if row["tried"]
    ]
    return "\n".join(["BLEU on val by length penalty, in the mean of seeds:\n", *lines]) if lines else ""


def length_penalty(tested: Sequence[Tested]) -> str:
    """The one a row was translated with."""
    penalty = tested[0].result["scores"]["setting"][1]
    return "as trained" if penalty is None else str(penalty)


def variant_of(tested: Tested) -> str:
    """The variant whose run it is."""
    return str(tested.result["run"]).rpartition("-")[0]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def ranged(values: Sequence[float], *, digits: int = 2) -> str:
    """`41.31 (40.98 to 41.62)`, or the one value there is."""
    if not values:
        return ""
    told = f"{mean(values):.{digits}f}"
    return told if len(values) == 1 else f"{told} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(text: str, results: str, *, name: str = "results") -> str:
    """A page with what stands between its marks replaced.

    >>> filled("a <!-- results -->old<!-- /results --> b", "new")
    'a <!-- results -->\\n\\nnew\\n\\n<!-- /results --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"there is no place for the results: it begins with {begin} and ends with {end}")
    return f"{before}{begin}\n\n{results.strip()}\n\n{end}{after}"


def write_page(path: Path, results: str, *, name: str = "results") -> None:
    """Puts results into a page."""
    path.write_text(filled(path.read_text(encoding="utf-8"), results, name=name), encoding="utf-8")


def asking(description: str | None) -> argparse.ArgumentParser:
    """What every report is asked: where results are, where they are kept, and the page they go into."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a folder of runs, or what was kept of it")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--write", type=Path, metavar="FILE", help="a page with marks; a figure goes beside it")
    return parser


def publish(
    given: argparse.Namespace,
    *,
    collect: Callable[[Path], Any],
    page: Callable[[Any], str],
    name: str = "results",
) -> Any:
    """Prints the page of a folder's results, or of what was kept of them, keeps them and writes it; the results."""
    if not given.path.exists():
        sys.exit(f"report.py: {given.path}: no such file or folder")
    kept = collect(given.path) if given.path.is_dir() else json.loads(given.path.read_bytes())
    if not kept:
        sys.exit(f"report.py: nothing was tested in {given.path}")
    text = page(kept)
    print(text)
    if given.keep:
        write_json(given.keep, kept)
    if given.write:
        write_page(given.write, text, name=name)
    return kept


def _lines(path: Path) -> list[str]:
    """Lines end at a line feed and nowhere else: what a model says may have other breaks in it."""
    return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n") if path.is_file() else []


def _at(values: Any, path: Sequence[str]) -> Any:
    for key in path:
        values = values[key]
    return values
