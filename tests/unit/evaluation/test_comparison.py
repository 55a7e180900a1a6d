"""The comparison of translations: every part against a count by hand or a second implementation."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import sacrebleu
from tests.unit.evaluation.corpora import make_corpus

from calque.errors import ConfigError, DataError
from calque.evaluation.comparison.buckets import Buckets, Cuts
from calque.evaluation.comparison.errors import copies, count_errors, repetitions
from calque.evaluation.comparison.ngram_differences import compare_ngrams, count_ngrams, salient
from calque.evaluation.comparison.sentences import match_lengths, most_different, wins, word_difference
from calque.evaluation.comparison.training_overlap import count_training, overlap_buckets, seen_share
from calque.evaluation.comparison.translations import (
    EvaluationSet,
    EvaluationWords,
    Settings,
    System,
    Training,
    WordLabels,
    compare_translations,
)
from calque.evaluation.comparison.word_accuracy import LabelledWord, by_case, by_frequency, by_label, score_words
from calque.evaluation.comparison.words import WordSplitter, ngrams
from calque.evaluation.segment_statistics import SegmentMetric

QUICK = Settings(samples={"bootstrap": 50, "randomisation": 50})


def split(*lines: str) -> list[list[str]]:
    return [line.split() for line in lines]


# Words


def test_words_are_those_of_bleu_and_keep_their_spaces() -> None:
    texts = ["Well, it isn't  3.5 %.", "  begins with spaces", "", "a&amp;b &quot;c&quot;", "tab\there "]
    splitter = WordSplitter(texts)
    assert splitter("Well, it isn't  3.5 %.") == ["Well", ",", "it", "isn't", "3.5", "%", "."]
    for text in texts:
        words = splitter(text)
        assert [word.strip() for word in splitter.spaced(text)] == words
        if "&" not in text:
            assert "".join(splitter.spaced(text)) == text.rstrip()
    assert WordSplitter(["今天天气很好。"]).spaced("今天 很好。") == ["今", "天", " 很", "好", "。"]


def test_ngrams_are_all_parts_of_up_to_four_words() -> None:
    assert list(ngrams(["a", "b", "c"])) == [("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("a", "b", "c")]


# Buckets


def test_values_fall_into_the_bucket_that_its_label_says() -> None:
    cuts = Cuts((1, 2, 5, 10))
    assert cuts.labels() == ["<1", "1", "2–4", "5–9", "≥10"]
    assert [cuts.labels()[cuts.place(value)] for value in (0, 1, 2, 4, 5, 9, 10, 99)] == [
        "<1", "1", "2–4", "2–4", "5–9", "5–9", "≥10", "≥10",
    ]  # fmt: skip
    assert Cuts((0.5, 1.0), is_whole=False).labels() == ["<0.5", "0.5 to <1", "≥1"]


def test_the_score_of_a_bucket_is_that_of_its_sentences() -> None:
    corpus = make_corpus(sentences=50, seed=1)
    metric = SegmentMetric("bleu", corpus.references)
    lengths = [len(line.split()) for line in corpus.references]
    buckets = Buckets.of(lengths, cuts=Cuts((10, 20, 99)))
    scores = buckets.scores(metric.statistics(corpus.first), metric=metric)
    assert buckets.counts() == [
        sum(n < 10 for n in lengths),
        sum(10 <= n < 20 for n in lengths),
        sum(n >= 20 for n in lengths),
        0,
    ]
    for low, high, score in ((0, 10, scores[0]), (10, 20, scores[1]), (20, 99, scores[2])):
        part = [place for place, length in enumerate(lengths) if low <= length < high]
        hypotheses, references = ([lines[place] for place in part] for lines in (corpus.first, corpus.references))
        assert score == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score, rel=1e-12)
    assert scores[3] is None


# Words by frequency, case and label


def test_word_scores_count_a_word_as_often_as_the_reference_has_it() -> None:
    hypotheses, references = split("a a b x", "c"), split("a b b c", "c d")
    (score,) = score_words(hypotheses, references, bucket=lambda _: 0, buckets=1)
    assert (score.correct, score.hypothesis, score.reference) == (3, 5, 6)  # a b | c
    assert (score.precision, score.recall, score.f1) == pytest.approx((3 / 5, 3 / 6, 6 / 11))


def test_words_are_scored_by_frequency_case_and_label() -> None:
    references, system = split("The dog barks at NASA"), split("The cat barks at Nasa")
    section = by_frequency([system], references, frequencies={"The": 1, "barks": 7, "at": 7, "cat": 2}, origin="x")
    assert section["buckets"] == ["0", "1", "2", "5–9"]
    assert [(row["correct"], row["hypothesis"], row["reference"]) for row in section["systems"][0]] == [
        (0, 1, 2), (1, 1, 1), (0, 1, 0), (2, 2, 2),
    ]  # fmt: skip
    cases = by_case([system], references)
    assert cases["buckets"] == ["lower case", "upper case", "title case"]
    labelled = [[LabelledWord(word, label) for word, label in zip(system[0], "DNVPN", strict=True)]]
    gold = [[LabelledWord(word, label) for word, label in zip(references[0], "DNXPN", strict=True)]]
    labels = by_label([labelled], gold)
    found = dict(zip(labels["buckets"], labels["systems"][0], strict=True))
    assert (found["X"]["correct"], found["X"]["hypothesis"]) == (1, 1)  # under the reference's label
    assert (found["N"]["correct"], found["N"]["hypothesis"], found["N"]["reference"]) == (0, 2, 2)
    assert "V" not in found


# Errors


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a b c", "a b c", 0),
        ("a a b", "a b", 1),
        ("a a a a", "a", 3),
        ("very very good", "very very good", 0),
        ("a b a b c", "a b c", 1),
        ("a b a b a b", "a b", 2),
        (". . .", "a", 0),
        ("a b c d e a b c d e", "a", 0),  # longer than a repeated n-gram
    ],
)
def test_repetitions(hypothesis: str, reference: str, expected: int) -> None:
    assert repetitions(hypothesis.split(), reference.split()) == expected


def test_copies_are_source_words_that_the_reference_does_not_have() -> None:
    source = ["Der", "Bahnhof", "in", "Berlin", "ist", "3", "km", "weit", "."]
    hypothesis = split("The Bahnhof in Berlin is 3 km .")[0]
    reference = split("The station in Berlin is 3 kilometres .")[0]
    assert copies(hypothesis, reference, source=source) == ["Bahnhof", "km"]
    counts = count_errors(split("der der", "x"), split("the", "x"), sources=split("der", "x"))
    assert counts == (1, 1, 2, 1)


# n-grams


def test_ngram_differences_equal_counts_by_hand() -> None:
    references = split("a b c", "a b")
    first, second = count_ngrams(split("a b c", "a b"), references), count_ngrams(split("a x c", "a b"), references)
    assert first.correct == Counter(gram for line in references for gram in ngrams(line))
    assert second.correct == {("a",): 2, ("b",): 1, ("c",): 1, ("a", "b"): 1}
    assert second.excess == {("x",): 1, ("a", "x"): 1, ("x", "c"): 1, ("a", "x", "c"): 1}
    assert second.missing == {("b",): 1, ("a", "b"): 1, ("b", "c"): 1, ("a", "b", "c"): 1}
    rows = compare_ngrams(first, second)
    assert [row["words"] for row in rows["correct"]["first"]] == [["a", "b", "c"], ["a", "b"]]  # parts are left out
    assert rows["correct"]["first"][1]["counts"] == [2, 1]
    assert rows["correct"]["second"] == []


def test_salient_ngrams_are_ordered_by_their_smoothed_share() -> None:
    first, second = {("a",): 9, ("b",): 2, ("c",): 1, ("d",): 5}, {("a",): 3, ("b",): 0, ("d",): 5}
    rows = salient(first, second)
    assert [(row["words"], row["share"]) for row in rows] == [
        (["b"], 0.75),
        (["a"], round(10 / 14, 4)),
        (["c"], 0.6667),
    ]


# Training data


def test_overlap_with_training_is_counted() -> None:
    sources = split("a b c", "a b x", "q", "a b c d")
    pairs = [("a b c", "A B"), ("b x", "B"), ("c d", "C")]
    splitter = WordSplitter(["a"])
    counts = count_training(
        iter(pairs), sources=sources, words={"A", "B", "Z"}, source_splitter=splitter, target_splitter=splitter
    )
    assert counts.pairs == 3
    assert counts.frequencies == {"A": 1, "B": 2}
    assert counts.source_frequencies["b"] == 2
    assert seen_share(sources[0], counts) == 1
    assert seen_share(sources[1], counts) == 5 / 6  # all but a b x
    assert seen_share(sources[2], counts) == 0
    labels = overlap_buckets(sources, counts)
    assert [labels.labels[place] for place in labels.places] == [
        "whole source", "75 to <90 %", "<50 %", "75 to <90 %",
    ]  # fmt: skip


# Sentences


def test_matches_are_the_longest_ngrams_of_the_reference() -> None:
    reference = ["the", "cat", "sat", "on", "the", "mat"]
    assert match_lengths(["the", "cat", "sat", "on", "a", "mat", "the"], reference) == [4, 4, 4, 4, 0, 1, 1]
    assert match_lengths([], reference) == []


def test_differences_lead_from_the_reference_to_the_hypothesis(seed: int) -> None:
    corpus = make_corpus(sentences=20, seed=seed)
    for hypothesis, reference in zip(split(*corpus.first), split(*corpus.references), strict=True):
        steps = word_difference(hypothesis, reference)
        for side, words in ((1, reference), (2, hypothesis)):
            assert [word for step in steps for word in words[slice(*step[side])]] == words
        assert all(reference[slice(*r)] == hypothesis[slice(*h)] for name, r, h in steps if name == "=")
        assert all((r[0] == r[1]) == (name == "+") and (h[0] == h[1]) == (name == "-") for name, r, h in steps)


def test_the_most_different_sentences_of_either_direction_are_chosen() -> None:
    differences = np.array([[0.0, 5, -7, 1, -1, 3, 0]])
    assert most_different(differences, shown=1).tolist() == [1, 2]
    assert most_different(differences, shown=2).tolist() == [1, 2, 4, 5]
    assert most_different(differences, shown=4).tolist() == list(range(7))
    first, second = np.array([1.0, 2, 3]), np.array([2.0, 2, 1])
    assert wins(first, second, is_higher_better=True) == {"better": 1, "worse": 1, "equal": 1}
    assert wins(first, second, is_higher_better=False) == {"better": 1, "worse": 1, "equal": 1}


# The document


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    corpus = make_corpus(sentences=40, rates=(0.1, 0.3), seed=9)
    other = make_corpus(sentences=40, rates=(0.12, 0.32), seed=9)
    sources = [line.upper() for line in corpus.references]
    test = EvaluationSet(corpus.references, sources, {"source": "s", "reference": "r"})
    systems = [System("a1", corpus.first, "a"), System("a2", other.first, "a"), System("b", corpus.second)]
    words = EvaluationWords.of(test, systems)
    pairs = zip(sources[:20], corpus.references[:20], strict=True)
    splitter = WordSplitter(corpus.references)
    counts = count_training(
        pairs, sources=words.sources, words=words.targets, source_splitter=splitter, target_splitter=splitter
    )
    labels = WordLabels(
        [[LabelledWord(word, word[0]) for word in line] for line in words.references],
        [[[LabelledWord(word, word[0]) for word in line] for line in system] for system in words.systems],
    )
    phases: list[str] = []
    document = compare_translations(
        test,
        systems,
        settings=QUICK,
        training=Training(counts, "train"),
        labels=labels,
        progress=lambda phase, *_: phases.append(phase),
    )
    assert set(phases) == {"scoring", "testing significance"}
    parsed: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return parsed


def test_the_document_has_all_parts(document: dict[str, Any]) -> None:
    assert (document["kind"], document["version"], document["task"]) == ("comparison", 1, "translation")
    assert [section["id"] for section in document["sections"]] == [
        "source-length", "reference-length", "training-overlap", "length-difference", "sentence-bleu",
    ]  # fmt: skip
    assert [section["id"] for section in document["words"]] == ["word-frequency", "word-case", "word-label"]
    assert document["training"] == {"origin": "train", "pairs": 20}
    assert [group["name"] for group in document["groups"]] == ["a", "b"]
    assert [group["systems"] for group in document["groups"]] == [[0, 1], [2]]
    assert [pair["systems"] for pair in document["ngrams"]] == [[0, 2]]
    assert [test["method"] for test in document["significance"]] == ["bootstrap", "randomisation"]


def test_the_parts_agree_with_each_other(document: dict[str, Any]) -> None:
    for section in document["sections"]:
        assert all(sum(row) == 40 for row in section["counts"])
        assert all(len(row) == len(section["buckets"]) for rows in section["scores"].values() for row in rows)
    references = {sum(row["reference"] for row in rows) for section in document["words"] for rows in section["systems"]}
    assert references == {document["test"]["words"]}
    for place, system in enumerate(document["systems"]):
        for test in document["significance"]:
            for name, score in system["scores"].items():
                assert test["systems"][name][place]["score"] == pytest.approx(score, rel=1e-9)
    for system in document["systems"][1:]:
        assert all(sum(counts.values()) == 40 for counts in system["wins"].values())
    item = document["sentences"]["items"][0]
    assert item["line"] == 1 and len(item["systems"]) == 3
    assert all(len(system["words"]) == len(system["matches"]) for system in item["systems"])


def test_precisions_and_lengths_are_those_of_bleu(document: dict[str, Any]) -> None:
    corpus = make_corpus(sentences=40, rates=(0.1, 0.3), seed=9)
    for system, hypotheses in ((document["systems"][0], corpus.first), (document["systems"][2], corpus.second)):
        bleu = sacrebleu.corpus_bleu(hypotheses, [corpus.references])
        assert system["precisions"] == pytest.approx(bleu.precisions)
        assert system["brevity_penalty"] == pytest.approx(bleu.bp)
        assert system["length_ratio"] == pytest.approx(bleu.sys_len / bleu.ref_len)


def test_without_sources_and_training_less_is_compared() -> None:
    corpus = make_corpus(sentences=12, seed=3)
    systems = [System("first", corpus.first), System("second", corpus.second)]
    settings = Settings(("chrf",), {"bootstrap": 0, "randomisation": 20}, shown=2)
    document = compare_translations(EvaluationSet(corpus.references), systems, settings=settings)
    assert document["training"] is None and document["groups"] is None
    assert document["sections"][0]["id"] == "reference-length"
    assert document["systems"][0]["errors"]["copies"] is None
    assert list(document["systems"][0]["scores"]) == ["chrf"]
    assert [test["method"] for test in document["significance"]] == ["randomisation"]
    assert len(document["sentences"]["items"]) == 4 and document["sentences"]["items"][0]["source"] is None


def test_mistakes() -> None:
    good = [System("first", ["a"]), System("second", ["b"])]
    with pytest.raises(ConfigError, match="one system to compare: give at least two"):
        compare_translations(EvaluationSet(["a"]), good[:1])
    with pytest.raises(DataError, match="the reference file is empty"):
        compare_translations(EvaluationSet([]), [System("first", []), System("second", [])])
    with pytest.raises(DataError, match=r"(?s)the source has 2 lines, but the reference has 1.*second has 3 lines"):
        compare_translations(EvaluationSet(["a"], ["a", "b"]), [good[0], System("second", ["a", "b", "c"])])
