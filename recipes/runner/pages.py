"""Markdown: tables, ranges, and pages with marked places for results."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recipes.runner.arguments import parser_of
from recipes.runner.files import write_json
from recipes.runner.results import mean


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def mean_and_range(values: Sequence[float], *, digits: int = 2) -> str:
    """`41.31 (40.98 to 41.62)`, or the only value."""
    if not values:
        return ""
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def list_by_penalty(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The validation BLEU of every length penalty that was tried, one line per row."""
    lines = [
        f"- {row['told']}: " + ", ".join(f"{penalty}: {value:.2f}" for penalty, value in row["tried"].items())
        for row in rows.values()
        if row["tried"]
    ]
    return "\n".join(["BLEU on val by length penalty, mean over seeds:\n", *lines]) if lines else ""


def list_signatures(signatures: Mapping[str, str]) -> str:
    """The signatures of metrics, one line each."""
    return "\n".join(f"- {name}: `{signature}`" for name, signature in signatures.items())


def fill(text: str, results: str, *, name: str = "results") -> str:
    """Replaces the text between the marks of a page.

    >>> fill("a <!-- results -->old<!-- /results --> b", "new")
    'a <!-- results -->\\n\\nnew\\n\\n<!-- /results --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"the page has no place for the results; mark it with {begin} and {end}")
    return f"{before}{begin}\n\n{results.strip()}\n\n{end}{after}"


def write_page(path: Path, results: str, *, name: str = "results") -> None:
    """Writes results between the marks of a page."""
    path.write_text(fill(path.read_text(encoding="utf-8"), results, name=name), encoding="utf-8")


def report_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the arguments of every report: the results, a file to save them to, and a page to write."""
    parser = parser_of(description)
    parser.add_argument("path", type=Path, help="a folder of runs, or a file saved by --keep")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the results as JSON")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="write the results between the marks of this Markdown page, and a figure next to it",
    )
    return parser


def publish(
    options: argparse.Namespace,
    *,
    collect: Callable[[Path], Any],
    page: Callable[[Any], str],
    name: str = "results",
) -> Any:
    """Prints the page for a folder of runs or for saved results; returns the results, and saves both if requested."""
    if not options.path.exists():
        sys.exit(f"{options.path}: no such file or folder")
    results = collect(options.path) if options.path.is_dir() else json.loads(options.path.read_bytes())
    if not results:
        sys.exit(f"{options.path}: no test results yet; run the recipe first")
    text = page(results)
    print(text)
    if options.keep:
        write_json(options.keep, results)
    if options.write:
        write_page(options.write, text, name=name)
    return results
