"""The corpora named on a command line (pairs, text, labelled words or histories), and the task that they belong to."""

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from calque.commands.column_options import column_names, is_conllu, refuse_idle_columns, refuse_unnamed_columns
from calque.commands.inputs import refuse_unreadable
from calque.commands.options import DATA, TEST, VALIDATION
from calque.commands.sequence_options import sequence_corpora
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
from calque.errors import ConfigError

Corpora = dict[str, list[dict[str, Any]]]

PLACEHOLDERS: dict[str, dict[str, Any]] = {
    "translation": {"kind": "files", "source": "train.source", "target": "train.target"},
    "language-modelling": {"kind": "text", "path": "train.txt"},
    "tagging": {"kind": "conllu", "path": "train.conllu"},
    "embedding": {"kind": "files", "source": "train.source", "target": "train.target"},
    "recommendation": {"kind": "sequences", "path": "users.txt"},
    "recognition": {"kind": "audio", "path": "train.jsonl"},
    "captioning": {"kind": "images", "path": "train.jsonl"},
}
"""A placeholder corpus for each task, for a config in which the user will name the files."""


class HeldOutFiles(NamedTuple):
    """The options that name validation or test corpora."""

    source: Paths = None
    target: Paths = None
    tables: Tables = Tables()
    text: Paths = None
    conll: Paths = None
    sequences: Paths = None
    audio: Paths = None
    images: Paths = None

    def __bool__(self) -> bool:
        return any(self)


