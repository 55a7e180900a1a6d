"""Comparisons of taggers and of language models: against counts by hand."""

import json

import pytest

from calque.errors import ConfigError, DataError
from calque.evaluation.comparison.language_models import (
    ScoredSystem,
    TextTest,
    TrainingText,
    compare_language_models,
)
from calque.evaluation.comparison.taggings import TaggedSystem, TaggedTest, compare_taggings

GOLD = [["B-NP", "I-NP", "O"], ["O", "B-NP"], ["O"]]
GOOD = [["B-NP", "I-NP", "O"], ["O", "O"], ["O"]]
BAD = [["B-NP", "O", "O"], ["O", "B-NP"], ["B-VP"]]
WORDS = [["the", "dog", "."], ["see", "cats"], ["!"]]


def test_taggers_are_compared_by_label_span_and_sentence() -> None:
    test = TaggedTest(WORDS, GOLD, has_spans=True, facts={"path": "t"})
    systems = [TaggedSystem("good", GOOD), TaggedSystem("bad", BAD)]
    document = json.loads(json.dumps(compare_taggings(test, systems, samples=200), allow_nan=False))
    good, bad = document["systems"]
    assert (good["scores"]["accuracy"], bad["scores"]["accuracy"]) == pytest.approx((500 / 6, 400 / 6))
    assert (good["scores"]["f1"], bad["scores"]["f1"]) == pytest.approx((200 / 3, 40))
    assert good["p_values"] is None and 0 < bad["p_values"]["accuracy"] <= 1
    assert (good["different"], bad["different"]) == (None, 3)
    labels = {entry["label"]: entry for entry in document["labels"]}
    assert labels["O"]["support"] == 3 and labels["B-VP"]["support"] == 0
    assert labels["I-NP"]["systems"][1] == {"precision": 0, "recall": 0, "f1": 0}
    assert labels["B-NP"]["systems"][0] == pytest.approx({"precision": 1, "recall": 0.5, "f1": 2 / 3})
    assert {entry["label"] for entry in document["spans"]} == {"NP", "VP"}
    assert [item["line"] for item in document["sentences"]["items"]] == [1, 2, 3]
    names, counts = bad["confusion"]["labels"], bad["confusion"]["counts"]
    assert counts[names.index("I-NP")][names.index("O")] == 1


def test_a_tagger_alone_or_of_other_words_is_refused() -> None:
    test = TaggedTest(WORDS, GOLD, has_spans=True)
    with pytest.raises(ConfigError, match="at least two"):
        compare_taggings(test, [TaggedSystem("good", GOOD)])
    with pytest.raises(DataError, match="predicted sentences"):
        compare_taggings(test, [TaggedSystem("good", GOOD), TaggedSystem("bad", BAD[:2])])


def test_language_models_are_compared_by_position_and_frequency() -> None:
    lines = ["a b", "a"]
    first = ScoredSystem("first", [[1.0, 2.0, 0.5], [1.5, 0.5]], pieces=7)
    second = ScoredSystem("second", [[1.0, 4.0, 0.5], [1.5, 0.5]], pieces=5)
    training = TrainingText({"a": 100}, 50, "t")
    document = compare_language_models(TextTest(lines), [first, second], training=training, samples=100)
    document = json.loads(json.dumps(document, allow_nan=False))
    position, frequency = document["sections"]
    assert (position["buckets"], position["counts"]) == (["1", "2", "3"], [2, 2, 1])
    assert position["nats"] == [[1.25, 1.25, 0.5], [1.25, 2.25, 0.5]]
    assert (frequency["buckets"], frequency["counts"]) == (["0", "100–999", "line end"], [1, 2, 2])
    assert frequency["nats"][1] == [4.0, 1.25, 0.5]
    assert document["systems"][0]["scores"]["per_word"] == pytest.approx(2.718281828 ** (5.5 / 5))
    assert document["systems"][1]["p_value"] > 0.05
    assert document["sentences"]["items"][0]["words"] == ["a", "b", "</s>"]


def test_losses_of_other_words_are_refused() -> None:
    systems = [ScoredSystem("first", [[1.0, 2.0]], 2), ScoredSystem("second", [[1.0]], 1)]
    with pytest.raises(DataError, match="second: wrong number of losses"):
        compare_language_models(TextTest(["a"]), systems)
    with pytest.raises(DataError, match="every line of the text is blank"):
        compare_language_models(TextTest([]), systems)
    with pytest.raises(ConfigError, match="at least two"):
        compare_language_models(TextTest(["a"]), systems[:1])
