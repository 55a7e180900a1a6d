"""The options that name corpora, which several commands have."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from calque.commands.corpus_files import CorpusFiles, HeldOutFiles
from calque.commands.options import DATA, TEST, VALIDATION
from calque.commands.table_options import (
    Csv,
    Delimiter,
    Header,
    Jsonl,
    Paths,
    SourceColumn,
    TableColumns,
    Tables,
    TargetColumn,
    Tsv,
    files_option,
)


def corpus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that name corpora to a command.

    The command receives the values for training corpora in its parameter `files`, and those for held-out corpora in its
    parameters `valid` and `test`.
    """
    signature = inspect.signature(command)
    groups = {name: group for name, group in _option_groups().items() if name in signature.parameters}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += groups[name].options if name in groups else [parameter]
    by_keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(command)
    def command_with_options(**values: Any) -> None:
        files = {
            name: group.gather(**{option.name: values.pop(option.name) for option in group.options})
            for name, group in groups.items()
        }
        command(**files, **values)

    command_with_options.__signature__ = signature.replace(parameters=by_keyword)  # type: ignore[attr-defined]
    return command_with_options


class _OptionGroup(NamedTuple):
    """A group of command-line options, and the function that gathers their values into one object."""

    options: Sequence[inspect.Parameter]
    gather: Callable[..., CorpusFiles | HeldOutFiles]


def _option_groups() -> dict[str, _OptionGroup]:
    """The option groups, by the command's parameter (files, valid or test) that receives their gathered values."""
    held_out = "Validation sources; by default, 1 % of the training pairs is held out (at least 50, at most 2,000)."
    return {
        "files": _OptionGroup(list(inspect.signature(_named_files).parameters.values()), _named_files),
        "valid": _held_out_options("valid", label="Validation", sources=held_out, panel=VALIDATION),
        "test": _held_out_options(
            "test",
            label="Test",
            sources="Test sources; reports how many of them occur in the training data.",
            panel=TEST,
        ),
    }


def _held_out_options(role: str, *, label: str, sources: str, panel: str) -> _OptionGroup:
    """The options --ROLE-source, --ROLE-target and so on for `role`; `sources` is the help text of --ROLE-source."""
    helps = {
        "source": sources,
        "target": f"{label} targets.",
        "tsv": f"{label} pairs, with columns as in --tsv.",
        "csv": f"{label} pairs, with columns as in --csv.",
        "jsonl": f"{label} pairs, with keys as in --jsonl.",
        "text": f"{label} text, with --text.",
        "conll": f"{label} sentences, with --conll.",
        "sequences": f"{label} users, with --sequences: the last item of each is the target.",
        "audio": f"{label} recordings, with --audio.",
        "images": f"{label} images, with --images.",
    }
    options = [
        inspect.Parameter(
            f"{role}_{kind}",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[Paths, files_option(help=help, panel=panel)],
        )
        for kind, help in helps.items()
    ]

    def gather(**values: Paths) -> HeldOutFiles:
        source, target, tsv, csv, jsonl, *others = (values[option.name] for option in options)
        return HeldOutFiles(source, target, Tables(tsv, csv, jsonl), *others)

    return _OptionGroup(options, gather)


def _named_files(
    source: Annotated[
        Paths, files_option(help="Source sentences, one per line (plain or compressed). Repeat for several files.")
    ] = None,
    target: Annotated[
        Paths, files_option(help="The translations, one per line: as many files as --source, in the same order.")
    ] = None,
    tsv: Tsv = None,
    csv: Csv = None,
    jsonl: Jsonl = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = None,
    delimiter: Delimiter = None,
    text: Annotated[
        Paths, files_option(help="A text file, to train a language model. Repeat the option for several files.")
    ] = None,
    conll: Annotated[Paths, files_option(help="A file of labelled words, for a tagger: CoNLL-U or columns.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            rich_help_panel=DATA,
            help="With --conll: the names of the file's columns, e.g. form,pos,chunk.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=DATA,
            help="The column to predict; by default upos in CoNLL-U, and the last column in other files.",
        ),
    ] = None,
    sequences: Annotated[
        Paths,
        files_option(help="Histories of items, for a recommender: one user per line, or JSON records (.jsonl)."),
    ] = None,
    audio: Annotated[
        Paths, files_option(help="A manifest of recordings with their texts (JSONL or TSV), for a speech recogniser.")
    ] = None,
    images: Annotated[
        Paths, files_option(help="A manifest of images and captions, for a captioner: JSON lines or TSV.")
    ] = None,
) -> CorpusFiles:
    return CorpusFiles(
        source=source,
        target=target,
        tables=Tables(tsv, csv, jsonl),
        table_columns=TableColumns(source_column, target_column, header, delimiter),
        text=text,
        conll=conll,
        columns=columns,
        label=label,
        sequences=sequences,
        audio=audio,
        images=images,
    )
