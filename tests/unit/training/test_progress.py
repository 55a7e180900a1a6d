"""What follows from validations: the best model, early stopping, plateaus, and the checkpoints to average."""

import math

import pytest

from calque.tasks.interfaces import Metric, Selection
from calque.training.progress import Progress
from calque.training.settings import TrainingConfig

NO_WARMUP = TrainingConfig.model_validate({"schedule": {"warmup": 0}})


def judged(validations: list[tuple[float, float]], config: TrainingConfig = NO_WARMUP) -> tuple[Progress, list[bool]]:
    """The progress after validations (value, loss) of steps 1, 2, …, and which were the best so far."""
    progress, best = Progress(), []
    for step, (value, loss) in enumerate(validations, start=1):
        progress.step = step
        best.append(progress.judge(value, loss=loss, config=config))
    return progress, best


def test_higher_is_better_and_the_lower_loss_breaks_ties() -> None:
    progress, best = judged([(0.0, 5.0), (0.0, 4.0), (0.0, 4.0), (0.0, 4.5), (2.0, 9.0), (1.0, 1.0), (2.0, 8.0)])
    assert best == [True, True, False, False, True, False, True]
    assert (progress.best_value, progress.best_step, progress.loss_at_best) == (2.0, 7, 8.0)


def test_a_tie_breaker_decides_before_the_loss() -> None:
    progress, best = Progress(), []
    for step, (value, tie, loss) in enumerate(((5.0, 60.0, 1.0), (5.0, 61.0, 2.0), (5.0, 61.0, 1.9), (5.0, 60.9, 0.1))):
        progress.step = step
        best.append(progress.judge(value, tie=tie, loss=loss, config=MEAN_OF_TWO))
    assert best == [True, True, True, False]
    assert (progress.best_step, progress.tie_at_best, progress.loss_at_best) == (2, 61.0, 1.9)
    assert (progress.best_steps, progress.best_steps_ties) == ([(5.0, 2), (5.0, 1)], [61.0, 61.0])


@pytest.mark.parametrize("kind", ["patience", "plateau"])
def test_patience_ends_when_neither_the_value_nor_the_lowest_loss_improves(kind: str) -> None:
    """A loss that falls, but not below its minimum, is no improvement."""
    schedule = {"warmup": 0, **({"kind": "plateau", "patience": 2} if kind == "plateau" else {})}
    config = TrainingConfig.model_validate({"patience": 3 if kind == "patience" else 0, "schedule": schedule})
    lines = [(5.0, 3.0), (4.0, 2.0), (4.0, 6.0), (4.0, 1.0), (4.0, 6.0), (4.0, 5.0), (4.0, 4.0)]
    progresses = [judged(lines[:count], config)[0] for count in range(1, 8)]
    if kind == "patience":
        assert [progress.since_best for progress in progresses] == [0, 0, 1, 0, 1, 2, 3]
        assert [progress.stopped_early for progress in progresses] == [False] * 6 + [True]
    else:
        assert [progress.since_drop for progress in progresses] == [0, 0, 1, 0, 1, 0, 1]
        assert [progress.drops for progress in progresses] == [0, 0, 0, 0, 0, 1, 1]


def test_nothing_is_counted_before_the_warm_up_is_over() -> None:
    config = TrainingConfig.model_validate({"patience": 2, "schedule": {"warmup": 3}})
    progresses = [judged([(9.0, 1.0), *[(1.0, 2.0)] * count], config)[0] for count in range(5)]
    assert [progress.since_best for progress in progresses] == [0, 0, 0, 1, 2]
    assert [progress.stopped_early for progress in progresses] == [False] * 4 + [True]


MEAN_OF_TWO = TrainingConfig.model_validate({"average": 2, "average_of": "best", "schedule": {"warmup": 0}})


def test_the_best_steps_have_the_best_values_and_among_equals_the_lowest_losses() -> None:
    lines = [(1.0, 1.0), (3.0, 7.0), (2.0, 1.0), (3.0, 6.0), (3.0, 8.0), (3.0, 5.0)]
    progress = judged(lines, MEAN_OF_TWO)[0]
    assert (progress.best_steps, progress.best_steps_losses) == ([(3.0, 6), (3.0, 4)], [5.0, 6.0])
    assert progress.best_step == 6
    assert judged(lines)[0].best_steps == []


def test_among_equals_with_the_same_loss_the_first_steps_are_the_best() -> None:
    progress = judged([(1.0, 1.0), (3.0, 1.0), (2.0, 1.0), (3.0, 1.0), (3.0, 1.0)], MEAN_OF_TWO)[0]
    assert progress.best_steps == [(3.0, 2), (3.0, 4)]


