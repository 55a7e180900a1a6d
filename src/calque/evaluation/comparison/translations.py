"""The comparison of translations as a JSON document, which `calque compare --format json` writes and web pages show.

{"kind": "comparison", "version": 1, "task": "translation",
 "test": {"source": path | null, "reference": path, "sentences": int, "words": int, "splitting": "13a" | "zh" | "char"},
 "training": null | {"origin": str, "pairs": int},          // what word frequencies and overlap were counted in
 "metrics": [{"name": "bleu", "title": "BLEU", "better": "higher" | "lower", "signature": str}…],
 "systems": [{                                               // the first is the baseline
   "name": str, "group": str | null, "path": str, "kind": "run" | "model" | "hypotheses",
   "scores": {metric: float}, "precisions": [4 floats, per cent], "brevity_penalty": float, "length_ratio": float,
   "exact_match": float (per cent), "errors": {"repetitions", "sentences_with_repetitions", "copies",
   "sentences_with_copies": int | null without sources},
   "wins": null | {metric: {"better", "worse", "equal": sentences against the baseline}},
   "different": null | int,                                  // hypotheses that differ from the baseline's
   "model": null | {"architecture": str, "parameters": int, "bytes": int},
   "speed": null | {"seconds": float, "sentences_per_second": float, "words_per_second": float, "device": str},
   "run": null | {"steps": int, "seconds": float, "tokens_per_second": float, "best_step": int | null},
   "curves": null | {"train": {"step": […], "loss": […]}, "valid": {"step": […], "loss": […], "bleu": […] …}}}…],
 "significance": [{"method": "bootstrap" | "randomisation", "samples": int, "seed": int | null,
   "signatures": {metric: str},
   "systems": {metric: [{"score", "p_value", "mean", "interval"} per system]}}…],
 "groups": null | [{"name": str, "systems": [indices], "scores": {metric: {"mean", "deviation",
   "interval": [low, high], "difference", "difference_interval", "p_value"}}}…],
 "sections": [{"id": "source-length", "title": str, "buckets": [label…],           // scores by bucket of sentences
   "counts": [[sentences per bucket] per system], "scores": {metric: [[float | null per bucket] per system]}}…],
 "words": [{"id": "word-frequency", "title": str, "buckets": [label…],              // F1 of words by bucket
   "systems": [[{"precision", "recall", "f1", "correct", "hypothesis", "reference"} per bucket] per system]}…],
 "ngrams": [{"systems": [0, other], "correct" | "excess" | "missing":                // n-grams, clearest first
   {"first": [{"words": […], "counts": [of 0, of other], "share": float}…], "second": […, counts of other first]}}…],
 "sentences": {"total": int, "items": [{"line": int, "source": str | null, "reference": [words with their spaces],
   "systems": [{"words": [words with their spaces], "matches": [0 to 4 per word], "difference": [[operation,
   [from, to] in the reference, [from, to] in the hypothesis]…], "scores": {metric: float}}…]}…]}}

Words are those that BLEU counts; in "sentences", a word has the white space before it, so that words concatenate to
the text. Operations: "=" equal, "~" replaced, "-" only in the reference, "+" only in the hypothesis.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEUScore

from calque.errors import ConfigError, DataError
from calque.evaluation.comparison.buckets import DIFFERENCES, LENGTHS, SCORES, Buckets, Cuts, Statistics, section
from calque.evaluation.comparison.errors import count_errors
from calque.evaluation.comparison.ngram_differences import compare_ngrams, count_ngrams
from calque.evaluation.comparison.sentences import match_lengths, most_different, rounded, wins, word_difference
from calque.evaluation.comparison.training_overlap import TrainingCounts, overlap_buckets
from calque.evaluation.comparison.word_accuracy import LabelledWord, by_case, by_frequency, by_label
from calque.evaluation.comparison.words import LONGEST, Words, WordSplitter
from calque.evaluation.metrics import exact_match
from calque.evaluation.segment_statistics import METRICS, TITLES, MetricName, SegmentMetric
from calque.evaluation.significance import SAMPLES, Method, compare_groups, paired_test

VERSION = 1
SHOWN = 1000  # sentences in either direction
Progress = Callable[[str, int, int], None]
Labelled = Sequence[Sequence[LabelledWord]]


class System(NamedTuple):
    """A system with its translations of the test set, and facts that are copied into the JSON of the comparison."""

    name: str
    hypotheses: Sequence[str]
    group: str | None = None
    facts: Mapping[str, Any] = {}


class EvaluationSet(NamedTuple):
    """The sentences that all systems translate."""

    references: Sequence[str]
    sources: Sequence[str] | None = None
    facts: Mapping[str, Any] = {}
    labels: Sequence[str] | None = None
    """A label for every sentence, such as its domain; None if there are none."""


class Training(NamedTuple):
    """How much of the test set occurs in the training data, and a description of that data."""

    counts: TrainingCounts
    origin: str


class WordLabels(NamedTuple):
    """Labels, such as parts of speech, of all words in the references and in each system's hypotheses."""

    references: Labelled
    systems: Sequence[Labelled]


