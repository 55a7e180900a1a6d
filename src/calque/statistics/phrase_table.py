"""Phrase tables: the translations of each source phrase, with their scores."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Floats
from calque.statistics.lexicon import LexicalTable
from calque.statistics.phrase_extraction import MAXIMUM, AlignedCorpus, Occurrences, extract_phrases
from calque.statistics.phrase_scores import (
    discounted_frequencies,
    lexical_weights,
    orientation_counts,
    orientation_scores,
    relative_frequencies,
    word_weights,
)
from calque.statistics.phrase_trie import ROOT, PhraseTrie, corpus_spans

Discount = Literal["none", "kneser-ney"]

PHRASE_SCORES = ("phrase_source", "lexical_source", "phrase_target", "lexical_target")
"""log φ(f̄ | ē), log lex(f̄ | ē), log φ(ē | f̄), log lex(ē | f̄)."""
WORD_SCORES = ("lexical_source", "lexical_target")
"""log t(f | e), log t(e | f)."""
ORIENTATIONS = (
    "monotone_before",
    "swapped_before",
    "discontinuous_before",
    "monotone_after",
    "swapped_after",
    "discontinuous_after",
)
"""The names of a table's orientation scores."""


class PhraseTable(NamedTuple):
    """The translations of source phrase s are the entries `[offsets[s] : offsets[s + 1]]`, most likely first."""

    names: tuple[str, ...]
    """The names of the columns of `scores`."""
    sources: PhraseTrie
    targets: PhraseTrie
    offsets: Array  # int64 [nodes of sources + 1]
    translations: Array  # int32 [entries]: nodes of `targets`
    scores: Array  # float32 [entries,columns]: natural logarithms
    lengths: Array  # int32 [entries]: words of each translation
    estimates: Array
    """float32 [entries]: a language model's log-probability of each translation without context; 0 without such a
    model."""
    orientations: Array | None  # float32 [entries,6]
    maximum: int
    """The number of words of the longest source phrase."""

    def phrases(self, ids: Array) -> Iterator[tuple[int, int, slice]]:
        """(start, stop, entries) of each span of a sentence that has translations, longer spans last."""
        nodes = self.sources.spans(ids, maximum=self.maximum)
        for row, start in np.argwhere(nodes > ROOT).tolist():
            node = int(nodes[row, start])
            entries = slice(int(self.offsets[node]), int(self.offsets[node + 1]))
            if entries.stop > entries.start:
                yield start, start + row + 1, entries


def extract_table(
    corpus: AlignedCorpus,
    *,
    sizes: tuple[int, int],
    maximum: int = MAXIMUM,
    discount: Discount = "kneser-ney",
    reordering: bool = True,
    limit: int | None = None,
    never: int | None = None,
) -> PhraseTable:
    """The phrase table of an aligned corpus with vocabularies of these sizes; at most `limit` translations per phrase.

    Phrases with the word `never`, which stands for unknown words, are left out.
    """
    found = extract_phrases(corpus, maximum=maximum)
    if never is not None:
        found = _without(found, corpus, word=never)
    source_trie, source_spans = corpus_spans(corpus.source, corpus.source_remaining, size=sizes[0], maximum=maximum)
    target_trie, target_spans = corpus_spans(corpus.target, corpus.target_remaining, size=sizes[1], maximum=maximum)
    source_trie, numbers = source_trie.pruned(source_spans[found.source_length - 1, found.source])
    sources = numbers[source_spans[found.source_length - 1, found.source]]
    target_trie, numbers = target_trie.pruned(target_spans[found.target_length - 1, found.target])
    targets = numbers[target_spans[found.target_length - 1, found.target]]
    distinct, pairs, counts = np.unique(sources * target_trie.nodes + targets, return_inverse=True, return_counts=True)
    sources, targets = distinct // target_trie.nodes, distinct % target_trie.nodes

    def frequencies(given: Array, other: Array) -> Floats:
        if discount == "none":
            return relative_frequencies(given, counts)
        return discounted_frequencies(given, other, counts)

    count = len(distinct)
    scores = [
        frequencies(targets, sources),
        lexical_weights(word_weights(corpus.turned()), found.source, found.source_length, pairs=pairs, count=count),
        frequencies(sources, targets),
        lexical_weights(word_weights(corpus), found.target, found.target_length, pairs=pairs, count=count),
    ]
    orientations = None
    if reordering:
        orientations = orientation_scores(orientation_counts(corpus, found, pairs=pairs, count=count))
    return _table(
        PHRASE_SCORES, source_trie, target_trie, sources, targets, np.stack(scores, axis=1), orientations,
        maximum=maximum, by=PHRASE_SCORES.index("phrase_target"), limit=limit,
    )  # fmt: skip


