"""`calque evaluate` selects one task by its options and rejects options without effect on it."""

import inspect
from itertools import permutations
from pathlib import Path

import pytest

from calque.commands.evaluate import TASKS, TaskScores, evaluate
from calque.errors import ConfigError

FILE = Path("file")
IDLE = [
    ({"language": FILE}, "--language needs --audio"),
    ({"source": FILE, "pooling": "mean"}, "--pooling needs --source and --target"),
    ({"conll": FILE, "exclude_seen": False}, "; --exclude-seen and --include-seen need --sequences"),
    ({"text": FILE, "columns": "form"}, "cannot be combined with --columns; --columns and --confusion need --conll"),
    ({"text": FILE, "beam": 2}, "--text is for a language model and cannot be combined with --beam"),
    (
        {"sequences": FILE, "settings": ["maximum=2"]},
        "--sequences is for a recommender and cannot be combined with set",
    ),
    ({"images": FILE, "metric": ["rouge"]}, "--images is for a captioner and cannot be combined with --metric"),
    (
        {"target": FILE, "source": FILE, "beam": 2},
        "--target compares sentence vectors and cannot be combined with --be",
    ),
    ({"reference": FILE}, "give --source and --reference for translation"),
    ({}, "give --source and --reference for translation"),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.option)
def test_a_task_takes_its_own_option_and_others_of_the_command(task: TaskScores) -> None:
    parameters = set(inspect.signature(evaluate).parameters)
    assert {task.option, "model", "as_json", "device", "precision"} <= task.options <= parameters


def test_every_option_has_an_effect_on_a_task() -> None:
    assert set.union(*(task.options for task in TASKS)) == set(inspect.signature(evaluate).parameters)


@pytest.mark.parametrize(("options", "message"), IDLE)
def test_options_without_effect_are_rejected_before_the_model_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as found:
        evaluate(Path("nowhere"), **options)  # type: ignore[arg-type]
    assert message in str(found.value)


def test_two_tasks_cannot_be_combined() -> None:
    for first, second in permutations((task.option for task in TASKS), 2):
        if {first, second} == {"source", "target"}:
            continue
        with pytest.raises(ConfigError, match="cannot be combined with"):
            evaluate(Path("nowhere"), **{first: FILE, second: FILE})
