"""The scores of phrase pairs: relative frequencies with discounts, and lexical weights.

Letters: f̄ a source phrase, ē a target phrase, c(f̄, ē) how often the pair was extracted.
"""

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Floats
from calque.statistics.phrase_extraction import AlignedCorpus, Occurrences


def relative_frequencies(given: Array, counts: Array) -> Floats:
    """log φ(ē | f̄) of each phrase pair, with φ(ē | f̄) = c(f̄, ē) / Σ_ē' c(f̄, ē'); `given` is the index of its f̄."""
    totals = np.bincount(given, weights=counts)
    frequencies: Floats = np.log(counts / totals[given])
    return frequencies


def discounted_frequencies(given: Array, other: Array, counts: Array) -> Floats:
    """log φ(ē | f̄) with modified Kneser-Ney discounts (Foster, Kuhn and Johnson 2006, §3.4).

        φ(ē | f̄) = (c(f̄, ē) − D(c)) / c(f̄) + α(f̄) · p(ē)

    D has three values for counts of 1, 2 and more, estimated as in Chen and Goodman (1998); α(f̄) is the probability
    mass that the discounts free, and p(ē) the share of distinct pairs that contain ē.
    """
    taken = kneser_ney_discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(given, weights=counts)
    freed = np.bincount(given, weights=taken) / np.maximum(totals, 1)
    lower = np.bincount(other) / len(other)
    frequencies: Floats = np.log((counts - taken) / totals[given] + freed[given] * lower[other])
    return frequencies


def kneser_ney_discounts(counts: Array) -> Floats:
    """D(0) = 0, D(1), D(2) and D(3+): Dₖ = k − (k + 1) Y nₖ₊₁ / nₖ with Y = n₁ / (n₁ + 2 n₂).

    A discount that the counts of counts do not determine, or that is not between 0 and k, is set to k / 2.
    """
    numbers = np.bincount(np.minimum(counts, 5), minlength=6).astype(float)
    share = numbers[1] / max(1.0, numbers[1] + 2 * numbers[2])
    discounts = np.zeros(4)
    for count in (1, 2, 3):
        discount = count - (count + 1) * share * numbers[count + 1] / max(1.0, numbers[count])
        discounts[count] = discount if 0 < discount < count else count / 2
    return discounts


def word_weights(corpus: AlignedCorpus) -> Floats:
    """For each target word of the corpus, the logarithm of its lexical weight.

        1 / |{i : (i, j) ∈ a}| · Σ_{(i, j) ∈ a} w(eⱼ | fᵢ)        w(e | f) = c(f, e) / Σ_e' c(f, e')

    c counts links. A word without a link is linked to the empty word (Koehn et al. 2003, §4.1.4).
    """
    places = corpus.links[:, 1]
    sources, targets = corpus.source[corpus.links[:, 0]].astype(np.int64), corpus.target[places].astype(np.int64)
    size = int(corpus.target.max(initial=0)) + 1
    _, pairs, counts = np.unique(sources * size + targets, return_inverse=True, return_counts=True)
    probabilities = counts[pairs] / np.bincount(sources)[sources]
    links = np.bincount(places, minlength=len(corpus.target))
    weights = np.bincount(places, weights=probabilities, minlength=len(corpus.target)) / np.maximum(1, links)
    unlinked = np.flatnonzero(links == 0)
    words = corpus.target[unlinked].astype(np.int64)
    weights[unlinked] = np.bincount(words, minlength=size)[words] / max(1, len(words))
    logarithms: Floats = np.log(weights)
    return logarithms


def lexical_weights(weights: Floats, starts: Array, lengths: Array, *, pairs: Array, count: int) -> Floats:
    """log lex(ē | f̄, a) of each of `count` phrase pairs: the sum over the words of ē, for the best alignment found.

    All links of a word of ē lie inside a consistent phrase pair, so `weights`, from `word_weights`, hold for every
    phrase that the word occurs in. `pairs` numbers the phrase pair of each occurrence.
    """
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    best = np.full(count, -np.inf)
    np.maximum.at(best, pairs, sums[starts + lengths] - sums[starts])
    return best


def orientation_counts(corpus: AlignedCorpus, occurrences: Occurrences, *, pairs: Array, count: int) -> Floats:
    """How often each of `count` phrase pairs is monotone, swapped or discontinuous: [count,6].

    Columns 0–2 are relative to the target word before the phrase: it is *monotone* if that word is linked to the source
    word before the phrase, *swapped* if to the source word after it, and else *discontinuous*. Columns 3–5 are the same
    with "before" and "after" exchanged (Koehn et al. 2005; the word-based orientations of Moses).
    """
    source, target = occurrences.source, occurrences.target
    source_end, target_end = source + occurrences.source_length, target + occurrences.target_length
    is_first = _is_first(corpus.source_remaining, source) & _is_first(corpus.target_remaining, target)
    is_last = (corpus.source_remaining[source] == occurrences.source_length) & (
        corpus.target_remaining[target] == occurrences.target_length
    )
    is_linked = _Links(corpus)
    monotone_before = is_first | is_linked(source - 1, target - 1)
    swapped_before = ~monotone_before & is_linked(source_end, target - 1)
    monotone_after = is_last | is_linked(source_end, target_end)
    swapped_after = ~monotone_after & is_linked(source - 1, target_end)
    columns = []
    for monotone, swapped in ((monotone_before, swapped_before), (monotone_after, swapped_after)):
        for kind in (monotone, swapped, ~monotone & ~swapped):
            columns.append(np.bincount(pairs, weights=kind, minlength=count))
    return np.stack(columns, axis=1)


def orientation_scores(counts: Floats, *, smoothing: float = 0.5) -> Floats:
    """log p(o | f̄, ē) for `orientation_counts`, where p(o | f̄, ē) = (σ p(o) + c(o)) / (σ + Σ c) for orientation o.

    σ is `smoothing`, c(o) are the counts of the phrase pair, and p(o) is the share of o in the counts of all pairs.
    """
    scores = np.empty_like(counts)
    for columns in (slice(0, 3), slice(3, 6)):
        part = counts[:, columns]
        prior = (part.sum(axis=0) + 1) / (part.sum() + 3)
        scores[:, columns] = np.log((smoothing * prior + part) / (smoothing + part.sum(axis=1, keepdims=True)))
    return scores


class _Links:
    """Looks up whether a source and a target position of a corpus are linked (never if in different sentences)."""

    def __init__(self, corpus: AlignedCorpus) -> None:
        self.size = len(corpus.target) + 2
        self.keys = np.sort((corpus.links[:, 0] + 1) * self.size + corpus.links[:, 1] + 1)

    def __call__(self, source: Array, target: Array) -> Array:
        wanted = (source + 1) * self.size + target + 1
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        is_found: Array = self.keys[places] == wanted
        return is_found


def _is_first(remaining: Array, places: Array) -> Array:
    """Whether the words at `places` begin sentences; `remaining` counts the words from each to its sentence's end."""
    is_first: Array = (places == 0) | (remaining[places - 1] == 1)
    return is_first
