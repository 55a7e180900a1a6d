"""Column files through a tagger: which of their columns are read, and where labels are written."""

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from calque.data.column_files import ColumnFormat, ColumnSentence, read_sentences, with_column
from calque.data.corpora import CONLLU_NAMES
from calque.engine.tagger import TOGETHER, Sentence, TaggedSentence, Tagger
from calque.errors import DataError

MISC = len(CONLLU_NAMES)
PROBABILITY = "Probability"


class ColumnLayout(NamedTuple):
    """The format of a file, and the names of its columns."""

    format: ColumnFormat
    names: tuple[str, ...]

    @classmethod
    def of(cls, tagger: Tagger, *, format: ColumnFormat, names: tuple[str, ...] = ()) -> "ColumnLayout":
        """The layout of files of a format: with `names`, or as those that the tagger was trained on."""
        if format == "conllu":
            return cls(format, CONLLU_NAMES)
        if not names and not tagger.columns:
            names = (tagger.task.words, *tagger.task.inputs, tagger.task.labels)
        return cls(format, names or tagger.columns)

    def number(self, name: str) -> int:
        """The column of that name, from 1."""
        if name not in self.names:
            raise DataError(
                f"the model reads or gives the column {name!r}, but the columns are {', '.join(self.names)}; name them "
                "in their order, e.g. --columns form,pos,label"
            )
        return self.names.index(name) + 1

    def least(self, *names: str) -> int:
        """How many columns a file needs to have these."""
        return max(map(self.number, names))

    def sentence(self, rows: ColumnSentence, *, tagger: Tagger) -> Sentence:
        """What the tagger reads of a sentence."""
        inputs = {name: rows.column(self.number(name)) for name in tagger.task.inputs}
        return Sentence(rows.column(self.number(tagger.task.words)), inputs)


def file_format(path: Path) -> ColumnFormat | None:
    """The format that a file's name tells: .conllu, or another name with conll, col or tsv in its suffix; else None."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    last = suffixes[-1] if suffixes else ""
    if last in (".conllu", ".conllup"):
        return "conllu"
    return "columns" if last.startswith((".conll", ".col", ".iob", ".bio", ".tsv")) else None


def tag_columns(
    sentences: Iterable[ColumnSentence], *, tagger: Tagger, layout: ColumnLayout, append: bool, marginals: bool
) -> Iterator[bytes]:
    """The bytes of every sentence with the predicted labels in their column, or in one that is appended.

    With `marginals`, the probability of each predicted label stands in a further column; in CoNLL-U, in MISC.
    """
    waiting = iter(sentences)
    while group := list(islice(waiting, TOGETHER)):
        read = (layout.sentence(rows, tagger=tagger) for rows in group)
        for rows, tagged in zip(group, tagger.stream(read, marginals=marginals), strict=True):
            column = _behind(rows) if append else layout.number(tagger.task.labels)
            written = with_column(rows, column=column, values=tagged.labels)
            yield _with_probabilities(written, rows=rows, tagged=tagged) if marginals else written


def _behind(rows: ColumnSentence) -> int:
    return len(rows.cells[0]) + 1 if rows.cells else 1


def _with_probabilities(written: bytes, *, rows: ColumnSentence, tagged: TaggedSentence) -> bytes:
    if not tagged.words:
        return written
    assert tagged.marginals is not None
    chosen = [shares[label] for shares, label in zip(tagged.marginals, tagged.labels, strict=True)]
    (again,) = read_sentences(io.BytesIO(written), name=rows.name, format=rows.format, first=rows.first)
    if rows.format == "columns":
        return with_column(again, column=_behind(again), values=[f"{share:.4f}" for share in chosen])
    values = []
    for before, share in zip(again.column(MISC), chosen, strict=True):
        kept = [] if before == "_" else [part for part in before.split("|") if not part.startswith(f"{PROBABILITY}=")]
        values.append("|".join([*kept, f"{PROBABILITY}={share:.4f}"]))
    return with_column(again, column=MISC, values=values)
