"""The options for tables of pairs (TSV, CSV and JSON Lines) and for their source and target columns."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from calque.commands.options import (
    DATA,
    file_option,
)
from calque.errors import ConfigError
from calque.parsing import parse_json

Paths = list[Path] | None


def files_option(*, help: str, panel: str = DATA) -> Any:
    """A command-line option that names a file and may be repeated."""
    return file_option(help=help, panel=panel)


Tsv = Annotated[
    Paths,
    files_option(help="Pairs, separated by tabs: columns 1 and 2, or --source-column and --target-column."),
]
Csv = Annotated[Paths, files_option(help="Pairs, as comma-separated values; line 1 names the columns.")]
Jsonl = Annotated[Paths, files_option(help="Pairs, one JSON object per line, with the keys source and target.")]
SourceColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        rich_help_panel=DATA,
        help="The source column: its number (from 1) or name for --tsv and --csv, or the key for --jsonl.",
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=DATA, help="The target column, written like --source-column."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Treat line 1 of --tsv and --csv as column names, or not; by default only for --csv.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        rich_help_panel=DATA,
        help="The character that separates the columns of --csv; a comma by default.",
    ),
]

Corpus = dict[str, Any]


class TableColumns(NamedTuple):
    """The options that describe the columns of tables."""

    source: str | None = None
    target: str | None = None
    header: bool | None = None
    delimiter: str | None = None

    def __bool__(self) -> bool:
        return any(option is not None for option in self)

    def of(self, tables: "Tables") -> "TableColumns":
        """A copy without the options that do not apply to the given tables."""
        return TableColumns(
            self.source if tables else None,
            self.target if tables else None,
            self.header if tables.tsv or tables.csv else None,
            self.delimiter if tables.csv else None,
        )

    def check(self, tables: "Tables") -> None:
        """Raises a ConfigError if an option is incomplete or applies to no table."""
        if (self.source is None) != (self.target is None):
            raise ConfigError("--source-column and --target-column must be given together, but one of them is missing")
        if self.source is not None and not tables:
            raise ConfigError("--source-column and --target-column have no effect without --tsv, --csv or --jsonl")
        if self.header is not None and not (tables.tsv or tables.csv):
            raise ConfigError("--header and --no-header have no effect without --tsv or --csv")
        if self.delimiter is not None and not tables.csv:
            raise ConfigError("--delimiter needs --csv; the columns of --tsv are separated by tabs")


class Tables(NamedTuple):
    """The TSV, CSV and JSON Lines files of one role, such as training or validation."""

    tsv: Paths = None
    csv: Paths = None
    jsonl: Paths = None

    def __bool__(self) -> bool:
        return any(self)

    @property
    def paths(self) -> list[Path]:
        """The paths of all tables: the TSV files, then the CSV files, then the JSON Lines files."""
        return [path for paths in self for path in paths or ()]

    def corpora(self, columns: TableColumns) -> list[Corpus]:
        """The config values of one corpus per table.

        If no option names the columns, they are looked up in the table's first line, provided that the file exists.
        """
        header = {} if columns.header is None else {"header": columns.header}
        delimiter = {} if columns.delimiter is None else {"delimiter": columns.delimiter.replace("\\t", "\t")}
        corpora: list[Corpus] = [{"kind": "tsv", "path": str(path), **header} for path in self.tsv or ()]
        corpora += [{"kind": "csv", "path": str(path), **header, **delimiter} for path in self.csv or ()]
        corpora += [{"kind": "jsonl", "path": str(path)} for path in self.jsonl or ()]
        for corpus in corpora:
            keys = ("source_key", "target_key") if corpus["kind"] == "jsonl" else ("source_column", "target_column")
            if columns.source is not None and columns.target is not None:
                sides = (columns.source, columns.target)
                corpus.update(zip(keys, sides if corpus["kind"] == "jsonl" else map(_column, sides), strict=True))
            elif Path(corpus["path"]).is_file():
                corpus.update(zip(keys, _default_columns(corpus), strict=False))
        return corpora


def _column(option: str) -> int | str:
    """Converts the value of an option to a column: its number if the value is a number, otherwise its name."""
    return int(option) if option.isascii() and option.isdigit() else option


_CHOOSE = "choose two with --source-column and --target-column"


def _default_columns(corpus: Corpus) -> Iterator[int | str]:
    """Yields the names source and target if a table's header has both; otherwise nothing: columns 1 and 2 are read.

    Raises a ConfigError that lists the columns if the header has more than two names, but not both of these, or if the
    first JSON object lacks these keys.
    """
    from calque.data.lines import LINE_LIMIT, path_lines

    lines = path_lines(Path(corpus["path"]), limit=LINE_LIMIT, invalid="replace")
    line = next((line.text for line in lines if line.text.strip()), "")
    if corpus["kind"] == "jsonl":
        _refuse_other_keys(line, path=corpus["path"])
        return
    from calque.data.tables import quoted_cells

    is_csv = corpus["kind"] == "csv"
    try:
        cells = quoted_cells(line, delimiter=corpus.get("delimiter", ",")) if is_csv else line.split("\t")
    except ValueError:  # reported with its line when the file is read
        return
    names = [cell.strip() for cell in cells]
    if not corpus.get("header", is_csv):
        _note_columns(cells, path=corpus["path"])
    elif names.count("source") == names.count("target") == 1:
        yield from ("source", "target")
    elif len(names) > 2:
        listed = ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
        raise ConfigError(f"{corpus['path']} has {len(names)} columns: {listed}; {_CHOOSE}")


def _refuse_other_keys(line: str, *, path: str) -> None:
    from calque.data.rows import key_list

    try:
        values = parse_json(line)
    except ValueError:  # reported with its line when the file is read
        return
    if isinstance(values, dict) and not {"source", "target"} <= values.keys():
        raise ConfigError(
            f"{path}: no keys 'source' and 'target' in its first JSON object; its keys: {key_list(values)}; {_CHOOSE}"
        )


def _note_columns(cells: list[str], *, path: str) -> None:
    """Prints which columns of a table are read if it has more than two; `cells` is its first line. Only on rank 0."""
    if len(cells) > 2 and os.environ.get("RANK", "0") == "0":
        source, target = (cell if len(cell) <= 30 else f"{cell[:29]}…" for cell in cells[:2])
        typer.echo(
            f"{path} has {len(cells)} columns: reading 1 as the source ({source!r}) and 2 as the target ({target!r}); "
            "--source-column and --target-column choose others",
            err=True,
        )