class CorpusFiles(NamedTuple):
    """The options that name corpora."""

    source: Paths = None
    target: Paths = None
    alignments: Paths = None
    tables: Tables = Tables()
    table_columns: TableColumns = TableColumns()
    text: Paths = None
    conll: Paths = None
    columns: str | None = None
    label: str | None = None
    valid: HeldOutFiles = HeldOutFiles()
    sequences: Paths = None
    audio: Paths = None
    images: Paths = None

    def check(self) -> None:
        """Raises an error for options of different tasks, or for files that cannot be read."""
        if self.text and self.pair_option:
            raise ConfigError(
                f"--text is for a language model and cannot be combined with {self.pair_option}, which is for "
                "translation"
            )
        if self.conll and (self.pair_option or self.text):
            raise ConfigError(
                f"--conll is for a tagger and cannot be combined with {self.pair_option or '--text'}, which is for "
                "another task"
            )
        if self.sequences and (
            other := self.pair_option or ("--text" if self.text else "--conll" if self.conll else "")
        ):
            raise ConfigError(
                f"--sequences is for a recommender and cannot be combined with {other}, which is for another task"
            )
        if self.audio and (self.pair_option or self.text or self.conll or self.sequences):
            other = self.pair_option or ("--text" if self.text else "--conll" if self.conll else "--sequences")
            raise ConfigError(
                f"--audio is for a speech recogniser and cannot be combined with {other}, which is for another task"
            )
        if self.images and (self.pair_option or self.text or self.conll):
            other = self.pair_option or ("--text" if self.text else "--conll")
            raise ConfigError(
                f"--images is for a captioner and cannot be combined with {other}, which is for another task"
            )
        pairs = (self.source, self.target, self.alignments, self.valid.source, self.valid.target)
        tables = (self.tables.paths, self.valid.tables.paths)
        others = [(files.text, files.conll, files.sequences, files.audio, files.images) for files in (self, self.valid)]
        refuse_unreadable(*(path for paths in (*pairs, *tables, *chain(*others)) for path in paths or ()))
        self.check_columns()

    def check_columns(self) -> None:
        """Raises an error if --columns has no effect, or is missing for an existing file that needs it."""
        if not self.conll:
            return
        files = [*self.conll, *(self.valid.conll or ())]
        refuse_idle_columns(self.columns, *files)
        for path in files:
            if path.exists():
                refuse_unnamed_columns(path, columns=self.columns)

    def corpora(self) -> Corpora:
        """The values of the config's data section, as the options define it."""
        self.table_columns.check(Tables(*map(_joined, self.tables, self.valid.tables)))
        train = pair_corpora(self.source, self.target) + self.tables.corpora(self.table_columns)
        _add_alignments(train, self.alignments)
        valid = pair_corpora(self.valid.source, self.valid.target, options=("--valid-source", "--valid-target"))
        valid += self.valid.tables.corpora(self.table_columns)
        pairs = {role: corpora for role, corpora in (("train", train), ("valid", valid)) if corpora}
        text = _text_corpora(self.text, self.valid.text)
        words = _word_corpora(self.conll, self.valid.conll, columns=self.columns)
        sequences = sequence_corpora(self.sequences, self.valid.sequences)
        audio = _audio_corpora(self.audio, self.valid.audio)
        return pairs | text | words | sequences | audio | _image_corpora(self.images, self.valid.images)

    @property
    def pair_option(self) -> str:
        """The first option given that names sentence pairs; empty if there is none."""
        options = {"--source": self.source, "--target": self.target}
        options |= {f"--{kind}": paths for kind, paths in self.tables._asdict().items()}
        return next((option for option, paths in options.items() if paths), "")

    @property
    def default_system(self) -> str:
        if self.sequences:
            return "kang2018"
        if self.images:
            return "xu2015"
        return "language" if self.text else "huang2015" if self.conll else "speech" if self.audio else "tiny"

    @property
    def settings(self) -> list[str]:
        """The setting `task.labels=NAME` for the predicted column, if the options determine it; otherwise none."""
        if self.label is not None:
            return [f"task.labels={json.dumps(self.label)}"]
        if all(map(is_conllu, self.conll or ())):
            return []
        return [f"task.labels={json.dumps(column_names(self.columns)[-1] if self.columns else 'label')}"]

    def refuse_other_task(self, values: dict[str, Any]) -> None:
        """Raises a ConfigError if the corpora are not those of the config's task."""
        from calque.models import systems

        kind = task_kind(values)
        if self.sequences and kind != "recommendation":
            raise ConfigError(
                f"--sequences is for a recommender ({_named(systems.RECOMMENDERS)}); this system reads other data"
            )
        if (self.text or self.conll or self.pair_option) and kind == "recommendation":
            raise ConfigError("a recommender reads sequences of items: give --sequences instead of text")
        if bool(self.audio) != (kind == "recognition") and (self.audio or self.text or self.conll or self.pair_option):
            raise ConfigError(
                f"--audio is for a speech recogniser ({_named(systems.RECOGNISERS)}); this system reads other data"
                if self.audio
                else "a speech recogniser reads recordings: give --audio MANIFEST"
            )
        if self.images and kind != "captioning":
            raise ConfigError(
                f"--images is for a captioner ({_named(systems.CAPTIONERS)}); this system reads other data"
            )
        if (self.text or self.conll or self.pair_option) and kind == "captioning":
            raise ConfigError("a captioner reads images: give --images with a manifest of images and captions")
        if self.conll and kind != "tagging":
            raise ConfigError(f"--conll is for a tagger ({_named(systems.TAGGERS)}); this system reads other data")
        if (self.text or self.pair_option) and kind == "tagging":
            raise ConfigError("a tagger reads words and labels: give --conll instead of --source, --target or --text")
        if self.text and kind != "language-modelling":
            raise ConfigError(
                f"--text is for a language model ({_named(systems.LANGUAGE_MODELS)}); this system reads pairs: give "
                "--source"
            )
        if self.pair_option and kind == "language-modelling":
            raise ConfigError(
                f"{self.pair_option}: a language model reads no source; give --text, or a --system that translates"
            )


def corpus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that name corpora.

    A command receives those of the training corpora as its parameter `files`, and those of held-out corpora as its
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
    """Options of a command, and the function that gathers their values."""

    options: Sequence[inspect.Parameter]
    gather: Callable[..., CorpusFiles | HeldOutFiles]


def _option_groups() -> dict[str, _OptionGroup]:
    """The groups of options by the parameter of a command that receives them."""
    held_out = "Validation sources; by default 1 % is held out (50 to 2,000 pairs)."
    return {
        "files": _OptionGroup(list(inspect.signature(_named_files).parameters.values()), _named_files),
        "valid": _held_out_options("valid", label="Validation", sources=held_out, panel=VALIDATION),
        "test": _held_out_options(
            "test", label="Test", sources="Test sources, to look for in the training data.", panel=TEST
        ),
    }


