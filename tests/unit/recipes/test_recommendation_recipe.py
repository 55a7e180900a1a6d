"""The recipe of recommenders: its configs describe runs that can begin, its tables say what was not measured."""

import random
from itertools import pairwise
from pathlib import Path

import pytest
from recipes.recall.run import TESTED, MemoryRecall, draw
from recipes.recall.run import page as recall_page
from recipes.recall.run import train as train_recall
from recipes.recommendation import run as recipe
from recipes.recommendation.generate import history

from calque.config import check, read_toml
from calque.experiment import Experiment


@pytest.mark.parametrize("entry", recipe.ENTRIES, ids=lambda entry: entry.name)
def test_its_configs_are_valid(entry: recipe.Entry, tmp_path: Path) -> None:
    values = read_toml(recipe.HERE / f"{entry.name}.toml")
    corpus = {"kind": "sequences", "path": str(tmp_path / "users")}
    experiment = check(Experiment, {**values, "data": {"train": [corpus]}}, origin=entry.name)
    assert experiment.model.kind == "recommender" and experiment.task.kind == "recommendation"


def test_its_tables_say_what_was_not_measured() -> None:
    scores = dict.fromkeys(recipe.METRICS, 0.25)
    page = recipe.page({"sasrec": [scores, scores]})
    assert "| 0.2500 (0.2500 to 0.2500) |" in page and page.count("not measured yet") == len(recipe.ENTRIES) - 1


def test_generated_histories_are_what_they_claim() -> None:
    generator = random.Random(0)
    for user in (history(generator, noise=0) for _ in range(50)):
        events = list(zip(user["items"], user["times"], user["behaviours"], strict=True))
        for (item, time, behaviour), (after, later, _) in pairwise(events):
            leaves = behaviour == "buy" or later - time > 86_400
            expected = (int(item[1]) + 1) % 5 if leaves else int(item[1])
            assert int(after[1]) == expected and later > time
            assert after.endswith("i0") if leaves else int(after[3]) == (int(item[3]) + 1) % 6


def test_a_memory_recalls() -> None:
    import torch

    torch.manual_seed(0)
    accuracies = train_recall(MemoryRecall(32), steps=40, seed=1)
    assert accuracies["32"] > 90 and set(accuracies) == set(map(str, TESTED))
    assert "| memory |" in recall_page({"memory": [accuracies]})
    keys, values, query, target = draw(5, 7, torch.Generator().manual_seed(0))
    assert all(values[row, keys[row].tolist().index(int(query[row]))] == target[row] for row in range(5))