class Settings(NamedTuple):
    """Which metrics and significance tests the comparison computes, and how many sentences it shows."""

    metrics: tuple[MetricName, ...] = METRICS
    samples: Mapping[Method, int] = SAMPLES
    """The number of resamples or trials of each test; 0 leaves the test out."""
    shown: int = SHOWN
    """The number of sentences listed for the largest gains, and as many for the largest losses."""


EVERYTHING = Settings()


class EvaluationWords(NamedTuple):
    """The words of the test set and of all hypotheses."""

    references: list[list[str]]
    sources: list[list[str]] | None
    systems: list[list[list[str]]]

    @classmethod
    def of(cls, test: EvaluationSet, systems: Sequence[System]) -> "EvaluationWords":
        """Splits the test set and all hypotheses into words, with the tokenizations that BLEU uses for them."""
        splitter = WordSplitter(test.references)
        sources = None if test.sources is None else list(map(WordSplitter(test.sources), test.sources))
        return cls(
            list(map(splitter, test.references)),
            sources,
            [list(map(splitter, system.hypotheses)) for system in systems],
        )

    @property
    def targets(self) -> set[str]:
        """The distinct words of all references and hypotheses."""
        sentences = [*self.references, *(words for system in self.systems for words in system)]
        return {word for words in sentences for word in words}


def check_systems(test: EvaluationSet, systems: Sequence[System]) -> None:
    """Raises an error for fewer than two systems, an empty test set, or files with different numbers of lines."""
    if len(systems) < 2:
        count = "only one system" if systems else "no system"
        raise ConfigError(f"{count} to compare: give at least two runs or hypothesis files")
    size = len(test.references)
    if not size:
        raise DataError("nothing to compare: the reference file is empty")
    texts = {system.name: len(system.hypotheses) for system in systems}
    if test.labels is not None:
        texts = {"the file of sentence labels": len(test.labels), **texts}
    if test.sources is not None:
        texts = {"the source": len(test.sources), **texts}
    problems = [
        f"{name} has {count:,} lines, but the reference has {size:,}" for name, count in texts.items() if count != size
    ]
    if problems:
        raise DataError("\n".join([*problems, "line n of every file must belong to line n of the reference"]))


def _quiet(_phase: str, _done: int, _total: int) -> None:
    """A progress callback that does nothing."""


def compare_translations(
    test: EvaluationSet,
    systems: Sequence[System],
    *,
    settings: Settings = EVERYTHING,
    training: Training | None = None,
    labels: WordLabels | None = None,
    progress: Progress = _quiet,
) -> dict[str, Any]:
    """Compares the translations of several systems; returns the JSON document described at the top of this module.

    The first system is the baseline.
    """
    check_systems(test, systems)
    comparison = _Comparison(test, systems, settings=settings, progress=progress)
    return comparison.document(training=training, labels=labels)


