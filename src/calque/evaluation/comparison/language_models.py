"""The comparison of language models as a JSON document.

{"kind": "comparison", "version": 1, "task": "language-modelling",
 "test": {"path": str, "lines": int, "words": int, "bytes": int},        // every line end counts as a word
 "training": null | {"origin": str, "lines": int},
 "metrics": [{"name": "per_word" | "per_byte", "title": str, "better": "lower"}…],
 "systems": [{"name", "path", "kind", "model", "speed", "run", "curves" as in translations.py,
   "scores": {"per_word", "per_byte": perplexities}, "nats": float, "pieces": int, "per_piece": float,
   "p_value": null | float}…],
 "randomisation": {"samples": int, "seed": int},                      // test of the loss per word against the baseline
 "sections": [{"id": "position" | "frequency", "title": str, "buckets": [label…], "counts": [words per bucket],
   "nats": [[nats per word | null per bucket] per system]}…],
 "sentences": {"total": int, "items": [{"line": int, "words": […, "</s>"],
   "systems": [[nats per word] per system]}…]}}                            // lines with the largest differences

Losses are per word, so that models with different vocabularies can be compared: a word's loss is the sum over its
pieces.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.errors import ConfigError, DataError
from calque.evaluation.comparison.buckets import Cuts
from calque.evaluation.comparison.sentences import most_different, rounded
from calque.evaluation.comparison.word_accuracy import FREQUENCIES
from calque.evaluation.perplexity import perplexity
from calque.evaluation.segment_statistics import Array
from calque.evaluation.significance import SAMPLES, randomisation_p_value

VERSION, SEED = 1, 12345
SHOWN = 250  # lines in either direction
END = "</s>"
POSITIONS = (2, 3, 4, 5, 9, 17, 33, 65, 129, 257)


class ScoredSystem(NamedTuple):
    """A language model with its loss at every word and every line end of the test set."""

    name: str
    losses: Sequence[Sequence[float]]
    """The losses of each line in nats: one per word, and one for the line's end."""
    pieces: int
    facts: Mapping[str, Any] = {}


class TextTest(NamedTuple):
    """The lines that all models score, none of them blank."""

    lines: Sequence[str]
    facts: Mapping[str, Any] = {}


class TrainingText(NamedTuple):
    """How often words occur in the training data, and a description of that data."""

    frequencies: Mapping[str, int]
    lines: int
    origin: str


def compare_language_models(
    test: TextTest,
    systems: Sequence[ScoredSystem],
    *,
    training: TrainingText | None = None,
    samples: int = SAMPLES["randomisation"],
) -> dict[str, Any]:
    """Compares several language models; returns the JSON document described at the top of this module.

    The first system is the baseline. With `samples` = 0, no significance test is made.
    """
    words = [[*line.split(), END] for line in test.lines]
    _check(words, systems)
    size = sum(len(line.encode()) + 1 for line in test.lines)
    return {
        "kind": "comparison",
        "version": VERSION,
        "task": "language-modelling",
        "test": {**test.facts, "lines": len(words), "words": sum(map(len, words)), "bytes": size},
        "training": None if training is None else {"origin": training.origin, "lines": training.lines},
        "metrics": [
            {"name": "per_word", "title": "perplexity per word", "better": "lower"},
            {"name": "per_byte", "title": "perplexity per byte", "better": "lower"},
        ],
        "systems": [_system(place, systems, size=size, samples=samples) for place in range(len(systems))],
        "randomisation": {"samples": samples, "seed": SEED},
        "sections": [_by_position(systems), _by_frequency(systems, words, training=training)],
        "sentences": _sentences(systems, words),
    }


def _check(words: Sequence[Sequence[str]], systems: Sequence[ScoredSystem]) -> None:
    if len(systems) < 2:
        raise ConfigError("fewer than two systems to compare: give at least two runs")
    if not words:
        raise DataError("nothing to compare: every line of the text is blank")
    for system in systems:
        if list(map(len, system.losses)) != list(map(len, words)):
            raise DataError(
                f"{system.name}: wrong number of losses; a line needs one for each word and one for its end"
            )


