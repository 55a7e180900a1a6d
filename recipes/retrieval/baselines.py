"""Retrieves translations without a network: by shared character n-grams, and by a lexicon of IBM Model 1.

Letters: N sentences of each side, S source words, T target words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.data.store import pack, store_in_memory
from calque.evaluation.retrieval import Ranks, partner_ranks
from calque.statistics.word_alignment import train_lexicon

Array = NDArray[Any]

NGRAMS = (3, 4, 5)
FLOOR = 1e-6  # the probability of a word that the lexicon does not expect


def words(text: str) -> list[str]:
    """The lowercased words and punctuation marks of a text."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def ngram_vectors(texts: Sequence[Sequence[str]], *, known: Iterable[str]) -> list[Array]:
    """tf-idf vectors of character n-grams for each list of texts, over the n-grams of all of them.

    Document frequencies are counted in the `known` texts. Languages share the n-grams of names, numbers and cognates.
    """
    frequencies = Counter(ngram for text in known for ngram in set(_ngrams(text)))
    total = max(1, sum(1 for _ in known))
    counted = [[Counter(_ngrams(text)) for text in side] for side in texts]
    shared = set.intersection(*({ngram for counts in side for ngram in counts} for side in counted))
    columns = {ngram: column for column, ngram in enumerate(sorted(shared))}
    vectors = []
    for side in counted:
        rows = np.zeros((len(side), len(columns)))
        for row, counts in enumerate(side):
            norm = 0.0
            for ngram, count in counts.items():
                weight = (1 + np.log(count)) * np.log((1 + total) / (1 + frequencies[ngram]))
                norm += weight**2
                if ngram in columns:
                    rows[row, columns[ngram]] = weight
            rows[row] /= max(norm, 1e-12) ** 0.5
        vectors.append(rows)
    return vectors


def ngram_ranks(sources: Sequence[str], targets: Sequence[str], *, known: Sequence[str]) -> Ranks:
    """The ranks of partners by the cosine of their character n-grams."""
    source, target = ngram_vectors([sources, targets], known=known)
    return partner_ranks(source, target, sources=sources, targets=targets)


def lexicon_ranks(
    sources: Sequence[str], targets: Sequence[str], *, train_sources: Sequence[str], train_targets: Sequence[str]
) -> Ranks:
    """The ranks of partners by IBM Model 1: the mean log-probability per word, summed over both directions.

    log P(f | e) / |f| = 1/|f| Σⱼ log (1/(|e| + 1) Σᵢ t(fⱼ | eᵢ)), where e₀ is the empty word (Brown et al. 1993).
    """
    there = _log_probs(sources, targets, train_sources=train_sources, train_targets=train_targets)
    back = _log_probs(targets, sources, train_sources=train_targets, train_targets=train_sources)
    scores = there + back.T
    # partner_ranks multiplies vectors: rows of the scores with unit vectors give the scores themselves
    unit = np.eye(len(sources))
    to_target = partner_ranks(scores, unit, sources=sources, targets=targets).to_target
    to_source = partner_ranks(scores.T, unit, sources=targets, targets=sources).to_target
    return Ranks(to_target, to_source)


def _log_probs(
    sources: Sequence[str], targets: Sequence[str], *, train_sources: Sequence[str], train_targets: Sequence[str]
) -> Array:
    """[N,N], the mean log-probability per word of every target given every source."""
    source_ids, target_ids = _vocabulary(train_sources), _vocabulary(train_targets)
    columns = store_in_memory(
        {
            "source": pack([[source_ids[word] for word in words(text)] for text in train_sources]),
            "target": pack([[target_ids[word] for word in words(text)] for text in train_targets]),
        }
    )
    table = train_lexicon(
        columns["source"], columns["target"], sources=len(source_ids), targets=len(target_ids), minimum=1e-5
    )
    needed = {word: row for row, word in enumerate(sorted({word for text in targets for word in words(text)}))}
    by_id = {target_ids[word]: row for word, row in needed.items() if word in target_ids}
    expected = np.zeros((len(needed), len(sources)))  # the probability of each word of the targets by each source
    for column, text in enumerate(sources):
        ids = [source_ids[word] for word in words(text) if word in source_ids]
        for source in (*ids, table.sources):
            for target, probability in zip(*table.best(source), strict=True):
                if (row := by_id.get(int(target))) is not None:
                    expected[row, column] += probability / (len(ids) + 1)
    logs = np.log(np.maximum(expected, FLOOR))
    means = np.zeros((len(targets), len(needed)))
    for row, text in enumerate(targets):
        for word in words(text):
            means[row, needed[word]] += 1 / max(1, len(words(text)))
    return (means @ logs).T


def _ngrams(text: str) -> Iterable[str]:
    padded = f" {' '.join(words(text))} "
    return (padded[start : start + size] for size in NGRAMS for start in range(len(padded) - size + 1))


def _vocabulary(texts: Iterable[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for text in texts:
        for word in words(text):
            ids.setdefault(word, len(ids))
    return ids
