"""The comparison of taggers as a JSON document.

{"kind": "comparison", "version": 1, "task": "tagging",
 "test": {"path": str, "sentences": int, "words": int},
 "metrics": [{"name": "accuracy" | "f1", "title": str, "better": "higher"}…],          // f1 only if labels form spans
 "systems": [{"name", "path", "kind", "model", "speed", "run", "curves": as in translations.py,
   "scores": {metric: per cent}, "p_values": null | {metric: float},
   "different": null | int,                                    // words that it and the baseline label differently
   "confusion": {"labels": [name…], "counts": [[int per predicted label] per gold label]}}…],
 "randomisation": {"samples": int, "seed": int},                         // the test that gives the p-values
 "labels": [{"label": str, "support": int, "systems": [{"precision", "recall", "f1"} per system]}…],
 "spans": null | [{"label": type, "support": int, "systems": […]}…],
 "sentences": {"total": int, "items": [{"line": int (of the sentence, from 1), "words": […], "gold": […],
   "systems": [[label…] per system]}…]}}                        // that the systems label differently, largest gap first
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.errors import ConfigError
from calque.evaluation.confusion import confusion_table, count_confusions, token_accuracy
from calque.evaluation.segment_statistics import Array
from calque.evaluation.significance import SAMPLES, randomisation_p_value
from calque.evaluation.spans import check_alignment, score_spans
from calque.text.span_labels import spans

VERSION, SEED = 1, 12345
SHOWN = 500  # sentences that differ
DRAWN = 40  # labels in a confusion table

Labels = Sequence[Sequence[str]]
"""The labels of every sentence."""


class TaggedSystem(NamedTuple):
    """A tagger with its predicted labels, and facts that are copied into the JSON of the comparison."""

    name: str
    labels: Labels
    facts: Mapping[str, Any] = {}


class TaggedTest(NamedTuple):
    """The words and gold labels that all systems are compared on."""

    words: Labels
    gold: Labels
    has_spans: bool
    facts: Mapping[str, Any] = {}


def compare_taggings(
    test: TaggedTest, systems: Sequence[TaggedSystem], *, samples: int = SAMPLES["randomisation"]
) -> dict[str, Any]:
    """Compares the labels of several taggers; returns the JSON document described at the top of this module.

    The first system is the baseline. With `samples` = 0, no significance test is made.
    """
    if len(systems) < 2:
        raise ConfigError("fewer than two systems to compare: give at least two runs or labelled files")
    for system in systems:
        check_alignment(system.labels, gold=test.gold)
    titles = {"accuracy": "accuracy, %", **({"f1": "F1 of spans, %"} if test.has_spans else {})}
    statistics = {name: [_statistics(name, system.labels, test.gold) for system in systems] for name in titles}
    return {
        "kind": "comparison",
        "version": VERSION,
        "task": "tagging",
        "test": {**test.facts, "sentences": len(test.gold), "words": sum(map(len, test.gold))},
        "metrics": [{"name": name, "title": title, "better": "higher"} for name, title in titles.items()],
        "systems": [
            _system(place, systems, test=test, statistics=statistics, samples=samples) for place in range(len(systems))
        ],
        "randomisation": {"samples": samples, "seed": SEED},
        "labels": _label_scores(systems, test.gold),
        "spans": _span_scores(systems, test.gold) if test.has_spans else None,
        "sentences": _sentences(systems, test),
    }


def _system(
    place: int,
    systems: Sequence[TaggedSystem],
    *,
    test: TaggedTest,
    statistics: Mapping[str, Sequence[Array]],
    samples: int,
) -> dict[str, Any]:
    system = systems[place]
    counts = count_confusions(system.labels, gold=test.gold)
    scores = {"accuracy": 100 * token_accuracy(counts)}
    if test.has_spans:
        scores["f1"] = 100 * score_spans(system.labels, gold=test.gold).micro.f1
    p_values = {
        name: randomisation_p_value(rows[0], rows[place], scores=_SCORES[name], samples=samples, seed=SEED)
        for name, rows in statistics.items()
        if place and samples
    }
    names, table = confusion_table(counts, most=DRAWN)
    return {
        "name": system.name,
        **dict.fromkeys(("path", "kind", "model", "speed", "run", "curves")),
        **system.facts,
        "scores": scores,
        "p_values": p_values or None,
        "different": _different(systems[0].labels, system.labels) if place else None,
        "confusion": {"labels": names, "counts": table.tolist()},
    }


def _different(first: Labels, second: Labels) -> int:
    """The number of words that two systems label differently."""
    sentences = zip(first, second, strict=True)
    return sum(left != right for labels in sentences for left, right in zip(*labels, strict=True))


def _statistics(metric: str, predicted: Labels, gold: Labels) -> Array:
    """The counts, for each of S sentences, from which the metric is computed.

    For accuracy, correct words and all words, [S,2]; for F1, correct, predicted and gold spans, [S,3].
    """
    rows = []
    for labels, gold_labels in zip(predicted, gold, strict=True):
        if metric == "accuracy":
            pairs = zip(labels, gold_labels, strict=True)
            rows.append([sum(left == right for left, right in pairs), len(gold_labels)])
        else:
            predicted_spans, gold_spans = set(spans(labels)), set(spans(gold_labels))
            rows.append([len(predicted_spans & gold_spans), len(predicted_spans), len(gold_spans)])
    return np.array(rows, dtype=np.float64)


_SCORES: dict[str, Callable[[Array], Array]] = {
    "accuracy": lambda sums: 100 * sums[:, 0] / np.maximum(sums[:, 1], 1),
    "f1": lambda sums: 200 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1),
}


def _label_scores(systems: Sequence[TaggedSystem], gold: Labels) -> list[dict[str, Any]]:
    """Each system's precision, recall and F1 for every label, counted in words; most frequent gold labels first."""
    tables = [count_confusions(system.labels, gold=gold) for system in systems]
    support: dict[str, int] = {}
    for table in tables:
        for gold_label, predicted in table:
            support.setdefault(gold_label, 0)
            support.setdefault(predicted, 0)
    for (gold_label, _), count in tables[0].items():
        support[gold_label] += count
    return [
        {
            "label": label,
            "support": support[label],
            "systems": [
                _shares(
                    table[label, label],
                    predicted=sum(count for (_, predicted), count in table.items() if predicted == label),
                    gold=support[label],
                )
                for table in tables
            ],
        }
        for label in sorted(support, key=lambda label: (-support[label], label))
    ]