def _held_out_options(role: str, *, label: str, sources: str, panel: str) -> _OptionGroup:
    """The options `--ROLE-source`, `--ROLE-target` and so on; `sources` is the help text of the first."""
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
        Paths, files_option(help="The translations, line by line: as many files as --source, in the same order.")
    ] = None,
    tsv: Tsv = None,
    csv: Csv = None,
    jsonl: Jsonl = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = None,
    delimiter: Delimiter = None,
    text: Annotated[
        Paths, files_option(help="A text file, for a language model. Repeat the option for several files.")
    ] = None,
    conll: Annotated[Paths, files_option(help="Labelled words, for a tagger: CoNLL-U or columns.")] = None,
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
            metavar="NAME", rich_help_panel=DATA, help="The column to predict; by default upos, or the last column."
        ),
    ] = None,
    sequences: Annotated[
        Paths,
        files_option(help="Histories of items, for a recommender: a user per line, or JSON records (.jsonl)."),
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


def _joined(paths: Paths, more: Paths) -> list[Path]:
    return [*(paths or ()), *(more or ())]


def pair_corpora(
    source: Paths, target: Paths, *, options: tuple[str, str] = ("--source", "--target")
) -> list[dict[str, Any]]:
    """A corpus for each source file and the target file at the same position."""
    if bool(source) != bool(target):
        raise ConfigError(f"{options[0]} and {options[1]} go together: one of them is missing")
    sources, targets = source or [], target or []
    refuse_unequal(sources, targets, options=options)
    return [
        {"kind": "files", "source": str(source_file), "target": str(target_file)}
        for source_file, target_file in zip(sources, targets, strict=True)
    ]


def refuse_unequal(first: Sequence[Path | str], second: Sequence[Path | str], *, options: tuple[str, str]) -> None:
    """Raises a ConfigError that lists the files of both options if the options name different numbers of files."""
    if len(first) != len(second):
        lists = [
            f"  {option}: {', '.join(map(str, files))}" for option, files in zip(options, (first, second), strict=True)
        ]
        raise ConfigError(
            "\n".join([f"{options[0]} and {options[1]} must name equally many files, in the same order; found", *lists])
        )


def _named(systems: Iterable[str]) -> str:
    """The option that chooses one of these systems: --system a, b or c."""
    *others, last = systems
    return f"--system {', '.join(others)} or {last}"


def task_kind(values: dict[str, Any]) -> str:
    """The kind of the task in unchecked config values; if the task section does not set it, the model decides."""
    from calque.experiment.settings import with_kinds

    task = with_kinds(values).get("task", {})
    return str(task.get("kind", "translation")) if isinstance(task, dict) else "translation"


def _text_corpora(text: Paths, valid: Paths) -> Corpora:
    if valid and not text:
        raise ConfigError("--valid-text needs --text")
    roles = {"train": text, "valid": valid}
    return {role: [{"kind": "text", "path": str(path)} for path in paths] for role, paths in roles.items() if paths}


def _word_corpora(train: Paths, valid: Paths, *, columns: str | None) -> Corpora:
    if not train and (valid or columns is not None):
        raise ConfigError(f"{'--valid-conll' if valid else '--columns'} needs --conll")
    roles = {"train": train, "valid": valid}
    return {role: [_word_corpus(path, columns) for path in paths] for role, paths in roles.items() if paths}


def _audio_corpora(train: Paths, valid: Paths) -> Corpora:
    if valid and not train:
        raise ConfigError("--valid-audio needs --audio")
    roles = {"train": train, "valid": valid}
    return {role: [{"kind": "audio", "path": str(path)} for path in paths] for role, paths in roles.items() if paths}


def _word_corpus(path: Path, columns: str | None) -> dict[str, Any]:
    if is_conllu(path):
        return {"kind": "conllu", "path": str(path)}
    names = {} if columns is None else {"columns": list(column_names(columns))}
    return {"kind": "columns", "path": str(path), **names}


def _image_corpora(train: Paths, valid: Paths) -> Corpora:
    if valid and not train:
        raise ConfigError("--valid-images needs --images")
    roles = {"train": train, "valid": valid}
    return {role: [{"kind": "images", "path": str(path)} for path in paths] for role, paths in roles.items() if paths}


def _add_alignments(corpora: list[dict[str, Any]], alignments: Paths) -> None:
    """Adds to each corpus its file of word alignments."""
    if not alignments:
        return
    if not corpora:
        raise ConfigError("--alignments needs --source and --target; a config names its own alignments")
    if any(corpus["kind"] == "csv" for corpus in corpora):
        raise ConfigError("--alignments cannot be combined with --csv, whose pairs may span several lines")
    names = [corpus.get("source") or corpus["path"] for corpus in corpora]
    option = ", ".join(
        dict.fromkeys("--source" if corpus["kind"] == "files" else f"--{corpus['kind']}" for corpus in corpora)
    )
    refuse_unequal(names, alignments, options=(option, "--alignments"))
    for corpus, path in zip(corpora, alignments, strict=True):
        corpus["alignments"] = str(path)