def _system(place: int, systems: Sequence[ScoredSystem], *, size: int, samples: int) -> dict[str, Any]:
    system = systems[place]
    nats = sum(map(sum, system.losses))
    p_value = None
    if place and samples:
        first, second = (_statistics(systems[number]) for number in (0, place))
        p_value = randomisation_p_value(first, second, scores=_per_word, samples=samples, seed=SEED)
    return {
        "name": system.name,
        **dict.fromkeys(("path", "kind", "model", "speed", "run", "curves")),
        **system.facts,
        "scores": {
            "per_word": perplexity(nats, count=sum(map(len, system.losses))),
            "per_byte": perplexity(nats, count=size),
        },
        "nats": nats,
        "pieces": system.pieces,
        "per_piece": perplexity(nats, count=system.pieces),
        "p_value": p_value,
    }


def _statistics(system: ScoredSystem) -> Array:
    """For each of S lines, the loss in nats and the number of words, [S,2]; the line end counts as a word."""
    return np.array([[sum(losses), len(losses)] for losses in system.losses], dtype=np.float64)


def _per_word(sums: Array) -> Array:
    return sums[:, 0] / np.maximum(sums[:, 1], 1)


def _by_position(systems: Sequence[ScoredSystem]) -> dict[str, Any]:
    cuts = Cuts(POSITIONS)
    places = [[cuts.place(number) for number in range(1, len(losses) + 1)] for losses in systems[0].losses]
    return _section("position", "loss by position in the line", ["1", *cuts.labels()[1:]], places, systems)


def _by_frequency(
    systems: Sequence[ScoredSystem], words: Sequence[Sequence[str]], *, training: TrainingText | None
) -> dict[str, Any]:
    """The loss by the frequency of the word in the training data or, if `training` is None, in the test set.

    Line ends have a bucket of their own.
    """
    cuts, origin = Cuts(FREQUENCIES), "the text itself" if training is None else "the training data"
    frequencies = Counter(word for line in words for word in line) if training is None else training.frequencies
    labels = ["0", *cuts.labels()[1:], "line end"]
    places = [
        [
            len(labels) - 1 if word == END and last else cuts.place(frequencies.get(word, 0))
            for word, last in _lasts(line)
        ]
        for line in words
    ]
    return _section("frequency", f"loss by frequency of the word in {origin}", labels, places, systems)


def _lasts(line: Sequence[str]) -> list[tuple[str, bool]]:
    """The words of a line, each with a flag that is true for the last word."""
    return [(word, number == len(line) - 1) for number, word in enumerate(line)]


def _section(
    id: str,
    title: str,
    labels: Sequence[str],
    places: Sequence[Sequence[int]],
    systems: Sequence[ScoredSystem],
) -> dict[str, Any]:
    """The mean loss per word in each bucket, given the bucket of every word (`places`); empty buckets are left out."""
    flat = np.array([place for line in places for place in line])
    counts = np.bincount(flat, minlength=len(labels))
    kept: list[int] = np.flatnonzero(counts).tolist()
    sums = [
        np.bincount(flat, weights=[loss for line in system.losses for loss in line], minlength=len(labels))
        for system in systems
    ]
    return {
        "id": id,
        "title": title,
        "buckets": [labels[place] for place in kept],
        "counts": [int(counts[place]) for place in kept],
        "nats": [[float(row[place] / counts[place]) for place in kept] for row in sums],
    }


def _sentences(systems: Sequence[ScoredSystem], words: Sequence[Sequence[str]]) -> dict[str, Any]:
    means = np.stack([_per_word(_statistics(system)) for system in systems])  # [systems,S]
    chosen = most_different(means[1:] - means[0], shown=SHOWN)
    return {
        "total": len(words),
        "items": [
            {
                "line": int(place) + 1,
                "words": list(words[place]),
                "systems": [rounded(system.losses[place]) for system in systems],
            }
            for place in chosen
        ],
    }
