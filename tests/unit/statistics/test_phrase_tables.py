"""Phrase extraction against its definition, and the scores of phrase tables against plain counting."""

from collections import Counter, defaultdict
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from tests.unit.statistics.corpora import column

from calque.statistics.lexicon import LexicalTable
from calque.statistics.phrase_extraction import AlignedCorpus, aligned_corpus, extract_phrases
from calque.statistics.phrase_scores import (
    discounted_frequencies,
    kneser_ney_discounts,
    lexical_weights,
    orientation_counts,
    orientation_scores,
    relative_frequencies,
)
from calque.statistics.phrase_table import PHRASE_SCORES, PhraseTable, extract_table, word_table
from calque.statistics.phrase_trie import NONE, corpus_spans

Links = list[tuple[int, int]]
WORDS = 5


def random_pairs(
    random: Random, *, pairs: int, longest: int = 6, density: float = 0.2
) -> tuple[list[list[int]], list[list[int]], list[Links]]:
    """Sentences of few words, some empty, with random links, so that phrases repeat and many words have no link."""
    sources = [[random.randrange(WORDS) for _ in range(random.randint(0, longest))] for _ in range(pairs)]
    targets = [[random.randrange(WORDS) for _ in range(random.randint(0, longest))] for _ in range(pairs)]
    links = [
        [link for link in product(range(len(source)), range(len(target))) if random.random() < density]
        for source, target in zip(sources, targets, strict=True)
    ]
    return sources, targets, links


def is_consistent(links: Links, source: range, target: range) -> bool:
    """The definition (Koehn et al. 2003, §4.1.1): there is a link inside, and none leads out."""
    inside = any(i in source and j in target for i, j in links)
    return inside and all((i in source) == (j in target) for i, j in links)


def all_spans(length: int, maximum: int) -> list[range]:
    return [range(i, k) for i in range(length) for k in range(i + 1, min(length, i + maximum) + 1)]


def phrases_by_definition(
    source: list[int], target: list[int], links: Links, maximum: int
) -> list[tuple[range, range]]:
    spans = product(all_spans(len(source), maximum), all_spans(len(target), maximum))
    return [pair for pair in spans if is_consistent(links, *pair)]


def corpus_of(sources: list[list[int]], targets: list[list[int]], links: list[Links]) -> AlignedCorpus:
    return aligned_corpus(column(sources), column(targets), links)


@pytest.mark.parametrize("maximum", [1, 3, 7])
def test_extraction_is_the_definition(seed: int, maximum: int) -> None:
    random = Random(f"{seed} {maximum}")
    found = 0
    for _ in range(60):
        sources, targets, links = random_pairs(
            random, pairs=random.randint(1, 5), density=random.choice([0.0, 0.1, 0.2, 0.4])
        )
        expected = []
        source_start = target_start = 0
        for source, target, pair in zip(sources, targets, links, strict=True):
            for left, right in phrases_by_definition(source, target, pair, maximum):
                expected.append((left.start + source_start, len(left), right.start + target_start, len(right)))
            source_start, target_start = source_start + len(source), target_start + len(target)
        occurrences = extract_phrases(corpus_of(sources, targets, links), maximum=maximum)
        assert sorted(zip(*(part.tolist() for part in occurrences), strict=True)) == sorted(expected)
        found += len(expected)
    assert found > 20


def test_spans_are_nodes_of_a_trie(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 7, 30)
    ids = random.integers(0, 4, int(lengths.sum()))
    remaining = np.concatenate([np.arange(length, 0, -1) for length in lengths])
    trie, nodes = corpus_spans(ids, remaining, size=4, maximum=3)
    assert (trie.keys == np.unique(trie.keys)).all()
    for length, start in product((1, 2, 3), range(len(ids))):
        if remaining[start] < length:
            assert nodes[length - 1, start] == NONE
        else:
            assert trie.words(nodes[length - 1, start]) == tuple(ids[start : start + length].tolist())
    for node in range(trie.nodes):
        words = np.array(trie.words(node), dtype=np.int64)
        assert trie.lengths()[node] == len(words)
        if len(words):
            assert trie.spans(words, maximum=3)[len(words) - 1, 0] == node
    used = random.choice(trie.nodes, 5)
    pruned, numbers = trie.pruned(used)
    assert [pruned.words(numbers[node]) for node in used] == [trie.words(node) for node in used]
    prefixes = {trie.words(node)[:size] for node in used for size in range(len(trie.words(node)) + 1)}
    assert {pruned.words(node) for node in range(pruned.nodes)} == prefixes | {()}
    assert (trie.spans(np.array([9, 0]), maximum=3)[:, 0] == NONE).all(), "unknown words have no node"


