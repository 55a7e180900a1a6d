"""The options that describe files of labelled words: their format and the names of their columns."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import is_pipe
from calque.errors import ConfigError

if TYPE_CHECKING:
    from calque.data.column_files import ColumnFormat


Columns = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="With --conll: the names of the file's columns, separated by commas."),
]


def column_names(columns: str | None) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in columns.split(",")) if columns else ()


def file_format(path: Path) -> "ColumnFormat | None":
    """The format that a file's suffix implies: .conllu, or one beginning with .conll, .col, .iob, .bio or .tsv."""
    from calque.data.compression import SUFFIXES

    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in SUFFIXES]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in (".conllu", ".conllup"):
        return "conllu"
    return "columns" if suffix.startswith((".conll", ".col", ".iob", ".bio", ".tsv")) else None


def found_format(path: Path, *, is_columns: bool = False) -> "ColumnFormat | None":
    """The format of a file of labelled words, according to its suffix.

    If the suffix is unknown, the file is a column file if `is_columns` is true. Otherwise it is CoNLL-U if its first
    word line has the form of CoNLL-U, and its format is None if not.
    """
    if format := file_format(path):
        return format
    if is_columns:
        return "columns"
    return "conllu" if _starts_as_conllu(path) else None


def is_conllu(path: Path, *, columns: str | None = None) -> bool:
    """Whether a file is CoNLL-U: by its suffix or, for an unknown suffix without --columns, by its content."""
    return found_format(path, is_columns=columns is not None) == "conllu"


def _starts_as_conllu(path: Path) -> bool:
    """Whether a file's first line that is neither empty nor a comment is a CoNLL-U line; False for a pipe."""
    from calque.data.lines import path_lines

    if is_pipe(path) or not path.is_file():
        return False
    texts = (line.text for line in path_lines(path, invalid="replace"))
    first = next((text for text in texts if text.strip() and not text.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == 10 and all(cells) and re.fullmatch(r"\d+([-.]\d+)?", cells[0]) is not None


def refuse_idle_columns(columns: str | None, *paths: Path | None) -> None:
    """Raises a ConfigError if --columns is given but all files are CoNLL-U, whose columns have fixed names."""
    given = [path for path in paths if path is not None]
    if columns and given and all(is_conllu(path, columns=columns) for path in given):
        listed = ", ".join(map(str, given))
        raise ConfigError(
            "--columns has no effect on CoNLL-U files (recognised by their suffix), whose columns have fixed names: "
            f"{listed}; leave the option out"
        )


def refuse_unnamed_columns(path: Path, *, columns: str | None = None) -> None:
    """Raises a ConfigError if a file has more columns than --columns names; the default names are form and label."""
    from calque.data.column_files import file_sentences

    if is_conllu(path, columns=columns) or is_pipe(path):
        return
    names = column_names(columns) or ("form", "label")
    first = next((rows for rows in file_sentences(path, format="columns") if rows.cells), None)
    if first is not None and len(first.cells[0]) > len(names):
        raise ConfigError(
            f"{path} has {len(first.cells[0])} columns; name them all with --columns, e.g. --columns form,pos,chunk. "
            "The last column is predicted unless --label names another"
        )