def test_progress_of_an_older_checkpoint_without_losses_is_continued() -> None:
    """Its best steps stay until there are better ones, or equal ones with a known loss."""
    progress = Progress(step=3, best_value=4.0, best_step=1, loss_at_best=1.0, best_steps=[(4.0, 1), (3.0, 2)])
    progress.judge(3.0, loss=9.0, config=MEAN_OF_TWO)
    assert (progress.best_steps, progress.best_steps_losses) == ([(4.0, 1), (3.0, 3)], [math.inf, 9.0])


METRICS = {"loss": Metric("lower"), "ter": Metric("lower"), "chrf": Metric("higher")}
VALIDATIONS = {1: {"bleu": 40.0, "loss": 3.206, "chrf": math.nan}, 2: {"bleu": 30.0, "loss": 2.5, "ter": 60.0}}


def switched(metric: str) -> tuple[Progress, str]:
    """The progress after switching from BLEU to another metric, and the message."""
    progress, _ = judged([(40.0, 3.206), (30.0, 2.5), (20.0, 2.6)], MEAN_OF_TWO)
    progress.metric, progress.stopped_early = "bleu", True
    assert (progress.best_step, progress.since_best, progress.since_drop) == (1, 1, 1)
    return progress, progress.switch_selection(Selection(metric, "loss", METRICS), validations=VALIDATIONS)


def test_a_new_metric_ranks_the_best_models_by_its_own_values() -> None:
    progress, message = switched("loss")
    assert message == "training.metric is now loss: the best model (step 1) has 3.206"
    assert (progress.metric, progress.best_value, progress.best_step) == ("loss", -3.206, 1)
    assert progress.best_steps == [(-3.206, 1), (-2.5, 2)]
    assert (progress.since_best, progress.since_drop, progress.stopped_early) == (0, 0, False)
    progress.step = 4
    assert not progress.judge(-3.3, loss=3.3, config=MEAN_OF_TWO)
    progress.step = 5
    assert progress.judge(-3.0, loss=3.0, config=MEAN_OF_TWO)
    assert progress.best_steps == [(-2.5, 2), (-3.0, 5)]


@pytest.mark.parametrize("metric", ["ter", "chrf"])
def test_a_model_that_a_new_metric_did_not_measure_is_replaced_by_any_other(metric: str) -> None:
    """The metric was not measured, or was NaN; the model is kept until the next validation."""
    progress, message = switched(metric)
    assert "the best model (step 1) has no value of this metric" in message
    assert (progress.best_value, progress.best_step) == (-math.inf, 1)
    assert progress.best_steps == [(-math.inf, 1), (-60.0 if metric == "ter" else -math.inf, 2)]
    progress.step = 4
    assert progress.judge(-90.0, loss=9.0, config=MEAN_OF_TWO)
    assert progress.best_step == 4


def test_a_new_tie_breaker_is_looked_up_as_a_new_metric_is() -> None:
    progress, _ = judged([(40.0, 3.206), (30.0, 2.5)], MEAN_OF_TWO)
    progress.metric = "bleu"
    lines = {1: {"bleu": 40.0, "chrf": 55.0}, 2: {"bleu": 30.0}}
    message = progress.switch_selection(Selection("bleu", "chrf", METRICS), validations=lines)
    assert message == "training.metric is still bleu, with ties broken by chrf: the best model (step 1) has 40.000"
    assert (progress.tie_breaker, progress.tie_at_best) == ("chrf", 55.0)
    assert (progress.best_steps, progress.best_steps_ties) == ([(40.0, 1), (30.0, 2)], [55.0, -math.inf])


def test_before_the_first_validation_another_metric_changes_nothing() -> None:
    progress = Progress(metric="bleu")
    selection = Selection("ter", "loss", METRICS)
    assert progress.switch_selection(selection, validations={}) == "training.metric is now ter"
    assert progress.best_value is None


@pytest.mark.parametrize(
    ("losses", "patience", "first"),
    [
        ([5, 4, 4.1, 4.1, 4.1, 4.1, 4.1, 4.1], 5, 8),
        ([5, 4, 4.1, 4.1], 5, None),
        ([5, 4, 3, 2, 1, 0.5, 0.4, 0.3], 5, None),
        ([5, 6], 1, None),
        ([5, 6, 6], 1, 3),
        ([3, 4, 5, 6, 7, 8], 2, 4),
    ],
)
def test_averaging_starts_as_in_the_paper(losses: list[float], patience: int, first: int | None) -> None:
    """Merity et al. 2018, algorithm 1: t > n and v > min of the t − n earliest, written out."""
    expected = None
    for t, loss in enumerate(losses):
        if expected is None and t > patience and loss > min(losses[: t - patience]):
            expected = t + 1
    progress = Progress()
    triggered = [progress.triggers_averaging(loss, patience=patience) for loss in losses]
    assert first == expected == (triggered.index(True) + 1 if any(triggered) else None)
