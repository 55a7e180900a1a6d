"""The direction of a reverse model: known by what it gains, and told once."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from calque.engine import Candidate, Scored, Translation
from calque.engine.noisy_channel import ENOUGH, MOST, Direction

SOURCES = [f"source {number}" for number in range(100)]
TARGETS = [f"target {number}" for number in range(100)]


class Model:
    """One nat a piece, and `forth` or `back` more for the two pieces of what belongs together."""

    def __init__(self, *, forth: float, back: float) -> None:
        self.more = {"source": forth, "target": back}
        self.asked = 0

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]:
        for source, target in zip(sources, targets, strict=True):
            self.asked += 1
            side, number = source.split()
            log_prob = -1.0 + (self.more[side] if target.endswith(f" {number}") else 0.0) / 2
            yield Scored([target], [log_prob, log_prob])


def direction(model: Any) -> Direction:
    return Direction(model)


def answers(texts: Sequence[str]) -> list[Translation]:
    return [Translation([Candidate(text, 0.0, 0.0, cut=False)]) for text in texts]


@pytest.mark.parametrize(
    ("forth", "back", "doubtful"),
    [
        (0.0, 6.0, False),
        (6.0, 6.0, False),  # it knows both
        (6.0, 3.1, False),
        (6.0, 2.9, True),
        (6.0, 0.0, True),
        (6.0, -3.0, True),
        (0.9, 0.0, False),  # it has learnt nothing yet
        (1.1, 0.0, True),
    ],
)
def test_a_model_is_doubted_that_gains_by_the_source_and_not_by_the_translation(
    forth: float, back: float, doubtful: bool
) -> None:
    asked = direction(Model(forth=forth, back=back))
    assert asked.is_doubtful(answers(TARGETS), SOURCES) is doubtful


def test_few_lines_are_waited_for_and_it_is_said_once() -> None:
    model = Model(forth=6.0, back=0.0)
    asked = direction(model)
    told = [asked.is_doubtful(answers([target]), [source]) for source, target in zip(SOURCES, TARGETS, strict=True)]
    assert told == [number == ENOUGH - 1 for number in range(100)]
    assert model.asked == 4 * ENOUGH


def test_many_lines_are_not_all_asked_about() -> None:
    model = Model(forth=6.0, back=0.0)
    assert direction(model).is_doubtful(answers(TARGETS), SOURCES)
    assert model.asked == 4 * MOST


def test_empty_lines_and_lines_that_come_again_do_not_count() -> None:
    asked = direction(Model(forth=6.0, back=0.0))
    assert not asked.is_doubtful(answers([TARGETS[0]] * 50), [SOURCES[0]] * 50)
    assert not asked.is_doubtful(answers([" "] * 50), SOURCES[:50])
    assert not asked.is_doubtful(answers([""] * 50), [""] * 50)
    assert asked.is_doubtful(answers(TARGETS[: ENOUGH + 1]), SOURCES[: ENOUGH + 1])
