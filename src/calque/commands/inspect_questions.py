"""The inputs that `calque inspect` shows: from arguments, files of sentences, pairs of files, or column files."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from calque.commands.inputs import refuse_unreadable
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import History, Sentence, Tagger


class Question(NamedTuple):
    """An input to inspect (a text, a file name, a sentence with columns, a history), with its target text if given."""

    text: "str | Sentence | History"
    target: str | None = None


SETTING = re.compile(r"[a-z_.]+=\S*")


def split_settings(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments into sentences and search settings; an argument of the form KEY=VALUE is a setting."""
    settings = [text for text in texts if SETTING.fullmatch(text)]
    return [text for text in texts if text not in settings], settings


def refuse_search_settings(settings: Sequence[str], *, models: str) -> None:
    """Raises a ConfigError for search settings, which have no effect on models that do not search.

    Any other argument of the form KEY=VALUE is text, such as the id of an item.
    """
    from calque.search.settings import SearchConfig

    names = SearchConfig.model_fields
    if idle := [text for text in settings if text.partition("=")[0].removeprefix("search.") in names]:
        raise ConfigError(f"{', '.join(idle)}: search settings have no effect on {models}; leave them out")


def questions_of(sentences: list[str], *, source: Path | None, target: str | None, limit: int) -> list[Question]:
    """The sentences to inspect, given or in the first `limit` lines of `source`, with their translations if given."""
    if source is None:
        if not sentences:
            raise ConfigError(
                'nothing to inspect; give a sentence, e.g. calque inspect runs/1 "Guten Morgen!", or a file with '
                "--source, --image or --audio"
            )
        if target is not None and len(sentences) > 1:
            raise ConfigError(
                f"--target takes the translation of a single sentence, but {len(sentences)} sentences were given; to "
                "inspect many pairs, name two files: --source FILE --target FILE"
            )
        return [Question(sentence, target) for sentence in sentences]
    if sentences:
        raise ConfigError("both sentences and --source were given; give only one of them")
    from calque.data.lines import LINE_LIMIT, path_lines

    files = [source, *([Path(target)] if target is not None else [])]
    refuse_unreadable(*files)
    columns = [[line.text for line in path_lines(path, limit=LINE_LIMIT, invalid="fail")] for path in files]
    if len({len(column) for column in columns}) > 1:
        raise DataError(
            f"{source} has {len(columns[0]):,} lines, but {target} has {len(columns[1]):,}; the files must line up"
        )
    columns = [column[:limit] for column in columns]
    pairs = zip(*columns, strict=True) if len(columns) == 2 else ((text, None) for text in columns[0])
    questions = [Question(text, translation) for text, translation in pairs if text.strip()]
    if not questions:
        raise DataError(f"{source} contains no sentence to inspect")
    return questions


def labelled_words(tagger: "Tagger", path: Path, *, limit: int) -> list[Question]:
    """The sentences of a column file; empty if the file is plain text."""
    from calque.commands.column_options import found_format
    from calque.data.column_files import file_sentences
    from calque.engine.tag_files import ColumnLayout

    format = found_format(path, is_columns=bool(tagger.columns))
    if format is None:
        return []
    layout = ColumnLayout.of(tagger, format=format)
    minimum = layout.least(tagger.task.words, *tagger.task.inputs)
    sentences = file_sentences(path, format=format, columns=minimum)
    return [Question(layout.sentence(rows, tagger=tagger)) for rows in islice(sentences, limit)]
