"""Tags column files: decides which columns are read, and into which column the labels are written."""

import io
from collections.abc import Iterable, Iterator
from itertools import islice
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
    is_assumed: bool = False
    """Whether the names come from the tagger, not from the user. If so, files must not have more columns than names."""

    @classmethod
    def of(cls, tagger: Tagger, *, format: ColumnFormat, names: tuple[str, ...] = ()) -> "ColumnLayout":
        """The layout of files in a format: with `names`, or with the columns that the tagger was trained on."""
        if format == "conllu":
            return cls(format, CONLLU_NAMES)
        if names:
            return cls(format, names)
        task = tagger.task
        return cls(format, tagger.columns or (task.words, *task.inputs, task.labels), is_assumed=True)

    def number(self, name: str) -> int:
        """The number of the column with this name, counted from 1."""
        if name not in self.names:
            raise DataError(
                f"the model reads or predicts the column {name!r}, but the columns are {', '.join(self.names)}; name "
                "them in order, e.g. --columns form,pos,label"
            )
        return self.names.index(name) + 1

    def least(self, *names: str) -> int:
        """The minimum number of columns that a file must have so that its columns `names` can be read."""
        return max(map(self.number, names))

    def sentence(self, rows: ColumnSentence, *, tagger: Tagger) -> Sentence:
        """The tagger's input from a sentence of the file; raises a DataError for more columns than the tagger knows."""
        if self.is_assumed:
            self._refuse_further_columns(rows)
        inputs = {name: rows.column(self.number(name)) for name in tagger.task.inputs}
        return Sentence(rows.column(self.number(tagger.task.words)), inputs)

    def _refuse_further_columns(self, rows: ColumnSentence) -> None:
        for index, cells in zip(rows.words, rows.cells, strict=True):
            if len(cells) > len(self.names):
                raise DataError(
                    f"{rows.name}: line {rows.first + index}: found {len(cells)} columns, but the model was trained on "
                    f"{', '.join(self.names)}; name the file's columns in order, e.g. --columns form,pos,label, or use "
                    "--format text for raw text"
                )


def tag_columns(
    sentences: Iterable[ColumnSentence], *, tagger: Tagger, layout: ColumnLayout, append: bool, marginals: bool
) -> Iterator[bytes]:
    """Yields each sentence as bytes, with the predicted labels in their column or, if `append`, in a new last column.

    With `marginals`, the probability of each predicted label is written to a further column, or to MISC in CoNLL-U.
    """
    remaining = iter(sentences)
    while group := list(islice(remaining, TOGETHER)):
        inputs = (layout.sentence(rows, tagger=tagger) for rows in group)
        for rows, tagged in zip(group, tagger.stream(inputs, marginals=marginals), strict=True):
            column = _next_column(rows) if append else layout.number(tagger.task.labels)
            labelled = with_column(rows, column=column, values=tagged.labels)
            yield _with_probabilities(labelled, rows=rows, tagged=tagged) if marginals else labelled


def _next_column(rows: ColumnSentence) -> int:
    """The number, from 1, of a new column after the last column of a sentence."""
    return len(rows.cells[0]) + 1 if rows.cells else 1


def _with_probabilities(labelled: bytes, *, rows: ColumnSentence, tagged: TaggedSentence) -> bytes:
    if not tagged.words:
        return labelled
    assert tagged.marginals is not None
    probabilities = [marginals[label] for marginals, label in zip(tagged.marginals, tagged.labels, strict=True)]
    (sentence,) = read_sentences(io.BytesIO(labelled), name=rows.name, format=rows.format, first=rows.first)
    if rows.format == "columns":
        values = [f"{probability:.4f}" for probability in probabilities]
        return with_column(sentence, column=_next_column(sentence), values=values)
    values = []
    for misc, probability in zip(sentence.column(MISC), probabilities, strict=True):
        features = [] if misc == "_" else [part for part in misc.split("|") if not part.startswith(f"{PROBABILITY}=")]
        values.append("|".join([*features, f"{PROBABILITY}={probability:.4f}"]))
    return with_column(sentence, column=MISC, values=values)