def entries(table: PhraseTable) -> dict[tuple[tuple[int, ...], tuple[int, ...]], np.ndarray]:
    found = {}
    for node in range(table.sources.nodes):
        for entry in range(table.offsets[node], table.offsets[node + 1]):
            found[table.sources.words(node), table.targets.words(table.translations[entry])] = table.scores[entry]
    return found


def test_scores_are_counted_plainly(seed: int) -> None:
    random = Random(seed)
    sources, targets, links = random_pairs(random, pairs=25)
    links[0] = links[0] or [(0, 0)]
    sources[0], targets[0] = sources[0] or [0], targets[0] or [0]
    counts: Counter = Counter()
    weights: dict = defaultdict(list)
    linked = Counter((f[i], e[j]) for f, e, pair in zip(sources, targets, links, strict=True) for i, j in pair)
    lonely = [
        Counter(words[k] for words, pair in zip(side, links, strict=True) for k in range(len(words))
                if all(link[of] != k for link in pair))
        for side, of in ((sources, 0), (targets, 1))
    ]  # fmt: skip

    def word_probability(word: int, given: int | None, *, of: int) -> float:
        if given is None:
            return lonely[of][word] / lonely[of].total()
        pair = (given, word) if of == 1 else (word, given)
        return linked[pair] / sum(count for link, count in linked.items() if link[1 - of] == given)

    for source, target, pair in zip(sources, targets, links, strict=True):
        for left, right in phrases_by_definition(source, target, pair, 7):
            key = tuple(source[i] for i in left), tuple(target[j] for j in right)
            counts[key] += 1
            both = []
            for of, span, words, others in ((0, left, source, target), (1, right, target, source)):
                means = []
                for place in span:
                    given = [link[1 - of] for link in pair if link[of] == place]
                    shares = [word_probability(words[place], others[k], of=of) for k in given]
                    means.append(sum(shares) / len(shares) if given else word_probability(words[place], None, of=of))
                both.append(prod(means))
            weights[key].append(both)
    table = extract_table(corpus_of(sources, targets, links), sizes=(WORDS, WORDS), discount="none", reordering=False)
    found = entries(table)
    assert set(found) == set(counts)
    for (source_phrase, target_phrase), scores in found.items():
        count = counts[source_phrase, target_phrase]
        given_target = sum(value for key, value in counts.items() if key[1] == target_phrase)
        given_source = sum(value for key, value in counts.items() if key[0] == source_phrase)
        best = np.array(weights[source_phrase, target_phrase]).max(axis=0)
        expected = {
            "phrase_source": count / given_target,
            "phrase_target": count / given_source,
            "lexical_source": best[0],
            "lexical_target": best[1],
        }
        assert np.exp(scores) == pytest.approx([expected[name] for name in PHRASE_SCORES], rel=1e-4)


def test_a_limit_keeps_the_most_likely_translations(seed: int) -> None:
    sources, targets, links = random_pairs(Random(seed), pairs=40)
    links[0], sources[0], targets[0] = [(0, 0)], [0], [0]
    corpus = corpus_of(sources, targets, links)
    whole = extract_table(corpus, sizes=(WORDS, WORDS))
    limited = extract_table(corpus, sizes=(WORDS, WORDS), limit=2)
    assert np.diff(limited.offsets).max() == 2
    column_of = PHRASE_SCORES.index("phrase_target")
    for start, stop, kept in zip(whole.offsets, whole.offsets[1:], np.diff(limited.offsets), strict=False):
        scores = whole.scores[start:stop, column_of]
        assert (np.diff(scores) <= 0).all(), "most likely first"
        assert kept == min(2, stop - start)


