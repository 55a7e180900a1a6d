"""The comparison of sentence encoders by retrieval, as a JSON document. Partners are the two sentences of a pair.

{"kind": "comparison", "version": 1, "task": "embedding",
 "test": {"path": str, "target": str, "sentences": int (pairs), "words": int (of the sources)},
 "metrics": [{"name": "top1_to_target" | "top1_to_source" | "mrr_to_target" | "mrr_to_source", "title", "better"}…],
 "systems": [{"name", "path", "kind", "model", "speed", "run", "curves": as in translations.py,
   "scores": {metric: per cent}, "p_values": null | {metric: float},
   "different": null | int}…],           // retrievals, in both directions, in which either it or the baseline is right
 "randomisation": {"samples": int, "seed": int},                         // the test that gives the p-values
 "lengths": [{"label": words of the source, "count": int, "systems": [mean top-1 of both directions, per cent]}…],
 "sentences": {"total": int, "items": [{"line": int (from 1), "source": str, "target": str,
   "systems": [{"to_target": rank, "to_source": rank} per system]}…]}}   // pairs whose top-1 differs, largest gap first
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.errors import ConfigError
from calque.evaluation.comparison.buckets import Buckets, Cuts
from calque.evaluation.retrieval import Ranks
from calque.evaluation.segment_statistics import Array
from calque.evaluation.significance import SAMPLES, randomisation_p_value

VERSION, SEED = 1, 12345
SHOWN = 500  # pairs that differ
LENGTHS = (5, 10, 15, 20, 30)
METRICS = {
    "top1_to_target": "top-1 to target, %",
    "top1_to_source": "top-1 to source, %",
    "mrr_to_target": "MRR to target, %",
    "mrr_to_source": "MRR to source, %",
}


class RetrievalSystem(NamedTuple):
    """A system with the rank of each sentence's partner, and facts that are copied into the JSON of the comparison."""

    name: str
    ranks: Ranks
    facts: Mapping[str, Any] = {}


class RetrievalTest(NamedTuple):
    """The pairs that all systems are compared on."""

    sources: Sequence[str]
    targets: Sequence[str]
    facts: Mapping[str, Any] = {}


def compare_retrievals(
    test: RetrievalTest, systems: Sequence[RetrievalSystem], *, samples: int = SAMPLES["randomisation"]
) -> dict[str, Any]:
    """Compares the retrieval of several systems; returns the JSON document described at the top of this module.

    The first system is the baseline. With `samples` = 0, no significance test is made.
    """
    if len(systems) < 2:
        raise ConfigError("fewer than two systems to compare: give at least two runs or model folders")
    words = [len(text.split()) for text in test.sources]
    return {
        "kind": "comparison",
        "version": VERSION,
        "task": "embedding",
        "test": {**test.facts, "sentences": len(test.sources), "words": sum(words)},
        "metrics": [{"name": name, "title": title, "better": "higher"} for name, title in METRICS.items()],
        "systems": [_system(place, systems, samples=samples) for place in range(len(systems))],
        "randomisation": {"samples": samples, "seed": SEED},
        "lengths": _lengths(systems, words),
        "sentences": _sentences(test, systems),
    }


def _system(place: int, systems: Sequence[RetrievalSystem], *, samples: int) -> dict[str, Any]:
    system = systems[place]
    values = {name: _values(name, system.ranks) for name in METRICS}
    p_values = {
        name: randomisation_p_value(
            _values(name, systems[0].ranks)[:, None],
            rows[:, None],
            scores=lambda sums: sums[:, 0],
            samples=samples,
            seed=SEED,
        )
        for name, rows in values.items()
        if place and samples
    }
    return {
        "name": system.name,
        **dict.fromkeys(("path", "kind", "model", "speed", "run", "curves")),
        **system.facts,
        "scores": {name: 100 * float(rows.mean()) for name, rows in values.items()},
        "p_values": p_values or None,
        "different": int(np.abs(_found(systems[0]) - _found(system)).sum()) if place else None,
    }


def _values(metric: str, ranks: Ranks) -> Array:
    """The value of a metric for each of N sentences, [N]; the mean is the metric of the test set."""
    measure, _, direction = metric.partition("_")
    own = getattr(ranks, direction)
    values: Array = (own == 1).astype(np.float64) if measure == "top1" else 1 / own
    return values


def _found(system: RetrievalSystem) -> Array:
    """Whether each sentence's partner (the other one of its pair) is nearest to it, in both directions: [2,N]."""
    return np.stack([system.ranks.to_target == 1, system.ranks.to_source == 1]).astype(np.int64)


def _lengths(systems: Sequence[RetrievalSystem], words: Sequence[int]) -> list[dict[str, Any]]:
    """Each system's top-1 accuracy by the number of `words` in the source; ranges without sentences are left out."""
    buckets = Buckets.of(words, cuts=Cuts(LENGTHS))
    rows = []
    for place, label in enumerate(buckets.labels):
        is_inside = buckets.places == place
        if is_inside.any():
            shares = [100 * float(_found(system)[:, is_inside].mean()) for system in systems]
            rows.append({"label": label, "count": int(is_inside.sum()), "systems": shares})
    return rows


def _sentences(test: RetrievalTest, systems: Sequence[RetrievalSystem]) -> dict[str, Any]:
    """The pairs that some systems retrieve at rank 1 and others do not; the largest differences in 1/rank first."""
    found = np.stack([_found(system) for system in systems])  # [systems,2,N]
    is_different = (found != found[:1]).any(axis=(0, 1))
    shares = np.stack([1 / system.ranks.to_target + 1 / system.ranks.to_source for system in systems])
    gaps = np.abs(shares[1:] - shares[0]).max(axis=0)
    chosen = sorted(np.flatnonzero(is_different).tolist(), key=lambda pair: (-gaps[pair], pair))[:SHOWN]
    return {
        "total": len(test.sources),
        "items": [
            {
                "line": pair + 1,
                "source": test.sources[pair],
                "target": test.targets[pair],
                "systems": [
                    {name: int(ranks[pair]) for name, ranks in system.ranks._asdict().items()} for system in systems
                ],
            }
            for pair in chosen
        ],
    }
