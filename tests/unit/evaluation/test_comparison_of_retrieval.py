"""The comparison of sentence vectors: scores against the ranks, p-values against an exact count."""

import json
from itertools import product

import numpy as np
import pytest

from calque.commands.compare_tasks import table_lines
from calque.errors import ConfigError
from calque.evaluation.comparison.retrievals import RetrievalSystem, RetrievalTest, compare_retrievals
from calque.evaluation.retrieval import Ranks

SOURCES = ["a b", "a b c d e f", "c", "d e f g h i j k l m n o", "e", "f g"]
TEST = RetrievalTest(SOURCES, [text.upper() for text in SOURCES], {"path": "test.en", "target": "test.de"})


def system(name: str, to_target: list[int], to_source: list[int]) -> RetrievalSystem:
    return RetrievalSystem(name, Ranks(np.array(to_target), np.array(to_source)))


FIRST = system("base", [1, 2, 1, 1, 5, 1], [1, 1, 1, 1, 3, 2])
SECOND = system("new", [1, 1, 1, 4, 1, 1], [1, 1, 1, 1, 1, 1])


def test_scores_differences_and_lengths() -> None:
    document = compare_retrievals(TEST, [FIRST, SECOND], samples=200)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    base, new = document["systems"]
    assert base["scores"]["top1_to_target"] == pytest.approx(100 * 4 / 6) and base["p_values"] is None
    assert new["scores"]["mrr_to_target"] == pytest.approx(100 * (5 + 1 / 4) / 6)
    assert new["different"] == 5 and base["different"] is None
    assert [(row["label"], row["count"]) for row in document["lengths"]] == [("<5", 4), ("5–9", 1), ("10–14", 1)]
    assert document["lengths"][0]["systems"] == pytest.approx([100 * 5 / 8, 100])
    items = document["sentences"]["items"]
    assert [item["line"] for item in items] == [5, 4, 2, 6] and items[0]["systems"][0] == {
        "to_target": 5,
        "to_source": 3,
    }
    lines = "\n".join(table_lines(document))
    assert "6 pairs" in lines and "top-1 to target, %" in lines and "5, 3" in lines


def test_the_p_value_is_the_share_of_exchanges_with_as_large_a_difference() -> None:
    document = compare_retrievals(TEST, [FIRST, SECOND], samples=40_000)
    for name in ("top1_to_target", "mrr_to_source"):
        measure, _, direction = name.partition("_")
        first, second = (getattr(one.ranks, direction) for one in (FIRST, SECOND))
        values = [(rank == 1) * 1.0 if measure == "top1" else 1 / rank for rank in (first, second)]
        change = values[1] - values[0]
        sums = [
            abs(sum(sign * part for sign, part in zip(signs, change, strict=True)))
            for signs in product((1, -1), repeat=6)
        ]
        exact = sum(total >= abs(change.sum()) - 1e-9 for total in sums) / len(sums)
        assert document["systems"][1]["p_values"][name] == pytest.approx(exact, abs=0.01)


def test_equal_systems_and_too_few() -> None:
    document = compare_retrievals(TEST, [FIRST, FIRST._replace(name="again")], samples=0)
    assert document["systems"][1]["different"] == 0 and document["systems"][1]["p_values"] is None
    assert document["sentences"]["items"] == [] and "".join(table_lines(document))
    with pytest.raises(ConfigError, match="at least two"):
        compare_retrievals(TEST, [FIRST])
