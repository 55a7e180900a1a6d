"""The suffix model and the tables of a hidden Markov tagger, against dictionaries of strings."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from tests.unit.statistics.corpora import column

from calque.statistics.suffixes import Spellings, grow_suffixes
from calque.statistics.tag_tables import TableSettings, TaggedWords, count_tables, word_kinds

CHARACTERS = "????abcdABCD"  # by id; the first four are special pieces
IS_UPPER = np.array([character.isupper() for character in CHARACTERS])
LABELS = 3
LONGEST = 3


def spelled(words: Sequence[str]) -> Spellings:
    ids = [CHARACTERS.index(character) for word in words for character in word]
    return Spellings(np.array(ids, dtype=np.int64), np.array([len(word) for word in words], dtype=np.int64))


def random_words(seed: int, *, count: int = 200) -> list[str]:
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list(CHARACTERS[4:]), random.integers(0, 5))) for _ in range(count)]


def tag_of(word: str, random: np.random.Generator) -> int:
    return int(random.integers(0, LABELS)) if random.random() < 0.3 else sum(map(ord, word)) % LABELS


class PlainSuffixes:
    """P(tag | suffix) by the recursion of the paper, with counts of strings."""

    def __init__(self, words: Sequence[str], tags: Sequence[int], priors: np.ndarray, longest: int = LONGEST) -> None:
        self.longest = longest
        self.counts: dict[tuple[bool, str], Counter[int]] = defaultdict(Counter)
        for word, tag in zip(words, tags, strict=True):
            for size in range(min(longest, len(word)) + 1):
                self.counts[word[:1].isupper(), word[len(word) - size :]][tag] += 1
        self.priors = priors
        mean = 1 / LABELS
        self.theta = (sum((share - mean) ** 2 for share in priors.sum(axis=0)) / (LABELS - 1)) ** 0.5

    def probabilities(self, word: str) -> np.ndarray:
        is_upper = word[:1].isupper()
        shares = self.priors[int(is_upper)] / self.priors[int(is_upper)].sum()
        for size in range(min(self.longest, len(word)) + 1):
            counts = self.counts.get((is_upper, word[len(word) - size :]))
            if counts is None and size:
                break
            counts = counts or Counter()
            total = counts.total()
            found = np.array([counts[tag] / total for tag in range(LABELS)]) if total else shares
            shares = (found + self.theta * shares) / (1 + self.theta)
        return shares


def test_the_tree_equals_counts_of_strings(seed: int) -> None:
    random, words = np.random.default_rng(seed), random_words(seed)
    tags = [tag_of(word, random) for word in words]
    priors = random.dirichlet(np.ones(2 * LABELS)).reshape(2, LABELS)
    kinds = word_kinds(spelled(words), IS_UPPER)
    tree = grow_suffixes(
        spelled(words), kinds, np.array(tags), priors=priors, longest=LONGEST, characters=len(CHARACTERS)
    )
    assert (np.diff(tree.keys) > 0).all()
    np.testing.assert_allclose(tree.probabilities.sum(axis=1), 1)
    plain = PlainSuffixes(words, tags, priors)
    asked = ["", "a", "A", *words[:50], *random_words(seed + 1)]
    nodes = tree.find(spelled(asked), word_kinds(spelled(asked), IS_UPPER), longest=LONGEST)
    for word, node in zip(asked, nodes, strict=True):
        np.testing.assert_allclose(tree.probabilities[node], plain.probabilities(word), rtol=1e-9, err_msg=word)


def test_a_tree_without_words_has_roots_only() -> None:
    priors = np.array([[0.2, 0.3, 0.1], [0.1, 0.1, 0.2]])
    nothing = np.zeros(0, dtype=np.int64)
    tree = grow_suffixes(spelled([]), nothing, nothing, priors=priors, longest=4, characters=len(CHARACTERS))
    assert len(tree.keys) == 0
    np.testing.assert_allclose(tree.probabilities, priors / priors.sum(axis=1, keepdims=True))
    assert tree.find(spelled(["ab", "Ab"]), np.array([0, 1]), longest=4).tolist() == [0, 1]


@pytest.mark.parametrize("capitals", [True, False])
def test_words_have_their_own_frequencies_and_a_little_of_their_suffix(capitals: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    words = [word for word in random_words(seed, count=300) if word]
    vocabulary = ["<pad>", "<s>", "</s>", "<unk>", *sorted(set(words))[::2]]
    ids = [vocabulary.index(word) if word in vocabulary else 3 for word in words]
    tags = [tag_of(word, random) for word in words]
    cuts = range(0, len(words), 7)
    spellings = spelled(words)
    lengths = [spellings.lengths[cut : cut + 7].tolist() for cut in cuts]
    letters = [[CHARACTERS.index(letter) for word in words[cut : cut + 7] for letter in word] for cut in cuts]
    corpus = TaggedWords.of(
        column([ids[cut : cut + 7] for cut in cuts]),
        column([tags[cut : cut + 7] for cut in cuts]),
        characters=column(letters),
        word_lengths=column(lengths),
    )
    settings = TableSettings(order=2, capitals=capitals, suffix=LONGEST, rare=3, smoothing=0.25)
    tables = count_tables(corpus, sizes=(len(vocabulary), LABELS), is_upper=IS_UPPER, settings=settings)
    assert tables.transitions.shape == (((2 if capitals else 1) * LABELS + 1),) * 2

    joint = np.ones((2 if capitals else 1, LABELS))
    for word, tag in zip(words, tags, strict=True):
        joint[int(capitals and word[:1].isupper()), tag] += 1
    np.testing.assert_allclose(tables.states, joint / joint.sum())
    if capitals:
        totals = Counter(ids)
        rare = [(word, tag) for word, tag, id in zip(words, tags, ids, strict=True) if totals[id] <= 3 or id == 3]
        plain = PlainSuffixes([word for word, _ in rare], [tag for _, tag in rare], tables.states)
        for id, word in list(enumerate(vocabulary))[4:]:
            counts = np.array(
                [sum(w == word and t == tag for w, t in zip(words, tags, strict=True)) for tag in range(3)]
            )
            expected = (counts + 0.25 * plain.probabilities(word)) / (counts.sum() + 0.25)
            np.testing.assert_allclose(tables.words[id], expected, rtol=1e-9)
    np.testing.assert_allclose(tables.words.sum(axis=1), 1)
    assert (tables.words > 0).all()
