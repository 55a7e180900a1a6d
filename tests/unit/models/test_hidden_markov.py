"""The hidden Markov tagger against its equation with counts of strings, and against `calque.statistics`."""

from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.statistics.corpora import column
from torch.testing import assert_close

from calque.engine.hidden_markov_models import estimate_tagger, refuse_large
from calque.engine.tagger import Sentence, Tagger, tagger_sizes
from calque.errors import ConfigError, FolderError
from calque.folders.weights import load_weights_into, weights_of
from calque.models import hidden_markov
from calque.models.hidden_markov import HiddenMarkovConfig, HiddenMarkovTagger
from calque.models.tagger import TaggerSizes
from calque.statistics.hidden_markov import HiddenMarkov, log_likelihoods, most_likely_states, state_posteriors
from calque.statistics.suffixes import Spellings, grow_suffixes
from calque.statistics.tag_tables import TaggedWords, TagTables
from calque.tasks.tagging import TaggingConfig
from calque.text import FormsConfig, TaggerVocabularies, learn_vocabularies

NOUNS, VERBS = ("dog", "cats", "Rome", "walker", "walks", "talker"), ("walks", "walked", "talked", "sees")
CONFIGS = [
    HiddenMarkovConfig(order=order, capitals=capitals, suffix=3, rare=1000, smoothing=0.3)
    for order, capitals in product((1, 2, 3), (True, False))
]