class _Comparison:
    """Computes the JSON of a comparison of systems, mostly from sentence statistics that are extracted only once."""

    def __init__(
        self, test: EvaluationSet, systems: Sequence[System], *, settings: Settings, progress: Progress
    ) -> None:
        self.test, self.systems, self.settings, self.progress = test, systems, settings, progress
        self.words = EvaluationWords.of(test, systems)
        self.bleu = SegmentMetric("bleu", test.references)
        self.metrics = [
            self.bleu if name == "bleu" else SegmentMetric(name, test.references) for name in settings.metrics
        ]
        self.statistics: dict[str, Statistics] = {}
        needed = list(dict.fromkeys([self.bleu, *self.metrics]))
        for done, metric in enumerate(needed):
            progress("scoring", done, len(needed))
            self.statistics[metric.name] = [metric.statistics(system.hypotheses) for system in systems]
        progress("scoring", len(needed), len(needed))
        self.sentence_scores = {
            metric.name: np.stack([metric.sentence_scores(rows) for rows in self.statistics[metric.name]])
            for metric in needed
        }  # [systems,S]

    def document(self, *, training: Training | None, labels: WordLabels | None) -> dict[str, Any]:
        return {
            "kind": "comparison",
            "version": VERSION,
            "task": "translation",
            "test": {
                **self.test.facts,
                "sentences": len(self.test.references),
                "words": sum(map(len, self.words.references)),
                "splitting": WordSplitter(self.test.references).name,
            },
            "training": None if training is None else {"origin": training.origin, "pairs": training.counts.pairs},
            "metrics": [
                {
                    "name": metric.name,
                    "title": TITLES[metric.name],
                    "better": "higher" if metric.is_higher_better else "lower",
                    "signature": metric.signature,
                }
                for metric in self.metrics
            ],
            "systems": [self._system(place) for place in range(len(self.systems))],
            "significance": list(self._significance()),
            "groups": self._groups(),
            "sections": self._sections(training),
            "words": self._word_sections(training, labels),
            "ngrams": self._ngrams(),
            "sentences": self._sentences(),
        }

    def _system(self, place: int) -> dict[str, Any]:
        system, words = self.systems[place], self.words.systems[place]
        errors = count_errors(words, self.words.references, sources=self.words.sources)._asdict()
        if self.words.sources is None:
            errors |= dict.fromkeys(("copies", "sentences_with_copies"))
        bleu = self.bleu.metric._compute_score_from_stats(list(self.statistics["bleu"][place].sum(axis=0)))
        assert isinstance(bleu, BLEUScore)
        baseline = self.systems[0].hypotheses
        pairs = zip(system.hypotheses, baseline, strict=True)
        return {
            "name": system.name,
            "group": system.group,
            **dict.fromkeys(("path", "kind", "model", "speed", "run", "curves")),
            **system.facts,
            "scores": {metric.name: metric.score(self.statistics[metric.name][place]) for metric in self.metrics},
            "precisions": [float(precision) for precision in bleu.precisions[:LONGEST]],
            "brevity_penalty": float(bleu.bp),
            "length_ratio": sum(map(len, words)) / max(1, sum(map(len, self.words.references))),
            "exact_match": exact_match(system.hypotheses, self.test.references).value,
            "errors": errors,
            "wins": self._wins(place) if place else None,
            "different": sum(left != right for left, right in pairs) if place else None,
        }

    def _wins(self, place: int) -> dict[str, dict[str, int]]:
        return {
            metric.name: wins(
                self.sentence_scores[metric.name][0],
                self.sentence_scores[metric.name][place],
                is_higher_better=metric.is_higher_better,
            )
            for metric in self.metrics
        }

    def _significance(self) -> list[dict[str, Any]]:
        hypotheses = {system.name: system.hypotheses for system in self.systems}
        methods = [(method, samples) for method, samples in self.settings.samples.items() if samples]
        tests = []
        for done, (method, samples) in enumerate(methods):
            self.progress("testing significance", done, len(methods))
            results = paired_test(hypotheses, self.metrics, method=method, samples=samples)
            values = {name: [result._asdict() for result in rows] for name, rows in results.systems.items()}
            tests.append({**results._asdict(), "systems": values})
        self.progress("testing significance", len(methods), len(methods))
        return tests

    def _groups(self) -> list[dict[str, Any]] | None:
        """The scores of groups of systems that differ in their seed; None if no system has a group.

        A system without a group forms a group of its own.
        """
        if not any(system.group for system in self.systems):
            return None
        members: dict[str, list[int]] = {}
        for place, system in enumerate(self.systems):
            members.setdefault(system.group or system.name, []).append(place)
        results = {
            metric.name: compare_groups(
                [[self.statistics[metric.name][place] for place in places] for places in members.values()],
                scores=metric.scores,
                samples=self.settings.samples.get("bootstrap") or SAMPLES["bootstrap"],
            )
            for metric in self.metrics
        }
        return [
            {
                "name": name,
                "systems": places,
                "scores": {metric: rows[number]._asdict() for metric, rows in results.items()},
            }
            for number, (name, places) in enumerate(members.items())
        ]

    def _sections(self, training: Training | None) -> list[dict[str, Any]]:
        def shared(id: str, title: str, buckets: Buckets) -> dict[str, Any]:
            return self._section(id, title, [buckets] * len(self.systems))

        sections = []
        if self.words.sources is not None:
            lengths = Buckets.of(list(map(len, self.words.sources)), cuts=Cuts(LENGTHS))
            sections.append(shared("source-length", "by source length, words", lengths))
        lengths = Buckets.of(list(map(len, self.words.references)), cuts=Cuts(LENGTHS))
        sections.append(shared("reference-length", "by reference length, words", lengths))
        if training is not None and self.words.sources is not None:
            overlap = overlap_buckets(self.words.sources, training.counts)
            sections.append(shared("training-overlap", "by share of source n-grams seen in training", overlap))
        if self.test.labels is not None:
            sections.append(shared("sentence-label", "by label of the sentence", Buckets.of_labels(self.test.labels)))
        sections.append(
            self._section(
                "length-difference",
                "by length of hypothesis minus reference, words",
                [Buckets.of(self._length_differences(words), cuts=Cuts(DIFFERENCES)) for words in self.words.systems],
            )
        )
        sections.append(
            self._section(
                "sentence-bleu",
                "by sentence BLEU",
                [
                    Buckets.of(scores.tolist(), cuts=Cuts(SCORES, is_whole=False))
                    for scores in self.sentence_scores["bleu"]
                ],
            )
        )
        return sections

    def _length_differences(self, words: Sequence[Words]) -> list[int]:
        pairs = zip(words, self.words.references, strict=True)
        return [len(hypothesis) - len(reference) for hypothesis, reference in pairs]

    def _section(self, id: str, title: str, buckets: Sequence[Buckets]) -> dict[str, Any]:
        return section(id, title, buckets, metrics=self.metrics, statistics=self.statistics)

    def _word_sections(self, training: Training | None, labels: WordLabels | None) -> list[dict[str, Any]]:
        words = self.words
        if training is not None:
            frequencies, origin = training.counts.frequencies, "the training data"
        else:
            frequencies = Counter(word for sentence in words.references for word in sentence)
            origin = "the references"
        sections = [
            by_frequency(words.systems, words.references, frequencies=frequencies, origin=origin),
            by_case(words.systems, words.references),
        ]
        if labels is not None:
            sections.append(by_label(labels.systems, labels.references))
        return sections

    def _ngrams(self) -> list[dict[str, Any]]:
        """The n-grams that distinguish each system from the baseline; of a group, only the first system is compared."""
        counts = [count_ngrams(words, self.words.references) for words in self._representatives().values()]
        places = list(self._representatives())
        return [
            {"systems": [places[0], place], **compare_ngrams(counts[0], other)}
            for place, other in list(zip(places, counts, strict=True))[1:]
        ]

    def _representatives(self) -> dict[int, list[list[str]]]:
        """The words of the first system of every group, and of all systems without a group, by the system's index."""
        first: dict[str, int] = {}
        for place, system in enumerate(self.systems):
            first.setdefault(system.group or f"{place}", place)
        return {place: self.words.systems[place] for place in first.values()}

    def _sentences(self) -> dict[str, Any]:
        metric = self.metrics[0] if self.bleu not in self.metrics else self.bleu
        scores = self.sentence_scores[metric.name]
        chosen = most_different(scores[1:] - scores[0], shown=self.settings.shown)
        splitter = WordSplitter(self.test.references)
        return {
            "total": len(self.test.references),
            "items": [self._sentence(int(place), splitter) for place in chosen],
        }

    def _sentence(self, place: int, splitter: WordSplitter) -> dict[str, Any]:
        reference = self.words.references[place]
        rows = []
        for number, system in enumerate(self.systems):
            words = self.words.systems[number][place]
            scores = rounded([self.sentence_scores[metric.name][number, place] for metric in self.metrics])
            rows.append(
                {
                    "words": splitter.spaced(system.hypotheses[place]),
                    "matches": match_lengths(words, reference),
                    "difference": word_difference(words, reference),
                    "scores": dict(zip((metric.name for metric in self.metrics), scores, strict=True)),
                }
            )
        return {
            "line": place + 1,
            "source": None if self.test.sources is None else self.test.sources[place],
            "reference": splitter.spaced(self.test.references[place]),
            "systems": rows,
        }
