"""Significance of the differences between systems on one test set.

Paired bootstrap (Koehn 2004) and paired approximate randomisation (Riezler and Maxwell 2005) are sacreBLEU's own, so
that scores and p-values equal those of its command line. For other statistics, such as a tagger's correct labels,
`randomisation_p_value` is a vectorised version of the second test. `compare_groups` compares systems trained with
several seeds.
Letters: S sentences, R resamples or trials, K statistics per sentence.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from sacrebleu.significance import PairedTest, Result

from calque.errors import ConfigError, DataError
from calque.evaluation.intervals import percentiles
from calque.evaluation.segment_statistics import Array, SegmentMetric

Method = Literal["bootstrap", "randomisation"]
SAMPLES: dict[Method, int] = {"bootstrap": 1000, "randomisation": 10_000}
"""The default number of resamples or trials of each test, as in sacreBLEU."""
LEVEL = 0.05
"""Differences with a smaller p-value are called significant."""

_NAMES = {"bootstrap": "bs", "randomisation": "ar"}
_TOGETHER = 512  # trials whose sums are computed at once
_ROUNDING = 1e-9  # by which equal differences may differ


class SystemResult(NamedTuple):
    """A system's score by one metric and, except for the baseline, how it differs from the baseline."""

    score: float
    p_value: float | None
    """The p-value of the difference from the baseline; None for the baseline."""
    mean: float | None
    """The mean of the bootstrap resamples; None for the randomisation test."""
    interval: float | None
    """Half the width of the bootstrap's 95 % confidence interval; None for the randomisation test."""


class PairedResults(NamedTuple):
    """The results of a significance test for every metric and system, the baseline first."""

    method: Method
    samples: int
    seed: int | None
    signatures: dict[str, str]
    """The signature of each metric, with the test's settings."""
    systems: dict[str, list[SystemResult]]
    """The results of all systems, by metric."""


def paired_test(
    systems: Mapping[str, Sequence[str]], metrics: Sequence[SegmentMetric], *, method: Method, samples: int = 0
) -> PairedResults:
    """Compares every system with the first by sacreBLEU's paired test; `samples` = 0 means sacreBLEU's default.

    The seed is sacreBLEU's: 12345 unless the environment variable SACREBLEU_SEED sets another.
    """
    if len(systems) < 2:
        raise DataError(f"a paired test needs at least two systems; found {len(systems)}")
    _refuse_seed(os.environ.get("SACREBLEU_SEED"))
    test = PairedTest(
        list(systems.items()),
        {metric.name: metric.metric for metric in metrics},
        references=None,
        test_type=_NAMES[method],
        n_samples=samples,
    )
    signatures, columns = test()
    names = dict(zip(signatures, (metric.name for metric in metrics), strict=True))  # chrF2 is chrf here
    return PairedResults(
        method,
        test.n_samples,
        test._seed,
        {name: str(signatures[key]) for key, name in names.items()},
        {name: [_system_result(result) for result in columns[key]] for key, name in names.items()},
    )


def _refuse_seed(seed: str | None) -> None:
    """Raises a ConfigError for a value of SACREBLEU_SEED that sacreBLEU cannot read."""
    if seed is not None and seed.lower() != "none" and not seed.strip().isdecimal():
        raise ConfigError(f"SACREBLEU_SEED is {seed!r}: set it to a number, to None for a random seed, or unset it")


def _system_result(result: Result | str) -> SystemResult:
    assert isinstance(result, Result)
    values = (result.score, result.p_value, result.mean, result.ci)
    score, *others = (None if value is None else float(value) for value in values)
    assert score is not None
    return SystemResult(score, *others)


def randomisation_p_value(
    first: Array,
    second: Array,
    *,
    scores: Callable[[Array], Array],
    samples: int = 10_000,
    seed: int = 12345,
    counts_ties: bool = True,
) -> float:
    """The two-sided p-value of the difference between two systems' scores, by paired approximate randomisation.

    `first` and `second` are the statistics of each sentence [S,K]; `scores` maps sums of them [R,K] to scores [R]. A
    trial exchanges the systems' outputs of random sentences; the p-value is the share of trials whose difference is at
    least the observed one, (count + 1) / (trials + 1). With the same seed, trials are those of sacreBLEU, whose p-value
    does not count ties, that is, trials with exactly the observed difference. When few sentences differ, there are
    many ties, and sacreBLEU's p-value is too small (docs/compare.md).
    """
    totals = np.stack([first.sum(axis=0), second.sum(axis=0)])
    observed = _gap(scores(totals))
    rounding = _ROUNDING * max(observed, 1)
    exchanged = np.random.default_rng(seed).integers(2, size=(samples, len(first)), dtype=bool)
    change = first - second
    as_large = 0
    for start in range(0, samples, _TOGETHER):
        moved = exchanged[start : start + _TOGETHER].astype(np.float64) @ change  # [R,K]
        differences = np.abs(scores(totals[1] + moved) - scores(totals[0] - moved))
        as_large += int((differences > observed + (-rounding if counts_ties else rounding)).sum())
    return (as_large + 1) / (samples + 1)