def _shares(correct: int, *, predicted: int, gold: int) -> dict[str, float]:
    return {
        "precision": correct / max(predicted, 1),
        "recall": correct / max(gold, 1),
        "f1": 2 * correct / max(predicted + gold, 1),
    }


def _span_scores(systems: Sequence[TaggedSystem], gold: Labels) -> list[dict[str, Any]]:
    scores = [score_spans(system.labels, gold=gold).types for system in systems]
    types = sorted({kind for table in scores for kind in table})
    support = {kind: max(table[kind].support for table in scores if kind in table) for kind in types}
    empty = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    return [
        {
            "label": kind,
            "support": support[kind],
            "systems": [
                {name: getattr(table[kind], name) for name in empty} if kind in table else empty for table in scores
            ],
        }
        for kind in sorted(types, key=lambda kind: (-support[kind], kind))
    ]


def _sentences(systems: Sequence[TaggedSystem], test: TaggedTest) -> dict[str, Any]:
    """The sentences that any system labels differently from the baseline; the largest gaps in correct labels first."""
    correct = np.stack([_statistics("accuracy", system.labels, test.gold)[:, 0] for system in systems])  # [systems,S]
    differences = np.abs(correct[1:] - correct[0]).max(axis=0)
    different = [
        place
        for place in range(len(test.gold))
        if any(list(system.labels[place]) != list(systems[0].labels[place]) for system in systems[1:])
    ]
    chosen = sorted(different, key=lambda place: (-differences[place], place))[:SHOWN]
    return {
        "total": len(test.gold),
        "items": [
            {
                "line": place + 1,
                "words": list(test.words[place]),
                "gold": list(test.gold[place]),
                "systems": [list(system.labels[place]) for system in systems],
            }
            for place in chosen
        ],
    }
