"""A trie of phrases, in which a few array operations look up all spans of a corpus or sentence."""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array

NONE = -1
"""The node of a phrase that the trie does not contain."""
ROOT = 0


class PhraseTrie(NamedTuple):
    """A trie of phrases (sequences of word ids) as a sorted array of keys. Node 0 is the empty phrase.

    Node n > 0 extends the phrase of its parent node by one word. Its key, `keys[n - 1]`, is `parent · size + word`,
    where `size` is the size of the vocabulary. Parents have smaller numbers than their children.

    >>> trie.words(trie.spans(ids, maximum=7)[1, 4]) == tuple(ids[4:6])
    True
    """

    keys: Array  # int64, ascending
    size: int  # of the vocabulary

    @property
    def nodes(self) -> int:
        """The number of nodes, the root included."""
        return len(self.keys) + 1

    def children(self, parents: Array, words: Array) -> Array:
        """The nodes of the phrases of `parents`, each extended by one of `words`; NONE if not in the trie."""
        wanted = parents.astype(np.int64) * self.size + words
        if not len(self.keys):
            return np.full(len(wanted), NONE)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        is_found = (self.keys[places] == wanted) & (parents >= 0) & (words < self.size)
        return np.where(is_found, places + 1, NONE)

    def spans(self, ids: Array, *, maximum: int) -> Array:
        """The nodes [maximum,N] of all spans of a sentence of N words: [n − 1, i] is the span of n words from word i.

        Spans that are not in the trie, or would go beyond the sentence, have the node NONE.
        """
        ids = ids.astype(np.int64)
        nodes = np.full((maximum, len(ids)), NONE, dtype=np.int64)
        current = np.full(len(ids), ROOT)
        for length in range(1, min(maximum, len(ids)) + 1):
            count = len(ids) - length + 1
            current = self.children(current[:count], ids[length - 1 :])
            nodes[length - 1, :count] = current
        return nodes

    def words(self, node: int) -> tuple[int, ...]:
        """The words of a node's phrase."""
        words = []
        while node != ROOT:
            node, word = divmod(int(self.keys[node - 1]), self.size)
            words.append(word)
        return tuple(reversed(words))

    def lengths(self) -> Array:
        """The number of words of each node's phrase."""
        parents = self.keys // self.size
        lengths = np.zeros(self.nodes, dtype=np.int64)
        ancestors = np.concatenate([[ROOT], np.arange(1, self.nodes)])
        while np.any(ancestors != ROOT):
            lengths += ancestors != ROOT
            ancestors = np.where(ancestors == ROOT, ROOT, parents[ancestors - 1])
        return lengths

    def pruned(self, used: Array) -> tuple["PhraseTrie", Array]:
        """The trie of the nodes `used` and their prefixes, and the new number of each node, NONE if it is removed."""
        parents = np.concatenate([[ROOT], self.keys // self.size])
        is_kept = np.zeros(self.nodes, dtype=bool)
        is_kept[used] = is_kept[ROOT] = True
        level = np.unique(used)
        while len(level := level[level != ROOT]):
            level = np.unique(parents[level])
            is_kept[level] = True
        numbers = np.where(is_kept, np.cumsum(is_kept) - 1, NONE)
        kept = np.flatnonzero(is_kept[1:])
        keys = numbers[parents[kept + 1]] * self.size + self.keys[kept] % self.size
        return PhraseTrie(keys, self.size), numbers


def corpus_spans(ids: Array, remaining: Array, *, size: int, maximum: int) -> tuple[PhraseTrie, Array]:
    """The trie of all phrases of up to `maximum` words in a corpus, and the nodes [maximum,N] of its spans.

    `ids` are the N words of all sentences, and `remaining` is the number of words from each one to the end of its
    sentence. `size` is that of the vocabulary. [n − 1, i] is the node of the span of n words that begins at word i, or
    NONE if the span would go beyond its sentence.
    """
    ids = ids.astype(np.int64)
    keys: list[Array] = []
    nodes = np.full((maximum, len(ids)), NONE, dtype=np.int64)
    parents, count = np.full(len(ids), ROOT), 1
    for length in range(1, maximum + 1):
        starts = np.flatnonzero(remaining >= length)
        distinct, places = np.unique(parents[starts] * size + ids[starts + length - 1], return_inverse=True)
        keys.append(distinct)
        nodes[length - 1, starts] = parents[starts] = places + count
        count += len(distinct)
    return PhraseTrie(np.concatenate(keys), size), nodes