def bootstrap_result(
    first: Array, second: Array, *, scores: Callable[[Array], Array], samples: int = 1000, seed: int = 12345
) -> SystemResult:
    """The second system's score, its bootstrap interval, and the p-value of its difference from the first system.

    `first` and `second` are the statistics of each sentence [S,K]; `scores` maps sums of them [R,K] to scores [R]. With
    the same seed, resamples and p-value are those of sacreBLEU's paired bootstrap.
    """
    size = len(second)
    chosen = np.random.default_rng(seed).choice(size, size=(samples, size), replace=True)
    counts = np.stack([np.bincount(row, minlength=size) for row in chosen]).astype(np.float64)  # [R,S]
    resampled = np.sort(scores(counts @ second))
    low = samples // 40
    changes = np.abs(scores(counts @ second) - scores(counts @ first))
    observed = scores(np.stack([first.sum(axis=0), second.sum(axis=0)]))
    p_value = (int((changes - changes.mean() > _gap(observed)).sum()) + 1) / (samples + 1)
    half = float(resampled[samples - low - 1] - resampled[low]) / 2
    return SystemResult(float(observed[1]), p_value, float(resampled.mean()), half)


def _gap(pair: Array) -> float:
    return float(abs(pair[0] - pair[1]))


class GroupResult(NamedTuple):
    """The scores of a group of systems that differ only in their seed, and their difference from the first group."""

    mean: float
    deviation: float | None
    """The standard deviation of the systems' scores (n − 1 in the denominator); None for a single system."""
    interval: tuple[float, float]
    """The 95 % confidence interval of the mean, over seeds and sentences."""
    difference: float | None
    """The group's mean score minus that of the first group; None for the first."""
    difference_interval: tuple[float, float] | None
    p_value: float | None
    """The two-sided p-value: twice the share of resampled differences with the opposite sign; None for the first."""


def compare_groups(
    groups: Sequence[Sequence[Array]],
    *,
    scores: Callable[[Array], Array],
    samples: int = 1000,
    seed: int = 12345,
) -> list[GroupResult]:
    """Bootstraps seeds and sentences together, and compares every group with the first.

    A group holds the statistics [S,K] of each of its systems on the same S sentences. A resample draws S sentences with
    replacement, the same for all systems, and from each group as many systems as it has, also with replacement; its
    value for a group is the mean score of the drawn systems.
    """
    generator = np.random.default_rng(seed)
    size = len(groups[0][0])
    counts = generator.multinomial(size, np.full(size, 1 / size), size=samples).astype(np.float64)  # [R,S]
    means, resampled = [], []
    for group in groups:
        values = np.stack([scores(counts @ statistics) for statistics in group])  # [systems,R]
        drawn = generator.integers(len(group), size=(len(group), samples))
        resampled.append(np.take_along_axis(values, drawn, axis=0).mean(axis=0))
        means.append(np.array([scores(statistics.sum(axis=0, keepdims=True))[0] for statistics in group]))
    return [
        _group_result(means[place], resampled[place], baseline=(means[0], resampled[0]) if place else None)
        for place in range(len(groups))
    ]


def _group_result(values: Array, resampled: Array, *, baseline: tuple[Array, Array] | None) -> GroupResult:
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    mean, interval = float(values.mean()), percentiles(resampled)
    if baseline is None:
        return GroupResult(mean, deviation, interval, None, None, None)
    differences = resampled - baseline[1]
    return GroupResult(
        mean,
        deviation,
        interval,
        mean - float(baseline[0].mean()),
        percentiles(differences),
        sign_p_value(differences),
    )


def sign_p_value(differences: Array) -> float:
    """The two-sided p-value of a difference, given its bootstrap resamples [R]: 2 (count + 1) / (R + 1), at most 1.

    The count is that of the resamples with the rarer sign; a difference of 0 counts towards both signs.
    """
    rarer = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (rarer + 1) / (len(differences) + 1))