def test_discounts(seed: int) -> None:
    """Discounted frequencies sum to less than one over the pairs seen: what is missing belongs to unseen pairs."""
    random = np.random.default_rng(seed)
    pairs = np.unique(random.integers(0, 12, 60) * 20 + random.integers(0, 20, 60))
    counts = random.geometric(0.5, len(pairs))
    given, other = pairs // 20, pairs % 20
    plain = np.bincount(given, weights=np.exp(relative_frequencies(given, counts)))
    assert plain[plain > 0] == pytest.approx(1)
    discounted = np.exp(discounted_frequencies(given, other, counts))
    sums = np.bincount(given, weights=discounted)
    assert (sums[np.unique(given)] < 1).all() and (discounted > 0).all()
    discounts = kneser_ney_discounts(counts)
    shares = {name: np.mean([len(given[other == name])]) / len(pairs) for name in np.unique(other)}
    for row in range(len(pairs)):
        mine = given == given[row]
        total = counts[mine].sum()
        freed = sum(discounts[min(count, 3)] for count in counts[mine]) / total
        expected = (counts[row] - discounts[min(counts[row], 3)]) / total + freed * shares[other[row]]
        assert discounted[row] == pytest.approx(expected)
    assert kneser_ney_discounts(np.array([1] * 6 + [2] * 3 + [3] * 2 + [4])) == pytest.approx(
        [0, 1 - 2 * 0.5 * 3 / 6, 2 - 3 * 0.5 * 2 / 3, 3 - 4 * 0.5 * 1 / 2]
    )
    assert kneser_ney_discounts(np.array([7, 8])).tolist() == [0, 0.5, 1, 1.5], "not determined by the counts"


def test_orientations_by_definition(seed: int) -> None:
    random = Random(seed)
    sources, targets, links = random_pairs(random, pairs=20)
    links[0], sources[0], targets[0] = [(0, 1), (1, 0)], [0, 1], [1, 0]
    corpus = corpus_of(sources, targets, links)
    occurrences = extract_phrases(corpus)
    counts = orientation_counts(
        corpus, occurrences, pairs=np.arange(len(occurrences.source)), count=len(occurrences.source)
    )
    expected = {}
    source_start = target_start = 0
    for source, target, pair in zip(sources, targets, links, strict=True):
        linked = {*pair, (-1, -1), (len(source), len(target))}
        for left, right in phrases_by_definition(source, target, pair, 7):
            row = np.zeros(6)
            before = (left.start - 1, right.start - 1), (left.stop, right.start - 1)
            after = (left.stop, right.stop), (left.start - 1, right.stop)
            for offset, (monotone, swapped) in ((0, before), (3, after)):
                row[offset + (0 if monotone in linked else 1 if swapped in linked else 2)] = 1
            key = left.start + source_start, len(left), right.start + target_start, len(right)
            expected[key] = row.tolist()
        source_start, target_start = source_start + len(source), target_start + len(target)
    keys = zip(*(part.tolist() for part in occurrences), strict=True)
    assert dict(zip(keys, counts.tolist(), strict=True)) == expected
    assert counts.sum(axis=0).min() > 0, "every orientation occurs"
    scores = np.exp(orientation_scores(counts))
    assert scores[:, :3].sum(axis=1) == pytest.approx(1) and scores[:, 3:].sum(axis=1) == pytest.approx(1)


def test_a_word_table_has_both_lexicons() -> None:
    forward = LexicalTable(np.array([0, 2, 2, 3, 3]), np.array([1, 0, 1]), np.array([0.7, 0.3, 1.0]))
    backward = LexicalTable(np.array([0, 0, 2, 3]), np.array([2, 0, 0]), np.array([0.6, 0.4, 1.0]))
    table = word_table(forward, backward, sizes=(3, 2), best=5)
    found = {(*source, *target): np.exp(scores) for (source, target), scores in entries(table).items()}
    assert set(found) == {(0, 1), (0, 0), (2, 1)}
    assert found[0, 1] == pytest.approx([0.4, 0.7]), "t(source | target), t(target | source)"
    assert found[2, 1] == pytest.approx([0.6, 1.0])
    assert found[0, 0] == pytest.approx([0.4, 0.3]), "a missing entry is as likely as the least likely one"
    assert [
        entry for *_, entry in word_table(forward, backward, sizes=(3, 2), best=1).phrases(np.array([0, 1, 2]))
    ] == [
        slice(0, 1),
        slice(1, 2),
    ]


def test_of_several_alignments_of_a_phrase_pair_the_best_counts() -> None:
    weights = np.log(np.array([0.5, 0.2, 0.1, 0.9, 0.4, 0.3]))
    starts, lengths, pairs = np.array([3, 0, 2]), np.array([2, 2, 1]), np.array([0, 0, 1])
    found = lexical_weights(weights, starts, lengths, pairs=pairs, count=2)
    assert np.exp(found) == pytest.approx([0.9 * 0.4, 0.1]), "not that of the last occurrence"
