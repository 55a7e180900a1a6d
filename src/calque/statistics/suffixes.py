"""The suffix model of unknown words: the tags of rare words with the same ending (Samuelsson 1993; Brants 2000, §2.3).

Letters: W words, C characters, Y tags, K nodes of the tree of suffixes.
"""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Floats


class Spellings(NamedTuple):
    """The characters of words."""

    characters: Array  # flat ids
    lengths: Array  # [W]

    def from_the_end(self, distance: int) -> Array:
        """The character [W] at a distance from the end of each word, 1 for the last; −1 where the word is shorter."""
        ends = np.cumsum(self.lengths)
        places = np.where(self.lengths >= distance, ends - distance, 0)
        found = self.characters[places] if len(self.characters) else places
        return np.where(self.lengths >= distance, found.astype(np.int64), -1)


class SuffixTree(NamedTuple):
    """P(tag | suffix) for all suffixes of the rare words: one tree per kind of word (lower case, capitalised).

    The nodes below `kinds` are the roots, one per kind. Node `kinds` + r is a child of node `keys[r] // characters`:
    its suffix has the character `keys[r] % characters` in front of its parent's suffix. Keys are ascending.
    """

    keys: Array  # int64 [K − kinds]
    probabilities: Floats  # [K,Y]
    kinds: int
    characters: int

    def find(self, spellings: Spellings, kinds: Array, *, longest: int) -> Array:
        """The node [W] of the longest suffix of each word that is in the tree of its kind."""
        nodes, is_suffix = kinds.astype(np.int64), np.ones(len(kinds), dtype=bool)
        for distance in range(1, longest + 1):
            character = spellings.from_the_end(distance)
            keys = nodes * self.characters + character
            places = np.searchsorted(self.keys, keys)
            found = self.keys[np.minimum(places, len(self.keys) - 1)] == keys if len(self.keys) else False
            is_suffix &= found & (character >= 0)
            nodes = np.where(is_suffix, places + self.kinds, nodes)
        return nodes


def grow_suffixes(
    spellings: Spellings, kinds: Array, tags: Array, *, priors: Floats, longest: int, characters: int
) -> SuffixTree:
    """The tree of the suffixes, up to `longest` characters, of words [W], given the kind and the tag of each word.

    The relative frequencies of a suffix are smoothed by the probabilities of the next shorter suffix, those of the
    empty suffix by P(t | kind). The latter follows from `priors` [kinds,Y], the joint probabilities of kind and tag.

        P(t | s) = (P̂(t | s) + θ P(t | s without its first character)) / (1 + θ)

    θ is the standard deviation of the probabilities of the tags (Brants 2000, §2.3).
    """
    theta = float(np.std(priors.sum(axis=0), ddof=1)) if priors.shape[1] > 1 else 1.0
    kind_count, tag_count = priors.shape
    nodes = kinds.astype(np.int64)
    conditional = priors / priors.sum(axis=1, keepdims=True)
    levels = [_smoothed(_pair_counts(nodes, tags, shape=(kind_count, tag_count)), conditional, theta=theta)]
    keys: list[Array] = []
    parents, first = levels[0], 0  # the probabilities of the nodes of the level above, and the number of the first one
    left = np.arange(len(nodes))  # the words that are long enough
    for distance in range(1, longest + 1):
        character = spellings.from_the_end(distance)[left]
        left, character = left[character >= 0], character[character >= 0]
        if not len(left):
            break
        level, places = np.unique(nodes[left] * characters + character, return_inverse=True)
        counts = _pair_counts(places, tags[left], shape=(len(level), tag_count))
        probabilities = _smoothed(counts, parents[level // characters - first], theta=theta)
        first = kind_count + sum(map(len, keys))
        nodes[left] = first + places
        keys.append(level)
        levels.append(probabilities)
        parents = probabilities
    ascending = np.concatenate(keys) if keys else np.zeros(0, dtype=np.int64)
    return SuffixTree(ascending, np.concatenate(levels), kind_count, characters)


def _pair_counts(rows: Array, columns: Array, *, shape: tuple[int, int]) -> Floats:
    counts: Floats = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape).astype(float)
    return counts


def _smoothed(counts: Floats, shorter: Floats, *, theta: float) -> Floats:
    """Each row's relative frequencies f, smoothed: (f + θ · `shorter`) / (1 + θ); `shorter` if all counts are 0."""
    totals = counts.sum(axis=1, keepdims=True)
    frequencies = np.divide(counts, totals, out=shorter.copy(), where=totals > 0)
    smoothed: Floats = (frequencies + theta * shorter) / (1 + theta)
    return smoothed
