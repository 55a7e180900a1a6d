"""The direction of a reverse model: inferred from its gains in log-probability, reported once."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from calque.engine import Candidate, Scored, Translation
from calque.engine.noisy_channel import MAXIMUM_PAIRS, MINIMUM_PAIRS, DirectionCheck

SOURCES = [f"source {number}" for number in range(100)]
TARGETS = [f"target {number}" for number in range(100)]


class Model:
    """Costs one nat per piece, and `forth` or `back` less for the two pieces of a matching pair."""

    def __init__(self, *, forth: float, back: float) -> None:
        self.more = {"source": forth, "target": back}
        self.scored = 0

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]:
        for source, target in zip(sources, targets, strict=True):
            self.scored += 1
            side, number = source.split()
            log_prob = -1.0 + (self.more[side] if target.endswith(f" {number}") else 0.0) / 2
            yield Scored([target], [log_prob, log_prob])


def direction_check(model: Any) -> DirectionCheck:
    return DirectionCheck(model)


def translations(texts: Sequence[str]) -> list[Translation]:
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
def test_a_model_that_gains_from_the_source_but_not_from_the_translation_is_doubtful(
    forth: float, back: float, doubtful: bool
) -> None:
    check = direction_check(Model(forth=forth, back=back))
    assert check.is_doubtful(translations(TARGETS), SOURCES) is doubtful


def test_the_check_waits_for_enough_lines_and_reports_once() -> None:
    model = Model(forth=6.0, back=0.0)
    check = direction_check(model)
    reports = [
        check.is_doubtful(translations([target]), [source]) for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    assert reports == [number == MINIMUM_PAIRS - 1 for number in range(100)]
    assert model.scored == 4 * MINIMUM_PAIRS


def test_only_the_first_lines_are_scored() -> None:
    model = Model(forth=6.0, back=0.0)
    assert direction_check(model).is_doubtful(translations(TARGETS), SOURCES)
    assert model.scored == 4 * MAXIMUM_PAIRS


def test_empty_and_repeated_lines_do_not_count() -> None:
    check = direction_check(Model(forth=6.0, back=0.0))
    assert not check.is_doubtful(translations([TARGETS[0]] * 50), [SOURCES[0]] * 50)
    assert not check.is_doubtful(translations([" "] * 50), SOURCES[:50])
    assert not check.is_doubtful(translations([""] * 50), [""] * 50)
    assert check.is_doubtful(translations(TARGETS[: MINIMUM_PAIRS + 1]), SOURCES[: MINIMUM_PAIRS + 1])