def corpus(seed: int, *, count: int = 60) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences such as "the dog walks", with their tags; nouns and verbs share words and suffixes."""
    random, words, tags = np.random.default_rng(seed), [], []
    for _ in range(count):
        sentence, labels = [], []
        for _ in range(random.integers(1, 3)):
            if random.random() < 0.7:
                sentence.append(str(random.choice(["the", "The", "a"])))
                labels.append("D")
            sentence.append(str(random.choice(NOUNS)))
            labels.append("N")
            if random.random() < 0.8:
                sentence.append(str(random.choice(VERBS)))
                labels.append("V")
        words.append(sentence)
        tags.append(labels)
    return words, tags


class Built:
    """A tagger that is estimated from a small corpus, with its tables."""

    def __init__(self, config: HiddenMarkovConfig, seed: int) -> None:
        self.forms, self.tags = corpus(seed)
        self.vocabularies: TaggerVocabularies = learn_vocabularies(
            FormsConfig(), forms=self.forms, labels=self.tags, columns={}, characters=True
        )
        encoded = [self.vocabularies.encode(words, {}) for words in self.forms]
        tagged = TaggedWords.of(
            column([row.words for row in encoded]),
            column([self.vocabularies.label_ids(labels) for labels in self.tags]),
            characters=column([[id for word in row.characters for id in word] for row in encoded]),
            word_lengths=column([[len(word) for word in row.characters] for row in encoded]),
        )
        sizes = tagger_sizes(self.vocabularies, inputs=())
        assert self.vocabularies.characters is not None
        model, self.tables = estimate_tagger(
            tagged, config=config, sizes=sizes, characters=self.vocabularies.characters
        )
        self.model = model.double().eval()
        self.refill(self.tables)
        self.tagger = Tagger(self.model, self.vocabularies, config=config, task=TaggingConfig(labels="pos"))

    def refill(self, tables: TagTables) -> None:
        """The tables in double precision; the model was built in single precision."""
        names = {"transitions": tables.transitions, "states": tables.states, "words": tables.words}
        whole = {name: torch.from_numpy(table) for name, table in names.items()}
        whole["suffixes"] = torch.from_numpy(tables.suffixes.probabilities)
        self.model.fill({**whole, "suffix_keys": self.model.suffix_keys, "is_upper": self.model.is_upper})

    def joint(self, words: list[str], labels: tuple[int, ...]) -> float:
        """Π P(tₜ | tₜ₋₂, tₜ₋₁) P(tₜ | wₜ) / P(tₜ, cₜ) · P(end | …), from the tables and the spelling of the words."""
        tables, config, count = self.tables, self.model.config, len(self.vocabularies.labels)
        boundary = tables.transitions.shape[0] - 1
        assert self.vocabularies.characters is not None
        known = self.vocabularies.characters.pieces  # a letter that never occurred counts as lower case
        kinds = [int(config.capitals and word[0].isupper() and word[0] in known) for word in words]
        states = [kind * count + label for kind, label in zip(kinds, labels, strict=True)]
        padded = [boundary] * (config.order - 1) + states + [boundary]
        probability = 1.0
        for place in range(len(padded) - config.order + 1):
            probability *= float(tables.transitions[tuple(padded[place : place + config.order])])
        for word, kind, label in zip(words, kinds, labels, strict=True):
            probability *= self.share(word, kind)[label] / tables.states[kind, label]
        return probability

    def share(self, word: str, kind: int) -> np.ndarray:
        """P(label | word), or | its longest suffix that is in the tree."""
        (id,) = self.vocabularies.words.ids([word])
        if id != 3:
            return self.tables.words[id]
        assert self.vocabularies.characters is not None
        tree, node = self.tables.suffixes, kind
        keys = tree.keys.tolist()
        for letter in self.vocabularies.characters.ids(word)[::-1][: self.model.config.suffix]:
            if node * tree.characters + letter not in keys:
                break
            node = tree.kinds + keys.index(node * tree.characters + letter)
        return tree.probabilities[node]


SENTENCES = [["the", "dog", "walks"], ["Stalker"], ["Talker"], ["The", "walker", "talks", "Zebra"], ["qqq", "jumped"]]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_labels_and_probabilities_equal_enumeration(config: HiddenMarkovConfig, seed: int) -> None:
    built = Built(config, seed)
    tagged = built.tagger.tag(SENTENCES, marginals=True)
    labels = built.vocabularies.labels
    for words, found in zip(SENTENCES, tagged, strict=True):
        joint = {path: built.joint(words, path) for path in product(range(len(labels)), repeat=len(words))}
        total = sum(joint.values())
        assert found.labels == [labels[label] for label in max(joint, key=lambda path: joint[path])]
        assert found.marginals is not None
        for place, shares in enumerate(found.marginals):
            for label, name in enumerate(labels):
                expected = sum(value for path, value in joint.items() if path[place] == label) / total
                assert shares[name] == pytest.approx(expected, rel=1e-8)
        source = built.tagger.source(Sentence(words))
        scores = built.model(source)
        for path in list(joint)[::7]:
            loss = built.model.losses(scores, torch.tensor([path]), source.lengths)
            assert float(loss[0]) == pytest.approx(-log(joint[path] / total), rel=1e-8)


def test_bigrams_are_a_hidden_markov_model_of_the_words(seed: int) -> None:
    """That of `calque.statistics` with the same probabilities; the end is a symbol that only the last state has."""
    built = Built(HiddenMarkovConfig(order=2, capitals=False), seed)
    tables, labels = built.tables, len(built.vocabularies.labels)
    emissions = (tables.words / tables.states[0]).T
    emissions /= emissions.sum()  # a constant factor per word
    end = np.zeros((labels + 1, len(tables.words) + 1))
    end[:labels, :-1], end[labels, -1] = emissions, 1
    transitions = np.vstack([tables.transitions[:-1], np.eye(labels + 1)[-1]])
    model = HiddenMarkov(tables.transitions[-1], transitions, end)
    ids = [built.vocabularies.encode(words, {}).words for words in built.forms]
    sequences = column([[*row, len(tables.words)] for row in ids])
    assert np.isfinite(log_likelihoods(model, sequences)).all()
    best, posteriors = most_likely_states(model, sequences), state_posteriors(model, sequences)
    for found, states, shares in zip(built.tagger.tag(built.forms, marginals=True), best, posteriors, strict=True):
        assert built.vocabularies.label_ids(found.labels) == states[:-1].tolist()
        assert found.marginals is not None
        values = [list(word.values()) for word in found.marginals]
        np.testing.assert_allclose(values, shares[:-1, :labels], rtol=1e-7)


def test_rows_may_be_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(CONFIGS[4], 1)
    whole = built.tagger.tag(built.forms, marginals=True)
    monkeypatch.setattr(hidden_markov, "CELLS", 1)
    assert built.tagger.tag(built.forms, marginals=True) == whole


def test_unknown_words_and_capitals_are_recognised() -> None:
    tagger = Built(HiddenMarkovConfig(rare=1000), 3).tagger
    assert tagger.tag("the stalker blocked").labels == ["D", "N", "V"]
    most_frequent = Built(HiddenMarkovConfig(order=1, suffix=0, capitals=False), 3)
    assert set(most_frequent.tagger.tag("stalker blocked").labels) == {most_frequent.vocabularies.labels[0]}


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_weights_are_saved_and_loaded(config: HiddenMarkovConfig) -> None:
    built = Built(config, 2)
    weights = weights_of(built.model)
    other = HiddenMarkovTagger(config, sizes=built.model.sizes).double()
    load_weights_into(other, weights, origin="file")
    words = built.tagger.source(Sentence(SENTENCES[2]))
    assert_close(other(words), built.model(words))


def test_damaged_tables_are_rejected(tmp_path: Path) -> None:
    built = Built(CONFIGS[0], 2)
    keys = built.model.suffix_keys
    for name, table, message in (
        ("suffix_keys", keys.flip(0), "suffix_keys: not in ascending order"),
        ("suffix_keys", keys + 10**6, "suffix_keys: a suffix extends one that does not exist"),
        ("words", -built.model.words, "words: a probability above 1"),
    ):
        weights = weights_of(built.model) | {name: table}
        with pytest.raises(FolderError, match=f"do not fit the model: {message}"):
            load_weights_into(HiddenMarkovTagger(CONFIGS[0], sizes=built.model.sizes), weights, origin=str(tmp_path))


def test_tables_that_are_too_large_are_refused() -> None:
    config = HiddenMarkovConfig()
    with pytest.raises(ConfigError, match=r"set model\.order = 2 or model\.capitals = false"):
        refuse_large(config, sizes=TaggerSizes(1000, 400, 50))
    with pytest.raises(ConfigError, match=r"text\.minimum_count = 2"):
        refuse_large(HiddenMarkovConfig(order=2), sizes=TaggerSizes(1 << 20, 400, 50))
    refuse_large(config, sizes=TaggerSizes(100_000, 300, 50))


def test_label_transitions_are_probabilities(seed: int) -> None:
    for config in CONFIGS:
        built = Built(config, seed)
        weights, start, end = (table.exp() for table in built.model.label_transitions())
        assert_close(weights.sum(dim=1) + end, torch.ones(3).double())
        if config.order > 1:
            assert float(start.sum()) == pytest.approx(1, abs=0.1), "no sentence is empty, but one could be"
        if config.order == 2 and not config.capitals:
            assert_close(weights, torch.from_numpy(built.tables.transitions[:-1, :-1]))


def test_tables_stay_in_single_precision() -> None:
    model = Built(CONFIGS[0], 1).model.to(torch.bfloat16)
    assert {table.dtype for table in model.parameters()} <= {torch.float64, torch.long, torch.bool}


def test_suffixes_are_found_as_by_the_estimation(seed: int) -> None:
    """Words of two letters, many of them shorter than the longest suffix: no letter is read twice."""
    generator, letters = np.random.default_rng(seed), 2
    words = [generator.integers(0, letters, generator.integers(1, 5)) for _ in range(12)]
    words = [np.zeros(1, dtype=np.int64), np.zeros(3, dtype=np.int64), *words]
    lengths = np.array([len(word) for word in words])
    grown = Spellings(np.concatenate(words[1:]), lengths[1:])
    kinds = np.zeros(len(words), dtype=np.int64)
    tree = grow_suffixes(grown, kinds[1:], kinds[1:], priors=np.full((1, 2), 0.5), longest=4, characters=letters)
    sizes = TaggerSizes(5, 2, letters, {})
    model = HiddenMarkovTagger(HiddenMarkovConfig(order=1, capitals=False, suffix=4), sizes=sizes)
    model.take_sizes({"suffix_keys": torch.Size(tree.keys.shape)})
    model.suffix_keys.data = torch.from_numpy(tree.keys)
    padded = torch.randint(0, letters, (1, len(words), 5), generator=torch.Generator().manual_seed(seed))
    for place, word in enumerate(words):
        padded[0, place, : len(word)] = torch.from_numpy(word)
    found = model._suffix_nodes(padded, torch.from_numpy(lengths)[None], torch.from_numpy(kinds)[None])
    expected = tree.find(Spellings(np.concatenate(words), lengths), kinds, longest=4)
    assert found[0].tolist() == expected.tolist()
