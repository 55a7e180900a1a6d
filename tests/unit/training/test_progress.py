"""What a validation means for a run: whether it is the best, when to stop or slow down, and whose mean to take."""

import math

import pytest

from calque.tasks.interfaces import Metric
from calque.training.progress import Progress
from calque.training.settings import TrainingConfig

STILL = TrainingConfig.model_validate({"schedule": {"warmup": 0}})


def judged(validations: list[tuple[float, float]], config: TrainingConfig = STILL) -> tuple[Progress, list[bool]]:
    """(value, loss) of steps 1, 2 and so on; what they led to, and which were the best so far."""
    progress, best = Progress(), []
    for step, (value, loss) in enumerate(validations, start=1):
        progress.step = step
        best.append(progress.judge(value, loss=loss, config=config))
    return progress, best


def test_more_is_better_and_between_equals_the_lower_loss() -> None:
    progress, best = judged([(0.0, 5.0), (0.0, 4.0), (0.0, 4.0), (0.0, 4.5), (2.0, 9.0), (1.0, 1.0), (2.0, 8.0)])
    assert best == [True, True, False, False, True, False, True]
    assert (progress.best_value, progress.best_step, progress.loss_at_best) == (2.0, 7, 8.0)


@pytest.mark.parametrize("kind", ["patience", "plateau"])
def test_waiting_ends_when_neither_the_value_nor_the_lowest_loss_so_far_gets_better(kind: str) -> None:
    """A loss that only falls from where it had risen to is no reason to wait."""
    schedule = {"warmup": 0, **({"kind": "plateau", "patience": 2} if kind == "plateau" else {})}
    config = TrainingConfig.model_validate({"patience": 3 if kind == "patience" else 0, "schedule": schedule})
    lines = [(5.0, 3.0), (4.0, 2.0), (4.0, 6.0), (4.0, 1.0), (4.0, 6.0), (4.0, 5.0), (4.0, 4.0)]
    progresses = [judged(lines[:count], config)[0] for count in range(1, 8)]
    if kind == "patience":
        assert [each.since_best for each in progresses] == [0, 0, 1, 0, 1, 2, 3]
        assert [each.stopped_early for each in progresses] == [False] * 6 + [True]
    else:
        assert [each.since_drop for each in progresses] == [0, 0, 1, 0, 1, 0, 1]
        assert [each.drops for each in progresses] == [0, 0, 0, 0, 0, 1, 1]


def test_nothing_is_counted_before_the_warm_up_is_over() -> None:
    config = TrainingConfig.model_validate({"patience": 2, "schedule": {"warmup": 3}})
    progresses = [judged([(9.0, 1.0), *[(1.0, 2.0)] * count], config)[0] for count in range(5)]
    assert [each.since_best for each in progresses] == [0, 0, 0, 1, 2]
    assert [each.stopped_early for each in progresses] == [False] * 4 + [True]


MEAN_OF_TWO = TrainingConfig.model_validate({"average": 2, "average_of": "best", "schedule": {"warmup": 0}})


def test_the_best_steps_are_those_of_the_best_values_and_of_equals_those_of_the_lowest_losses() -> None:
    lines = [(1.0, 1.0), (3.0, 7.0), (2.0, 1.0), (3.0, 6.0), (3.0, 8.0), (3.0, 5.0)]
    progress = judged(lines, MEAN_OF_TWO)[0]
    assert (progress.best_steps, progress.best_steps_losses) == ([(3.0, 6), (3.0, 4)], [5.0, 6.0])
    assert progress.best_step == 6
    assert judged(lines)[0].best_steps == []


def test_of_equals_with_the_same_loss_the_first_are_the_best_steps() -> None:
    progress = judged([(1.0, 1.0), (3.0, 1.0), (2.0, 1.0), (3.0, 1.0), (3.0, 1.0)], MEAN_OF_TWO)[0]
    assert progress.best_steps == [(3.0, 2), (3.0, 4)]


def test_progress_from_before_losses_were_kept_goes_on() -> None:
    """What it has of the best steps stays, until there are better ones or equals of a known loss."""
    progress = Progress(step=3, best_value=4.0, best_step=1, loss_at_best=1.0, best_steps=[(4.0, 1), (3.0, 2)])
    progress.judge(3.0, loss=9.0, config=MEAN_OF_TWO)
    assert (progress.best_steps, progress.best_steps_losses) == ([(4.0, 1), (3.0, 3)], [math.inf, 9.0])


METRICS = {"loss": Metric("lower"), "ter": Metric("lower"), "chrf": Metric("higher")}
VALIDATIONS = {1: {"bleu": 40.0, "loss": 3.206, "chrf": math.nan}, 2: {"bleu": 30.0, "loss": 2.5, "ter": 60.0}}


def turned(metric: str) -> tuple[Progress, str]:
    """From BLEU to another metric, and what is said of it."""
    progress, _ = judged([(40.0, 3.206), (30.0, 2.5), (20.0, 2.6)], MEAN_OF_TWO)
    progress.metric, progress.stopped_early = "bleu", True
    assert (progress.best_step, progress.since_best, progress.since_drop) == (1, 1, 1)
    return progress, progress.switch_metric(metric, kind=METRICS[metric], validations=VALIDATIONS)


def test_another_metric_decides_by_its_own_values_of_what_is_kept() -> None:
    progress, said = turned("loss")
    assert said == "training.metric is now loss: the best model (step 1) has 3.206"
    assert (progress.metric, progress.best_value, progress.best_step) == ("loss", -3.206, 1)
    assert progress.best_steps == [(-3.206, 1), (-2.5, 2)]
    assert (progress.since_best, progress.since_drop, progress.stopped_early) == (0, 0, False)
    progress.step = 4
    assert not progress.judge(-3.3, loss=3.3, config=MEAN_OF_TWO)
    progress.step = 5
    assert progress.judge(-3.0, loss=3.0, config=MEAN_OF_TWO)
    assert progress.best_steps == [(-2.5, 2), (-3.0, 5)]


@pytest.mark.parametrize("metric", ["ter", "chrf"])
def test_what_was_not_measured_by_another_metric_is_no_rival(metric: str) -> None:
    """Nobody asked for it, or it was no number; the model is kept until there is another."""
    progress, said = turned(metric)
    assert "the best model (step 1) was not measured by it" in said
    assert (progress.best_value, progress.best_step) == (-math.inf, 1)
    assert progress.best_steps == [(-math.inf, 1), (-60.0 if metric == "ter" else -math.inf, 2)]
    progress.step = 4
    assert progress.judge(-90.0, loss=9.0, config=MEAN_OF_TWO)
    assert progress.best_step == 4


def test_before_the_first_validation_another_metric_changes_nothing() -> None:
    progress = Progress(metric="bleu")
    assert progress.switch_metric("ter", kind=METRICS["ter"], validations={}) == "training.metric is now ter"
    assert progress.best_value is None
