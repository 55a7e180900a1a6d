"""The comparison of transcripts as a JSON document.

{"kind": "comparison", "version": 1, "task": "recognition",
 "test": {"path": str, "sentences": recordings, "words": int, "characters": int},
 "metrics": [{"name": "wer" | "cer", "title": str, "better": "lower"}…],
 "systems": [{"name", "group", "path", "kind", "model", "speed", "run", "curves": as in translations.py,
   "scores": {metric: per cent}, "exact_match": per cent of recordings without a word error,
   "errors": {"wer" | "cer": {"substitutions", "insertions", "deletions", "length"}},
   "wins": null | {metric: {"better", "worse", "equal": recordings against the baseline}}, "different": null | int,
   "substituted": [{"reference", "hypothesis", "count"}…], "deleted": [{"word", "count"}…], "inserted": […]}…],
 "significance": [{"method": "bootstrap" | "randomisation", "samples", "seed",
   "systems": {metric: [{"score", "p_value", "mean", "interval"} per system]}}…],
 "groups": as in translations.py, "sections": [{"id": "reference-length", …}] as in translations.py,
 "sentences": {"total": int, "items": […]}}                    // as in translations.py; the scores are error rates

Words are separated by white space. An error rate is edits / words (or characters) of the references, over all
recordings together. Letters: R recordings.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.errors import ConfigError, DataError
from calque.evaluation.comparison.buckets import Buckets, Cuts
from calque.evaluation.comparison.sentences import match_lengths, most_different, rounded, wins
from calque.evaluation.error_rates import Errors, all_character_errors, all_word_errors, rates_of
from calque.evaluation.segment_statistics import Array
from calque.evaluation.significance import (
    SAMPLES,
    Method,
    SystemResult,
    bootstrap_result,
    compare_groups,
    randomisation_p_value,
)

VERSION, SEED = 1, 12345
TITLES = {"wer": "WER", "cer": "CER"}
LENGTHS = (3, 5, 8, 12, 16, 20, 30, 40)  # words of the reference
LISTED = 50  # confusions of a kind
SHOWN = 1000  # recordings in either direction

Pair = tuple[str | None, str | None]
"""A word of the reference and the aligned word of the hypothesis; None on a side that has no such word."""


class TranscribedSystem(NamedTuple):
    """A system with its transcripts, and facts that are copied into the JSON of the comparison."""

    name: str
    transcripts: Sequence[str]
    group: str | None = None
    facts: Mapping[str, Any] = {}


class TranscribedTest(NamedTuple):
    """The recordings that all systems are compared on."""

    names: Sequence[str]  # of the recordings
    references: Sequence[str]
    facts: Mapping[str, Any] = {}
    lines: Sequence[int] | None = None  # of the recordings in the manifest; by default 1, 2, 3, …


def compare_transcripts(
    test: TranscribedTest,
    systems: Sequence[TranscribedSystem],
    *,
    samples: Mapping[Method, int] = SAMPLES,
    shown: int = SHOWN,
) -> dict[str, Any]:
    """Compares the transcripts of several systems; returns the JSON document described at the top of this module.

    The first system is the baseline. A significance test with 0 `samples` is left out.
    """
    check_transcripts(test, systems)
    errors = {
        "wer": [all_word_errors(test.references, system.transcripts) for system in systems],
        "cer": [all_character_errors(test.references, system.transcripts) for system in systems],
    }
    alignments = [_alignments(test, system) for system in systems]
    statistics = {
        name: [np.array([[item.edits, item.length] for item in items], dtype=np.float64) for items in rows]
        for name, rows in errors.items()
    }
    return {
        "kind": "comparison",
        "version": VERSION,
        "task": "recognition",
        "test": {
            **test.facts,
            "sentences": len(test.references),
            "words": sum(item.length for item in errors["wer"][0]),
            "characters": sum(item.length for item in errors["cer"][0]),
        },
        "metrics": [{"name": name, "title": title, "better": "lower"} for name, title in TITLES.items()],
        "systems": [_system(place, systems, errors, statistics, alignments[place]) for place in range(len(systems))],
        "significance": [_significance(method, count, statistics) for method, count in samples.items() if count],
        "groups": _groups(systems, statistics, samples=samples.get("bootstrap") or SAMPLES["bootstrap"]),
        "sections": [_by_length(test, statistics)],
        "sentences": _sentences(test, errors, alignments, shown=shown),
    }


def check_transcripts(test: TranscribedTest, systems: Sequence[TranscribedSystem]) -> None:
    """Raises an error for fewer than two systems, no recordings, or a system without one transcript per recording."""
    if len(systems) < 2:
        raise ConfigError("fewer than two systems to compare: give at least two runs or files of transcripts")
    size = len(test.references)
    if not size:
        raise DataError("nothing to compare: the test set has no recordings")
    problems = [
        f"{system.name} has {len(system.transcripts):,} lines, but the manifest has {size:,} recordings"
        for system in systems
        if len(system.transcripts) != size
    ]
    if problems:
        raise DataError("\n".join([*problems, "line n of every file must be the transcript of recording n"]))


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """The words aligned by a shortest sequence of edits, the same one that `edit_errors` counts.

    >>> align_words("a b c d".split(), "a x c".split())
    [('a', 'a'), ('b', 'x'), ('c', 'c'), ('d', None)]
    """
    unit = len(reference) + 1  # a substitution costs 1 less than this, so that ties go to the most substitutions
    before = list(range(0, unit * (len(hypothesis) + 1), unit))
    moves = [["insert"] * len(before)]
    for row, expected in enumerate(reference, start=1):
        current, chosen = [unit * row], ["delete"]
        for column, found in enumerate(hypothesis, start=1):
            best, move = before[column - 1] + (unit - 1) * (expected != found), "match"
            if before[column] + unit < best:
                best, move = before[column] + unit, "delete"
            if current[column - 1] + unit < best:
                best, move = current[column - 1] + unit, "insert"
            current.append(best)
            chosen.append(move)
        before = current
        moves.append(chosen)
    row, column, pairs = len(reference), len(hypothesis), list[Pair]()
    while row or column:
        move = moves[row][column]
        row -= move != "insert"
        column -= move != "delete"
        pairs.append((None if move == "insert" else reference[row], None if move == "delete" else hypothesis[column]))
    return pairs[::-1]


def _alignments(test: TranscribedTest, system: TranscribedSystem) -> list[list[Pair]]:
    pairs = zip(test.references, system.transcripts, strict=True)
    return [align_words(reference.split(), transcript.split()) for reference, transcript in pairs]


def _rates(sums: Array) -> Array:
    """Error rates in per cent, [N], given N rows of summed edits and summed reference lengths, [N,2]."""
    return 100 * rates_of(sums)


def _system(
    place: int,
    systems: Sequence[TranscribedSystem],
    errors: Mapping[str, Sequence[Sequence[Errors]]],
    statistics: Mapping[str, Sequence[Array]],
    alignments: Sequence[Sequence[Pair]],
) -> dict[str, Any]:
    system = systems[place]
    totals = {name: sum(rows[place], Errors()) for name, rows in errors.items()}
    right = sum(not item.edits for item in errors["wer"][place])
    pairs = zip(system.transcripts, systems[0].transcripts, strict=True)
    return {
        "name": system.name,
        "group": system.group,
        **dict.fromkeys(("path", "kind", "model", "speed", "run", "curves")),
        **system.facts,
        "scores": {name: _score(rows[place]) for name, rows in statistics.items()},
        "exact_match": 100 * right / len(system.transcripts),
        "errors": {name: total._asdict() for name, total in totals.items()},
        "wins": _wins(place, errors) if place else None,
        "different": sum(left.split() != right.split() for left, right in pairs) if place else None,
        **_confusions(alignments),
    }


def _score(rows: Array) -> float:
    return float(_rates(rows.sum(axis=0, keepdims=True))[0])


def _wins(place: int, errors: Mapping[str, Sequence[Sequence[Errors]]]) -> dict[str, dict[str, int]]:
    """For each metric, in how many recordings system `place` has fewer edits than the baseline, more, or as many."""
    edits = {name: [np.array([item.edits for item in row]) for row in rows] for name, rows in errors.items()}
    return {name: wins(rows[0], rows[place], is_higher_better=False) for name, rows in edits.items()}


def _confusions(alignments: Sequence[Sequence[Pair]]) -> dict[str, Any]:
    """The words that are most often substituted, deleted and inserted."""
    edits: Counter[Pair] = Counter()
    for pairs in alignments:
        edits.update(pair for pair in pairs if pair[0] != pair[1])
    ordered = sorted(edits.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))
    return {
        "substituted": [
            {"reference": left, "hypothesis": right, "count": count}
            for (left, right), count in ordered
            if left is not None and right is not None
        ][:LISTED],
        "deleted": [{"word": left, "count": count} for (left, right), count in ordered if right is None][:LISTED],
        "inserted": [{"word": right, "count": count} for (left, right), count in ordered if left is None][:LISTED],
    }


def _significance(method: Method, samples: int, statistics: Mapping[str, Sequence[Array]]) -> dict[str, Any]:
    def result(rows: Sequence[Array], place: int) -> SystemResult:
        if method == "bootstrap":
            found = bootstrap_result(rows[0], rows[place], scores=_rates, samples=samples, seed=SEED)
            return found if place else found._replace(p_value=None)
        p_value = None
        if place:
            p_value = randomisation_p_value(rows[0], rows[place], scores=_rates, samples=samples, seed=SEED)
        return SystemResult(_score(rows[place]), p_value, None, None)

    return {
        "method": method,
        "samples": samples,
        "seed": SEED,
        "systems": {
            name: [result(rows, place)._asdict() for place in range(len(rows))] for name, rows in statistics.items()
        },
    }


def _groups(
    systems: Sequence[TranscribedSystem], statistics: Mapping[str, Sequence[Array]], *, samples: int
) -> list[dict[str, Any]] | None:
    """The scores of each group (systems that differ in their seed, or one alone); None if no system has a group."""
    if not any(system.group for system in systems):
        return None
    members: dict[str, list[int]] = {}
    for place, system in enumerate(systems):
        members.setdefault(system.group or system.name, []).append(place)
    results = {
        name: compare_groups(
            [[rows[place] for place in places] for places in members.values()], scores=_rates, samples=samples
        )
        for name, rows in statistics.items()
    }
    return [
        {
            "name": group,
            "systems": places,
            "scores": {name: rows[number]._asdict() for name, rows in results.items()},
        }
        for number, (group, places) in enumerate(members.items())
    ]


def _by_length(test: TranscribedTest, statistics: Mapping[str, Sequence[Array]]) -> dict[str, Any]:
    """The error rates by number of words in the reference; lengths without recordings are left out."""
    buckets = Buckets.of([len(text.split()) for text in test.references], cuts=Cuts(LENGTHS))
    counts = buckets.counts()
    kept = [place for place, count in enumerate(counts) if count]
    return {
        "id": "reference-length",
        "title": "by reference length, words",
        "buckets": [buckets.labels[place] for place in kept],
        "counts": [[counts[place] for place in kept]] * len(statistics["wer"]),
        "scores": {
            name: [[float(_rates(buckets.sums(row))[place]) for place in kept] for row in rows]
            for name, rows in statistics.items()
        },
    }


def _sentences(
    test: TranscribedTest,
    errors: Mapping[str, Sequence[Sequence[Errors]]],
    alignments: Sequence[Sequence[Sequence[Pair]]],
    *,
    shown: int,
) -> dict[str, Any]:
    """The recordings whose word errors differ most between the systems."""
    rates = {
        name: np.array([[100 * item.rate for item in row] for row in rows]) for name, rows in errors.items()
    }  # [systems,R]
    lines = test.lines or range(1, len(test.references) + 1)
    chosen = most_different(rates["wer"][1:] - rates["wer"][0], shown=shown)
    return {
        "total": len(test.references),
        "items": [
            {
                "line": lines[place],
                "source": test.names[place],
                "reference": _spaced(test.references[place].split()),
                "systems": [
                    {
                        **_marked(pairs[place]),
                        "scores": dict(
                            zip(rates, rounded([rows[number, place] for rows in rates.values()]), strict=True)
                        ),
                    }
                    for number, pairs in enumerate(alignments)
                ],
            }
            for place in chosen
        ],
    }


def _marked(pairs: Sequence[Pair]) -> dict[str, Any]:
    """The words of a transcript, the lengths of their n-gram matches with the reference, and runs of equal edits."""
    reference = [word for word, _ in pairs if word is not None]
    words = [word for _, word in pairs if word is not None]
    runs: list[list[Any]] = []
    row = column = 0
    for left, right in pairs:
        operation = "+" if left is None else "-" if right is None else "=" if left == right else "~"
        start = (row, column)
        row, column = row + (left is not None), column + (right is not None)
        if runs and runs[-1][0] == operation:
            runs[-1][1][1], runs[-1][2][1] = row, column
        else:
            runs.append([operation, [start[0], row], [start[1], column]])
    return {"words": _spaced(words), "matches": match_lengths(words, reference), "difference": runs}


def _spaced(words: Sequence[str]) -> list[str]:
    return [f" {word}" if place else word for place, word in enumerate(words)]
