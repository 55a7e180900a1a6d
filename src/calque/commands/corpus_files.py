"""The corpora that commands are given: pairs, text or labelled words, and the task they are for."""

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from calque.commands.column_options import column_names, is_conllu, refuse_idle_columns, refuse_unnamed_columns
from calque.commands.inputs import refuse_unreadable
from calque.errors import ConfigError

Source = Annotated[Path | None, typer.Option(help="Source sentences, one per line (plain or .gz).")]
Target = Annotated[Path | None, typer.Option(help="Their translations, line by line.")]
Text = Annotated[Path | None, typer.Option(help="Text, for a language model.")]
Conll = Annotated[Path | None, typer.Option(help="Labelled words, for a tagger: CoNLL-U or columns.")]
Columns = Annotated[str | None, typer.Option(help="With --conll: names of its columns, e.g. form,pos,chunk.")]
Label = Annotated[str | None, typer.Option(help="The column to predict; by default upos, or the last column.")]

Corpora = dict[str, list[dict[str, Any]]]

PLACEHOLDERS: dict[str, dict[str, Any]] = {
    "translation": {"kind": "files", "source": "train.source", "target": "train.target"},
    "language-modelling": {"kind": "text", "path": "train.txt"},
    "tagging": {"kind": "conllu", "path": "train.conllu"},
}
"""A corpus of each task, for a config whose files are named later."""


class CorpusFiles(NamedTuple):
    """The options that name corpora."""

    source: Path | None = None
    target: Path | None = None
    alignments: Path | None = None
    valid_source: Path | None = None
    valid_target: Path | None = None
    text: Path | None = None
    valid_text: Path | None = None
    conll: Path | None = None
    valid_conll: Path | None = None
    columns: str | None = None
    label: str | None = None

    def check(self) -> None:
        """Raises an error for options of different tasks, or for files that cannot be read."""
        if self.text is not None and (self.source or self.target):
            raise ConfigError(
                "--text is for a language model and cannot be combined with --source and --target, which are for "
                "translation"
            )
        if self.conll is not None and (self.source or self.target or self.text):
            raise ConfigError(
                "--conll is for a tagger and cannot be combined with --source, --target or --text, which are for other "
                "tasks"
            )
        corpora = (self.text, self.valid_text, self.conll, self.valid_conll, self.source, self.target)
        refuse_unreadable(*corpora, self.alignments, self.valid_source, self.valid_target)
        self.check_columns()

    def check_columns(self) -> None:
        """Raises an error for names of columns that have no effect, or that are missing, in the files that exist."""
        if self.conll is None:
            return
        files = [path for path in (self.conll, self.valid_conll) if path is not None]
        refuse_idle_columns(self.columns, *files)
        for path in files:
            if path.exists():
                refuse_unnamed_columns(path, columns=self.columns)

    def corpora(self) -> Corpora:
        """The values of the config's data section."""
        train = _pair_corpora(self.source, self.target, role="train", alignments=self.alignments)
        valid = _pair_corpora(self.valid_source, self.valid_target, role="valid")
        text = _text_corpora(self.text, self.valid_text)
        return train | valid | text | _word_corpora(self.conll, self.valid_conll, columns=self.columns)

    @property
    def default_system(self) -> str:
        return "language" if self.text else "huang2015" if self.conll else "tiny"

    @property
    def settings(self) -> list[str]:
        """The setting of the predicted column, if the options determine it."""
        if self.label is not None:
            return [f"task.labels={json.dumps(self.label)}"]
        if self.conll is None or is_conllu(self.conll):
            return []
        return [f"task.labels={json.dumps(column_names(self.columns)[-1] if self.columns else 'label')}"]

    def refuse_other_task(self, values: dict[str, Any]) -> None:
        """Raises a ConfigError if the corpora are not those of the config's task."""
        kind = task_kind(values)
        if self.conll and kind != "tagging":
            raise ConfigError(
                "--conll is for a tagger (--system huang2015, lample2016 or ma2016); this system reads text"
            )
        if (self.text or self.source) and kind == "tagging":
            raise ConfigError("a tagger reads words and labels: give --conll instead of --source, --target or --text")
        if self.text and kind != "language-modelling":
            raise ConfigError(
                "--text is for a language model (--system language); this system translates: give --source"
            )
        if self.source and kind == "language-modelling":
            raise ConfigError("--source: a language model reads no source; give --text, or a --system that translates")


def task_kind(values: dict[str, Any]) -> str:
    """The kind of an experiment's task, which may follow from its model; the values are not checked yet."""
    from calque.experiment.settings import with_kinds

    task = with_kinds(values).get("task", {})
    return str(task.get("kind", "translation")) if isinstance(task, dict) else "translation"


def _text_corpora(text: Path | None, valid: Path | None) -> Corpora:
    if valid is not None and text is None:
        raise ConfigError("--valid-text needs --text")
    paths = {"train": text, "valid": valid}
    return {role: [{"kind": "text", "path": str(path)}] for role, path in paths.items() if path is not None}


def _word_corpora(train: Path | None, valid: Path | None, *, columns: str | None) -> Corpora:
    if train is None and (valid is not None or columns is not None):
        raise ConfigError(f"{'--columns' if valid is None else '--valid-conll'} needs --conll")
    paths = {"train": train, "valid": valid}
    return {role: [_word_corpus(path, columns)] for role, path in paths.items() if path is not None}


def _word_corpus(path: Path, columns: str | None) -> dict[str, Any]:
    if is_conllu(path):
        return {"kind": "conllu", "path": str(path)}
    names = {} if columns is None else {"columns": list(column_names(columns))}
    return {"kind": "columns", "path": str(path), **names}


def _pair_corpora(source: Path | None, target: Path | None, *, role: str, alignments: Path | None = None) -> Corpora:
    if (source is None) != (target is None):
        flags = "--source and --target" if role == "train" else "--valid-source and --valid-target"
        raise ConfigError(f"{flags} go together: one of them is missing")
    if source is None:
        if alignments is not None:
            raise ConfigError("--alignments needs --source and --target; a config names its own alignments")
        return {}
    links = {} if alignments is None else {"alignments": str(alignments)}
    return {role: [{"kind": "files", "source": str(source), "target": str(target), **links}]}
