"""The corpora named on a command line (pairs, text, labelled words or histories), and the task that they belong to."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from calque.commands.column_options import column_names, is_conllu, refuse_idle_columns, refuse_unnamed_columns
from calque.commands.corpus_kinds import KINDS, READS, Corpora, CorpusKind, add_alignments, pair_corpora, task_kind
from calque.commands.inputs import refuse_unreadable
from calque.commands.table_options import Paths, TableColumns, Tables
from calque.errors import ConfigError


class HeldOutFiles(NamedTuple):
    """The values of the options that name validation or test corpora."""

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
    """The values of the options that name corpora."""

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
        """Raises an error if options belong to different tasks, or if files cannot be read."""
        self.refuse_mixed()
        pairs = (self.source, self.target, self.alignments, self.valid.source, self.valid.target)
        tables = (self.tables.paths, self.valid.tables.paths)
        others = [getattr(files, kind.option) for files in (self, self.valid) for kind in KINDS]
        refuse_unreadable(*chain.from_iterable(paths or () for paths in (*pairs, *tables, *others)))
        self.check_columns()

    def refuse_mixed(self) -> None:
        """Raises a ConfigError if options belong to different tasks."""
        named = {kind.option: kind.model for kind in self.kinds}
        pairs = self.pair_option or _pair_option(self.valid, prefix="--valid-")
        for option, model in reversed(named.items()):
            if other := pairs or next((f"--{first}" for first in named if first != option), ""):
                purpose = "translation" if other == pairs else named[other.removeprefix("--")]
                raise ConfigError(
                    f"--{option} is for {model} and cannot be combined with {other}, which is for {purpose}; leave one "
                    "of them out"
                )

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
        """The config's data section, as plain values, with the corpora that the options name."""
        self.refuse_mixed()
        self.table_columns.check(Tables(*map(_joined, self.tables, self.valid.tables)))
        train = pair_corpora(self.source, self.target) + self.tables.corpora(self.table_columns)
        add_alignments(train, self.alignments)
        valid = pair_corpora(self.valid.source, self.valid.target, options=("--valid-source", "--valid-target"))
        valid += self.valid.tables.corpora(self.table_columns)
        corpora = {role: corpora for role, corpora in (("train", train), ("valid", valid)) if corpora}
        for kind in KINDS:
            files, held_out = getattr(self, kind.option), getattr(self.valid, kind.option)
            corpora |= kind.corpora(files, held_out, columns=self.columns)
        if self.columns is not None and not self.conll:
            raise ConfigError("--columns names the columns of --conll files; give --conll too, or leave --columns out")
        return corpora

    @property
    def kinds(self) -> Iterator[CorpusKind]:
        """The kinds of corpora whose options are given."""
        return (kind for kind in KINDS if getattr(self, kind.option))

    @property
    def pair_option(self) -> str:
        """The first option given that names sentence pairs; empty if there is none."""
        return _pair_option(self, prefix="--")

    @property
    def default_system(self) -> str:
        return next((kind.systems[0] for kind in self.kinds), "tiny")

    @property
    def settings(self) -> list[str]:
        """The setting `task.labels=NAME` for the predicted column, if the options determine it; otherwise none."""
        if self.label is not None:
            return [f"task.labels={json.dumps(self.label)}"]
        if all(is_conllu(path, columns=self.columns) for path in self.conll or ()):
            return []
        return [f"task.labels={json.dumps(column_names(self.columns)[-1] if self.columns else 'label')}"]

    def refuse_other_task(self, values: dict[str, Any]) -> None:
        """Raises a ConfigError if the corpora do not belong to the config's task."""
        task = task_kind(values)
        for kind in self.kinds:
            if kind.task != task:
                *systems, last = kind.systems
                listed = f"--system {', '.join(systems)} or {last}"
                raise ConfigError(
                    f"--{kind.option} is for {kind.model} ({listed}), but the task is {task}; "
                    f"{READS.get(task, READS['translation'])}"
                )
        if self.pair_option and task in {kind.task for kind in KINDS}:
            raise ConfigError(f"{self.pair_option}: {READS[task]}")


def _pair_option(files: CorpusFiles | HeldOutFiles, *, prefix: str) -> str:
    """The first given option for sentence pairs, e.g. --valid-source for the prefix "--valid-"; "" if none is given."""
    options = {"source": files.source, "target": files.target, **files.tables._asdict()}
    return next((f"{prefix}{option}" for option, paths in options.items() if paths), "")


def _joined(paths: Paths, more: Paths) -> list[Path]:
    return [*(paths or ()), *(more or ())]
