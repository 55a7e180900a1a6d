"""The report of a comparison: facts, a table and remarks, for a terminal, as Markdown, as JSON and as a dated note."""

import datetime
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Spread, core_share
from benchmarks.machine import Machine
from benchmarks.processes import Usage

RESULTS = Path(__file__).resolve().with_name("results")
QUIET = 0.9  # share of the time with a core, below which a machine is busy; waiting for files takes a few per cent


class Report(NamedTuple):
    """The report of one comparison."""

    theme: str  # part of a note's file name
    command: str
    machine: Machine
    facts: dict[str, str]  # such as the corpus and the sources of every contender
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]
    values: dict[str, Any]  # every measurement, for JSON

    def facts_with_machine(self) -> dict[str, str]:
        """The facts, preceded by the command and the machine."""
        return {"command": f"`{self.command}`", "machine": self.machine.described(), **self.facts}


def command_line(module: str, arguments: Sequence[str]) -> str:
    """The command as a reader would type it; absolute paths are shortened to their last part."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in arguments]
    return shlex.join(["python", "-m", module, *words])


def show(report: Report) -> None:
    """Prints a rich table on a terminal, Markdown elsewhere."""
    if not sys.stdout.isatty():
        print(markdown(report))
        return
    console = Console()
    for name, text in report.facts_with_machine().items():
        console.print(f"{name}: {text}", markup=False, highlight=False)
    table = Table()
    for number, column in enumerate(report.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in report.rows:
        table.add_row(*row)
    console.print(table, markup=False)
    for remark in report.remarks:
        console.print(remark, markup=False, highlight=False)


def markdown(report: Report) -> str:
    """Facts as a list, the figures as a table, remarks as paragraphs."""
    facts = "\n".join(f"- {name}: {text}" for name, text in report.facts_with_machine().items())
    rules = ["---", *["---:"] * (len(report.columns) - 1)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (report.columns, rules, *report.rows))
    return "\n\n".join([facts, table, *report.remarks])


def write_json(report: Report, path: Path) -> None:
    """Writes all measurements and the facts as JSON."""
    values = {
        "date": today(),
        "command": report.command,
        "machine": report.machine._asdict(),
        "facts": report.facts,
        **report.values,
        "remarks": list(report.remarks),
    }
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_note(report: Report, *, folder: Path = RESULTS) -> Path:
    """Adds the comparison to the file THEME_HARDWARE_DATE.md, which is created if it does not exist."""
    path = folder / f"{report.theme}_{report.machine.slug}_{today()}.md"
    folder.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else f"# {report.theme}, {today()}\n"
    path.write_text(f"{before}\n{markdown(report)}\n", encoding="utf-8")
    return path


def today() -> str:
    """Today's date, such as 2026-11-16."""
    return datetime.date.today().isoformat()


def remarks_on_table(*, base: str, usages: Iterable[Usage], threads: int) -> list[str]:
    """Remarks on how to read the table, and a warning if other processes used the cores."""
    remarks = [f"Median [minimum–maximum] of the rounds. A ratio {base} ÷ it above 1 means that {base} is faster."]
    share = core_share(usages)
    if threads == 1 and share < QUIET:
        remarks.append(
            f"The machine was busy: contenders had a core for {share:.0%} of the time. Other processes also lengthen "
            "CPU-seconds (shared caches, shared cores), so differences smaller than the spread mean nothing."
        )
    return remarks


def shown_spread(values: Spread, *, digits: int) -> str:
    """Median [minimum–maximum], such as 1.02 [0.99–1.05]."""
    median, least, greatest = (f"{value:,.{digits}f}" for value in values)
    return f"{median} [{least}–{greatest}]"


def shown_bytes(size: float) -> str:
    """Megabytes of 10⁶ bytes, such as 412.3 MB."""
    return f"{size / 1e6:,.1f} MB"
