"""Spans and their scores are seqeval's, of well-formed and of ill-formed label sequences."""

import random
import warnings
from collections.abc import Iterator, Sequence

import pytest
from seqeval import metrics as seqeval
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support

from calque.errors import DataError
from calque.evaluation.spans import score_spans
from calque.text.span_labels import Span, has_spans, spans

TYPES = ["X", "Y", "X-Y", "-"]
SCHEMES = {
    "BIO": ["O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in TYPES)],
    "IOBES": ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in TYPES)],
    "one type": ["O", "B-X", "I-X", "E-X", "S-X"],
    "no types": ["O", "B", "I", "E", "S"],
    "mixed": ["O", "B", "I", "E", "S", "B-X", "I-X", "E-X", "S-X", "B-", "I-_"],
    "nothing outside": ["B-X", "I-X", "I-Y"],
}
Sentences = list[list[str]]


def random_sentences(names: Sequence[str], *, generator: random.Random) -> Sentences:
    """Label sequences drawn label by label, which are seldom well formed, sentences without words among them."""
    return [generator.choices(names, k=generator.randint(0, 9)) for _ in range(generator.randint(1, 6))]


def disturbed(sentences: Sentences, names: Sequence[str], *, generator: random.Random) -> Sentences:
    """The same with about a fifth of the labels drawn again."""
    return [
        [generator.choice(names) if generator.random() < 0.2 else label for label in labels] for labels in sentences
    ]


def corpora(scheme: str, *, seed: int, count: int) -> Iterator[tuple[Sentences, Sentences]]:
    generator = random.Random(f"{scheme} {seed}")
    for _ in range(count):
        gold = random_sentences(SCHEMES[scheme], generator=generator)
        yield disturbed(gold, SCHEMES[scheme], generator=generator), gold


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_are_seqevals(scheme: str, seed: int) -> None:
    for _, gold in corpora(scheme, seed=seed, count=500):
        for labels in gold:
            expected = [(kind, start, last + 1) for kind, start, last in get_entities(labels)]
            assert spans(labels) == expected, labels


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_are_seqevals(scheme: str, seed: int) -> None:
    close = {"rel": 1e-12, "abs": 1e-12}
    for predicted, gold in corpora(scheme, seed=seed, count=500):
        scores = score_spans(predicted, gold=gold)
        support = len(get_entities(gold))
        micro = [
            score(gold, predicted, average="micro", zero_division=0)
            for score in (seqeval.precision_score, seqeval.recall_score, seqeval.f1_score)
        ]
        assert list(scores.micro) == pytest.approx([*micro, support], **close)
        assert list(scores.types) == sorted({kind for kind, *_ in get_entities(gold) + get_entities(predicted)})
        if scores.types:
            columns = zip(*precision_recall_fscore_support(gold, predicted, zero_division=0), strict=True)
            for score, expected in zip(scores.types.values(), columns, strict=True):
                assert list(score) == pytest.approx(list(expected), **close)


def test_the_example_of_a_phrase_that_is_cut_in_two() -> None:
    gold = [["B-NP", "I-NP", "I-NP", "O", "B-VP"]]
    predicted = [["B-NP", "I-NP", "B-NP", "O", "B-VP"]]
    scores = score_spans(predicted, gold=gold)
    assert scores.micro == (1 / 3, 1 / 2, 2 / 5, 2)
    assert scores.types == {"NP": (0, 0, 0, 1), "VP": (1, 1, 1, 1)}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-X I-X O B-X B-X", [("X", 0, 2), ("X", 3, 4), ("X", 4, 5)]),
        ("I-X I-X B-X I-Y", [("X", 0, 2), ("X", 2, 3), ("Y", 3, 4)]),  # IOB1
        ("S-X B-X I-X E-X E-X I-X", [("X", 0, 1), ("X", 1, 4), ("X", 4, 5), ("X", 5, 6)]),
        ("B I O S", [("_", 0, 2), ("_", 3, 4)]),
        ("PUNCT B-X PUNCT I-X X-Y", [("X", 1, 2), ("X", 3, 4)]),  # no prefix: outside
        ("SYM I-X BE S-X INTJ", [("X", 1, 2), ("X", 3, 4)]),
    ],
)
def test_spans_by_hand(labels: str, expected: list[Span]) -> None:
    assert spans(labels.split()) == expected


def test_an_empty_label_is_outside() -> None:
    assert spans(["B-X", "", "I-X"]) == [("X", 0, 1), ("X", 2, 3)]


def test_nothing_to_find_scores_zero() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score_spans([["O", "O"]], gold=[["O", "O"]]) == ((0, 0, 0, 0), {})
        assert score_spans([], gold=[]) == ((0, 0, 0, 0), {})
        assert score_spans([["O"]], gold=[["B-X"]]) == ((0, 0, 0, 1), {"X": (0, 0, 0, 1)})
        assert score_spans([["B-X"]], gold=[["O"]]) == ((0, 0, 0, 0), {"X": (0, 0, 0, 0)})


def test_numbers_that_differ_are_rejected() -> None:
    with pytest.raises(DataError, match="2 predicted sentences but 1 gold ones"):
        score_spans([["O"], ["O"]], gold=[["O"]])
    with pytest.raises(DataError, match="sentence 2: 1 predicted labels but 2 gold ones"):
        score_spans([["O"], ["O"]], gold=[["O"], ["O", "O"]])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["O", "B-NP", "I-NP"], True),
        (["I-PER", "O"], True),
        (["B-X", "E-X", "I-X", "S-X"], True),
        (["B", "I", "O"], True),
        (["O"], False),
        ([], False),
        ([""], False),
        (["NOUN", "VERB"], False),
        (["BE", "IN", "O"], False),
        (["O", "B-NP", "I-NP", "PUNCT"], False),
        (["A", "B", "E", "I", "S", "SP"], False),  # parts of speech of an Italian treebank
    ],
)
def test_names_tell_whether_there_are_spans(names: list[str], expected: bool) -> None:
    assert has_spans(names) == expected
