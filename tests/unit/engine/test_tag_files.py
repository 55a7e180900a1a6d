"""Column files with predicted labels: which columns are read and written, and everything else stays as it was."""

import pytest
from tests.unit.engine.test_tagger import tagger

from calque.data.column_files import ColumnFormat, read_sentences
from calque.engine import Sentence, Tagger
from calque.engine.tag_files import ColumnLayout, tag_columns
from calque.errors import DataError

COLUMNS = b"The D ?\ndog N ?\n\nA D ?\ncat  N  ?\n"
CONLLU = (
    b"# sent_id = 1\n1\tThe\t_\tDET\t_\t_\t0\t_\t_\t_\n1.1\tnull\t_\tX\t_\t_\t_\t_\t_\t_\n"
    b"2\tdog\t_\tNOUN\t_\t_\t1\t_\t_\tSpaceAfter=No|Probability=0.1\n\n# the end\n"
)


def tagged(
    text: bytes,
    own: Tagger,
    *,
    format: ColumnFormat = "columns",
    names: tuple[str, ...] = (),
    append: bool = False,
    marginals: bool = False,
) -> bytes:
    layout = ColumnLayout.of(own, format=format, names=names)
    sentences = read_sentences(text.splitlines(keepends=True), name="file", format=format)
    return b"".join(tag_columns(sentences, tagger=own, layout=layout, append=append, marginals=marginals))


def predicted(own: Tagger, *words: str) -> tuple[list[str], list[str]]:
    """The labels of a sentence and their probabilities, as they are written."""
    answer = own.tag(Sentence(list(words)), marginals=True)
    shares = [f"{shares[label]:.4f}" for shares, label in zip(answer.marginals or (), answer.labels, strict=True)]
    return answer.labels, shares


def test_labels_replace_their_column_and_nothing_else() -> None:
    own = tagger()
    (first, second), (third, fourth) = predicted(own, "The", "dog")[0], predicted(own, "A", "cat")[0]
    expected = f"The D {first}\ndog N {second}\n\nA D {third}\ncat  N  {fourth}\n"
    assert tagged(COLUMNS, own, names=("form", "pos", "chunk")).decode() == expected
    assert tagged(COLUMNS, own, names=("form", "chunk", "other")).decode() == (
        f"The {first} ?\ndog {second} ?\n\nA {third} ?\ncat  {fourth}  ?\n"
    )


def test_an_appended_column_follows_the_last_one_and_probabilities_follow_the_labels() -> None:
    own = tagger()
    (first, second), (share, other) = predicted(own, "The", "dog")
    labelled = tagged(b"The D\ndog N\n", own, names=("form", "pos"), append=True)
    assert labelled.decode() == f"The D {first}\ndog N {second}\n"
    sure = tagged(b"The D\ndog N\n", own, names=("form", "pos"), append=True, marginals=True)
    assert sure.decode() == f"The D {first} {share}\ndog N {second} {other}\n"


def test_conllu_has_probabilities_among_the_features_of_its_last_column() -> None:
    own = tagger()
    own.task = own.task.model_copy(update={"labels": "upos"})
    (first, second), (share, other) = predicted(own, "The", "dog")
    lines = tagged(CONLLU, own, format="conllu", marginals=True).decode().splitlines(keepends=True)
    expected = CONLLU.decode().splitlines(keepends=True)
    expected[1] = expected[1].replace("DET", first).replace("\t_\n", f"\tProbability={share}\n")
    expected[3] = expected[3].replace("NOUN", second).replace("Probability=0.1", f"Probability={other}")
    assert lines == expected  # comments, the empty node and the end stay


def test_without_names_the_columns_are_those_the_tagger_was_trained_on() -> None:
    own = tagger()
    assert ColumnLayout.of(own, format="columns").names == ("form", "chunk")
    own.columns = ()
    assert ColumnLayout.of(own, format="columns").names == ("form", "chunk")  # of its task
    with pytest.raises(
        DataError, match=r"file: line 1: found 3 columns, but the model was trained on form, chunk; name the file's"
    ):
        tagged(COLUMNS, own)
    assert len(tagged(COLUMNS, own, names=("form", "chunk"))) > len(COLUMNS) - 9  # named by the user: the rest stays


def test_a_column_that_the_model_reads_must_be_named() -> None:
    own = tagger(inputs=("pos",))
    with pytest.raises(DataError, match=r"the column 'pos', but the columns are form, chunk; name them in order"):
        tagged(COLUMNS, own, names=("form", "chunk"))
    layout = ColumnLayout.of(own, format="columns", names=("form", "pos", "chunk"))
    assert (layout.least("form", "pos"), layout.least("chunk")) == (2, 3)
