"""The kinds of corpora that a command line can name, with the task that each belongs to."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calque.commands.column_options import column_names, is_conllu
from calque.commands.sequence_options import sequence_corpus
from calque.commands.table_options import Paths
from calque.errors import ConfigError

Corpora = dict[str, list[dict[str, Any]]]


def _word_corpus(path: Path, columns: str | None) -> dict[str, Any]:
    if is_conllu(path, columns=columns):
        return {"kind": "conllu", "path": str(path)}
    names = {} if columns is None else {"columns": list(column_names(columns))}
    return {"kind": "columns", "path": str(path), **names}


def _plain(kind: str) -> Callable[[Path, str | None], dict[str, Any]]:
    return lambda path, _: {"kind": kind, "path": str(path)}


class CorpusKind(NamedTuple):
    """A kind of corpus that belongs to one task and has an option of its own."""

    option: str
    task: str
    model: str
    systems: tuple[str, ...]
    """The systems of the task, the default first."""
    corpus: Callable[[Path, str | None], dict[str, Any]]
    """Returns the config values of a corpus, given its file and the value of --columns."""

    def corpora(self, train: Paths, valid: Paths, *, columns: str | None = None) -> Corpora:
        """The config's data section, as plain values, with the corpora of this option and of its --valid- option."""
        if valid and not train:
            raise ConfigError(f"--valid-{self.option} needs --{self.option}")
        roles = {"train": train, "valid": valid}
        return {role: [self.corpus(path, columns) for path in paths] for role, paths in roles.items() if paths}


KINDS = (
    CorpusKind(
        "text",
        "language-modelling",
        "a language model",
        ("language", "mikolov2010", "zaremba2014-medium", "merity2018", "kneser-ney"),
        _plain("text"),
    ),
    CorpusKind("conll", "tagging", "a tagger", ("huang2015", "lample2016", "ma2016", "brants2000"), _word_corpus),
    CorpusKind(
        "sequences",
        "recommendation",
        "a recommender",
        ("kang2018", "hidasi2016", "zhou2018", "popularity"),
        lambda path, _: sequence_corpus(path),
    ),
    CorpusKind(
        "audio",
        "recognition",
        "a speech recogniser",
        ("speech", "graves2006", "chan2016", "watanabe2017"),
        _plain("audio"),
    ),
    CorpusKind("images", "captioning", "a captioner", ("xu2015", "xu2015-hard", "liu2021"), _plain("images")),
)
"""All kinds except sentence pairs, which several options name."""

READS = {
    "translation": "this system reads pairs: give --source and --target",
    "embedding": "this system reads pairs: give --source and --target",
    "language-modelling": "a language model reads no source, only text: give --text, or a --system that translates",
    "tagging": "a tagger reads words and labels: give --conll instead of --source, --target or --text",
    "recommendation": "a recommender reads sequences of items: give --sequences instead of text",
    "recognition": "a speech recogniser reads recordings: give --audio MANIFEST",
    "captioning": "a captioner reads images: give --images with a manifest of images and captions",
}
"""For each task, the end of the error message for corpora that belong to another task."""

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


def pair_corpora(
    source: Paths, target: Paths, *, options: tuple[str, str] = ("--source", "--target")
) -> list[dict[str, Any]]:
    """A corpus for each source file and the target file at the same position."""
    if bool(source) != bool(target):
        raise ConfigError(f"{options[0]} and {options[1]} must be given together, but one of them is missing")
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
            "\n".join(
                [f"{options[0]} and {options[1]} must name the same number of files, in the same order; found", *lists]
            )
        )


def add_alignments(corpora: list[dict[str, Any]], alignments: Paths) -> None:
    """Adds the matching file of word alignments to each corpus."""
    if not alignments:
        return
    if not corpora:
        raise ConfigError("--alignments needs --source and --target; with --config, name the alignments in the config")
    if any(corpus["kind"] == "csv" for corpus in corpora):
        raise ConfigError("--alignments cannot be combined with --csv, whose pairs may span several lines")
    names = [corpus.get("source") or corpus["path"] for corpus in corpora]
    option = ", ".join(
        dict.fromkeys("--source" if corpus["kind"] == "files" else f"--{corpus['kind']}" for corpus in corpora)
    )
    refuse_unequal(names, alignments, options=(option, "--alignments"))
    for corpus, path in zip(corpora, alignments, strict=True):
        corpus["alignments"] = str(path)


def task_kind(values: dict[str, Any]) -> str:
    """The kind of task in config values that are not validated yet; if none is set, the default task of the model."""
    from calque.experiment.settings import with_kinds

    task = with_kinds(values).get("task", {})
    return str(task.get("kind", "translation")) if isinstance(task, dict) else "translation"