def word_table(
    forward: LexicalTable, backward: LexicalTable, *, sizes: tuple[int, int], best: int, never: int | None = None
) -> PhraseTable:
    """A table of the `best` translations of each word, with the scores log t(f | e) and log t(e | f) of two lexicons.

    `forward` has t(e | f), which selects the translations, and `backward` t(f | e); a pair that `backward` lacks is as
    likely as the least likely one that it has. The word `never`, which stands for unknown words, is left out.
    """
    lengths = np.diff(forward.offsets)[:-1]  # without the empty word
    ranks = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    sources = np.repeat(np.arange(forward.sources), lengths)
    targets = forward.targets[: len(sources)].astype(np.int64)
    kept = (
        (ranks < best) & (sources != (-1 if never is None else never)) & (targets != (-1 if never is None else never))
    )
    sources, targets = sources[kept], targets[kept]
    probabilities = forward.probabilities[: len(kept)][kept]
    rows = np.repeat(np.arange(backward.sources + 1), np.diff(backward.offsets))
    known = rows * sizes[0] + backward.targets
    order = np.argsort(known)
    wanted = targets * sizes[0] + sources
    places = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    floor = float(backward.probabilities.min(initial=1.0))
    inverse = np.where(known[places] == wanted, backward.probabilities[places], floor)
    used_sources, source_places = np.unique(sources, return_inverse=True)
    used_targets, target_places = np.unique(targets, return_inverse=True)
    return _table(
        WORD_SCORES,
        PhraseTrie(used_sources.astype(np.int64), sizes[0]),
        PhraseTrie(used_targets, sizes[1]),
        source_places + 1,
        target_places + 1,
        np.log(np.stack([inverse, probabilities], axis=1)),
        None,
        maximum=1,
        by=1,
        limit=None,
    )


def _without(found: Occurrences, corpus: AlignedCorpus, *, word: int) -> Occurrences:
    """The occurrences of phrase pairs in which neither phrase contains the id `word`."""
    source, target = (np.concatenate([[0], np.cumsum(ids == word)]) for ids in (corpus.source, corpus.target))
    kept = (source[found.source + found.source_length] == source[found.source]) & (
        target[found.target + found.target_length] == target[found.target]
    )
    return Occurrences(*(part[kept] for part in found))


def _table(
    names: tuple[str, ...],
    source_trie: PhraseTrie,
    target_trie: PhraseTrie,
    sources: Array,
    targets: Array,
    scores: Floats,
    orientations: Floats | None,
    *,
    maximum: int,
    by: int,
    limit: int | None,
) -> PhraseTable:
    """The table of phrase pairs, given as trie nodes `sources` and `targets`; at most `limit` pairs per source phrase.

    Entries are sorted by source phrase, then by the column `by` of `scores`, best first.
    """
    order = np.lexsort((targets, -scores[:, by], sources))
    if limit is not None:
        starts = np.searchsorted(sources[order], sources[order])
        order = order[np.arange(len(order)) - starts < limit]
    return PhraseTable(
        names,
        source_trie,
        target_trie,
        np.searchsorted(sources[order], np.arange(source_trie.nodes + 1)),
        targets[order].astype(np.int32),
        scores[order].astype(np.float32),
        target_trie.lengths()[targets[order]].astype(np.int32),
        np.zeros(len(order), dtype=np.float32),
        None if orientations is None else orientations[order].astype(np.float32),
        maximum,
    )
