"""The comparison of recommenders as a JSON document. A user's target is the item that was held out.

{"kind": "comparison", "version": 1, "task": "recommendation",
 "test": {"path": str, "users": int, "seen_excluded": bool},
 "metrics": [{"name": "hr@10" | "ndcg@10" | "mrr" | …, "title": str, "better": "higher"}…],
 "systems": [{"name", "path", "kind", "model", "speed", "run", "curves": as in translations.py,
   "scores": {metric: between 0 and 1}, "intervals": {metric: [low, high]}, "p_values": null | {metric: float},
   "better": null | int, "worse": null | int}…],  // users whose target it ranks higher, or lower, than the baseline
 "randomisation": {"samples": int, "seed": int},      // the test that gives the p-values
 "sections": [{"id": "history-length" | "target-frequency", "title": str, "buckets": [str…], "counts": [users…],
   "scores": [[NDCG@10 per bucket] per system]}…],
 "users": {"total": int, "items": [{"user", "target", "history": length, "ranks": [int per system]}…]}}
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.errors import ConfigError
from calque.evaluation.ranking import METRICS, MISSED, ranking_intervals, user_statistics
from calque.evaluation.segment_statistics import Array
from calque.evaluation.significance import SAMPLES, randomisation_p_value

VERSION, SEED = 1, 12345
SHOWN = 500  # users that differ
BY = "ndcg@10"  # the metric of buckets
LENGTHS = ((0, 0), (1, 2), (3, 5), (6, 10), (11, 20), (21, 50), (51, None))
FREQUENCIES = ((0, 0), (1, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, None))


class RankedSystem(NamedTuple):
    """A recommender with the rank of each user's target, and facts that are copied into the JSON of the comparison."""

    name: str
    ranks: Sequence[int]
    facts: Mapping[str, Any] = {}


class RankedTest(NamedTuple):
    """The users that all systems are compared on."""

    users: Sequence[str]
    targets: Sequence[str]
    lengths: Sequence[int]  # of the histories
    frequencies: Sequence[int] | None  # of the targets in training; None if it is not known
    facts: Mapping[str, Any] = {}


def compare_recommendations(
    test: RankedTest, systems: Sequence[RankedSystem], *, samples: int = SAMPLES["randomisation"]
) -> dict[str, Any]:
    """Compares the ranks of several recommenders; returns the JSON document described at the top of this module.

    The first system is the baseline. With `samples` = 0, no significance test is made.
    """
    if len(systems) < 2:
        raise ConfigError("fewer than two systems to compare: give at least two runs")
    statistics = [user_statistics(system.ranks) for system in systems]
    sections = [_section("history-length", "by length of the history", test.lengths, LENGTHS, statistics)]
    if test.frequencies is not None:
        title = "by frequency of the target in training"
        sections.append(_section("target-frequency", title, test.frequencies, FREQUENCIES, statistics))
    return {
        "kind": "comparison",
        "version": VERSION,
        "task": "recommendation",
        "test": {**test.facts, "users": len(test.users)},
        "metrics": [{"name": name, "title": name.upper(), "better": "higher"} for name in METRICS],
        "systems": [_system(place, systems, statistics=statistics, samples=samples) for place in range(len(systems))],
        "randomisation": {"samples": samples, "seed": SEED},
        "sections": sections,
        "users": _users(test, systems),
    }


def _system(
    place: int, systems: Sequence[RankedSystem], *, statistics: Sequence[Array], samples: int
) -> dict[str, Any]:
    system, own, first = systems[place], statistics[place], statistics[0]
    intervals = ranking_intervals(system.ranks)
    p_values = {
        name: randomisation_p_value(
            first[:, [column]], own[:, [column]], scores=lambda sums: sums[:, 0] / len(own), samples=samples, seed=SEED
        )
        for column, name in enumerate(METRICS)
        if place and samples
    }
    gains = own[:, -1] - first[:, -1]  # of reciprocal ranks
    return {
        "name": system.name,
        **dict.fromkeys(("path", "kind", "model", "speed", "run", "curves")),
        **system.facts,
        "scores": {name: interval.value for name, interval in intervals.items()},
        "intervals": {name: [interval.low, interval.high] for name, interval in intervals.items()},
        "p_values": p_values or None,
        "better": int((gains > 0).sum()) if place else None,
        "worse": int((gains < 0).sum()) if place else None,
    }


def _section(
    id: str, title: str, values: Sequence[int], bounds: Sequence[tuple[int, int | None]], statistics: Sequence[Array]
) -> dict[str, Any]:
    """The systems' scores for users whose `values` are in each range of `bounds`; ranges without users are left out."""
    numbers, column = np.asarray(values), METRICS.index(BY)
    masks = {
        _range_name(low, high): (numbers >= low) & (numbers <= (numbers.max(initial=0) if high is None else high))
        for low, high in bounds
    }
    masks = {name: mask for name, mask in masks.items() if mask.any()}
    return {
        "id": id,
        "title": title,
        "buckets": list(masks),
        "counts": [int(mask.sum()) for mask in masks.values()],
        "scores": [[float(rows[mask, column].mean()) for mask in masks.values()] for rows in statistics],
    }


def _range_name(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"


def _users(test: RankedTest, systems: Sequence[RankedSystem]) -> dict[str, Any]:
    """The users whose target item any system ranks most differently from the baseline, measured by reciprocal rank."""
    ranks = np.array([system.ranks for system in systems], dtype=np.float64)  # [systems,U]
    reciprocal = np.where(ranks == MISSED, 0.0, 1 / np.maximum(ranks, 1))
    differences = np.abs(reciprocal[1:] - reciprocal[0]).max(axis=0)
    chosen = [place for place in np.argsort(-differences, kind="stable").tolist() if differences[place] > 0][:SHOWN]
    return {
        "total": len(test.users),
        "items": [
            {
                "user": test.users[place],
                "target": test.targets[place],
                "history": test.lengths[place],
                "ranks": [int(system.ranks[place]) for system in systems],
            }
            for place in chosen
        ],
    }
