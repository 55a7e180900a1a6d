"""How much of a test set occurs in the training data: word frequencies, n-grams of the sources, whole sources.

The training data is read once, line by line; only words and n-grams of the test set are counted, so memory does not
grow with the training data.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from calque.evaluation.comparison.buckets import Buckets, Cuts
from calque.evaluation.comparison.words import Ngram, Words, WordSplitter, ngrams

SHARES = (0.5, 0.75, 0.9, 1.0)
LABELS = ["<50 %", "50 to <75 %", "75 to <90 %", "90 to <100 %", "all n-grams", "whole source"]


class TrainingCounts(NamedTuple):
    """Which words, n-grams and sources of a test set occur in the training data, and how often its words do."""

    pairs: int
    """The number of training pairs read."""
    frequencies: Counter[str]
    """How often each word of the references and hypotheses occurs in the training targets."""
    source_frequencies: Counter[str]
    """How often each word of the test sources occurs in the training sources."""
    seen_ngrams: frozenset[Ngram]
    """The n-grams of the test sources that occur in the training sources."""
    seen_sources: frozenset[tuple[str, ...]]
    """The test sources that are training sources, as words."""


def count_training(
    pairs: Iterable[tuple[str, str]],
    *,
    sources: Sequence[Words] | None,
    words: set[str],
    source_splitter: WordSplitter,
    target_splitter: WordSplitter,
) -> TrainingCounts:
    """Counts how often the target `words` and the words of the test `sources` occur in the training `pairs`.

    The returned counts also contain the n-grams of the test sources, and the whole test sources, that occur in the
    training sources. Without `sources`, only the target words are counted.
    """
    wanted = {ngram for source in sources or () for ngram in ngrams(source)}
    whole = {tuple(source) for source in sources or ()}
    source_words = {word for source in sources or () for word in source}
    frequencies, source_frequencies = Counter[str](), Counter[str]()
    seen_ngrams, seen_sources, count = set[Ngram](), set[tuple[str, ...]](), 0
    for source_text, target_text in pairs:
        count += 1
        frequencies.update(word for word in target_splitter(target_text) if word in words)
        if sources is None:
            continue
        source = source_splitter(source_text)
        source_frequencies.update(word for word in source if word in source_words)
        seen_ngrams.update(ngram for ngram in ngrams(source) if ngram in wanted)
        if (key := tuple(source)) in whole:
            seen_sources.add(key)
    return TrainingCounts(count, frequencies, source_frequencies, frozenset(seen_ngrams), frozenset(seen_sources))


def overlap_buckets(sources: Sequence[Words], counts: TrainingCounts) -> Buckets:
    """Groups sentences by the share of their source's n-grams (1 to 4 words) that occur in the training data.

    Sentences whose whole source occurs in the training data have a bucket of their own.
    """
    cuts = Cuts(SHARES, is_whole=False)
    places = [
        len(LABELS) - 1 if tuple(source) in counts.seen_sources else cuts.place(seen_share(source, counts))
        for source in sources
    ]
    return Buckets(LABELS, np.array(places, dtype=np.int64))


def seen_share(source: Words, counts: TrainingCounts) -> float:
    """The share of a source's n-grams that occur in the training data; 1 for an empty source."""
    parts = list(ngrams(source))
    return sum(ngram in counts.seen_ngrams for ngram in parts) / len(parts) if parts else 1.0
