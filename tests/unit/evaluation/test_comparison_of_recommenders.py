"""The comparison of recommenders: scores, significance, buckets and users, against plain computation."""

import math
import random

import pytest

from calque.commands.compare_tasks import table_lines
from calque.errors import ConfigError
from calque.evaluation.comparison.recommendations import RankedSystem, RankedTest, compare_recommendations
from calque.evaluation.ranking import ranking_scores

USERS = 80


def test_systems_are_compared_by_ranks() -> None:
    generator = random.Random(0)
    worse = [generator.randint(0, 60) for _ in range(USERS)]
    better = [max(1, rank // 4) for rank in worse]
    lengths = [generator.randint(0, 30) for _ in range(USERS)]
    frequencies = [generator.choice((0, 3, 200)) for _ in range(USERS)]
    test = RankedTest([f"u{user}" for user in range(USERS)], ["item"] * USERS, lengths, frequencies)
    systems = [RankedSystem("worse", worse), RankedSystem("better", better), RankedSystem("same", worse)]
    document = compare_recommendations(test, systems, samples=500)
    assert [system["scores"] for system in document["systems"]] == [
        pytest.approx(ranking_scores(system.ranks)) for system in systems
    ]
    first, second, third = document["systems"]
    assert first["p_values"] is None and second["p_values"]["ndcg@10"] < 0.01 and third["p_values"]["mrr"] == 1
    assert (second["better"], second["worse"]) == (sum(a != b for a, b in zip(worse, better, strict=True)), 0)
    by_length, by_frequency = document["sections"]
    assert sum(by_length["counts"]) == sum(by_frequency["counts"]) == USERS
    assert by_frequency["buckets"] == ["0", "1 to 5", "101 or more"]
    often = [rank for rank, frequency in zip(better, frequencies, strict=True) if frequency == 200]
    gains = [1 / math.log2(rank + 1) if 1 <= rank <= 10 else 0 for rank in often]
    assert by_frequency["scores"][1][2] == pytest.approx(sum(gains) / len(gains))
    shown = document["users"]["items"][0]
    place = int(shown["user"][1:])
    assert shown["ranks"] == [worse[place], better[place], worse[place]] and shown["history"] == lengths[place]


@pytest.mark.parametrize("samples", [0, 5])
def test_tables_name_a_test_only_if_it_was_made(samples: int) -> None:
    test = RankedTest(["u", "v"], ["i", "j"], [1, 2], None, {"path": "users.txt", "seen_excluded": True})
    systems = [RankedSystem("a", [1, 2]), RankedSystem("b", [2, 1])]
    lines = list(table_lines(compare_recommendations(test, systems, samples=samples)))
    assert ("p-values against a by approximate randomisation, 5 trials" in lines[0]) == bool(samples)
    assert ("p of MRR" in lines[1]) == bool(samples) and "better and worse count users" in lines[0]
    assert lines[1].split()[-2:] == ["better", "worse"] and lines[3].split()[-2:] == ["1", "1"]


def test_one_system_is_too_few() -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare_recommendations(RankedTest(["u"], ["i"], [1], None), [RankedSystem("a", [1])])
