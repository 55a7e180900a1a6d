"""Word alignments and lexicons of corpora whose alignment is known."""

import numpy as np
import pytest
from tests.unit.statistics.corpora import column, random_corpus, translated

from calque.statistics.word_alignment import AlignmentSettings, align_words, train_lexicon


@pytest.mark.parametrize("model", ["ibm1", "hmm"])
def test_known_alignments_are_found(model: str, seed: int) -> None:
    source, target, gold = translated(seed)
    aligned = align_words(source, target, settings=AlignmentSettings(model))  # type: ignore[arg-type]
    links = [set(aligned.links(pair)) for pair in range(len(gold))]
    right = sum(len(found & true) for found, true in zip(links, gold, strict=True))
    assert right >= 0.9 * sum(map(len, gold))
    assert aligned.pairs == len(gold)


def test_the_hmm_tells_repeated_words_apart_and_ibm1_does_not(seed: int) -> None:
    """The sentences are of two words only; what is which of the equal ones, only their order can say."""
    random = np.random.default_rng(seed)
    rows = [random.integers(0, 2, random.integers(3, 9)).tolist() for _ in range(300)]
    errors = {}
    for model in ("ibm1", "hmm"):
        settings = AlignmentSettings(model, empty=0.05)  # type: ignore[arg-type]
        aligned = align_words(column(rows), column(rows), settings=settings)
        wrong = sum(link[0] != link[1] for pair in range(len(rows)) for link in aligned.links(pair))
        errors[model] = wrong / sum(map(len, rows))
    assert errors["hmm"] < 0.05 < 0.3 < errors["ibm1"]


def test_pairs_that_are_empty_or_too_long_have_no_links() -> None:
    source = column([[1, 2], [], [1], [1, 2, 3], [2]])
    target = column([[3, 4], [3], [], [3, 4], [4] * 4])
    aligned = align_words(source, target, settings=AlignmentSettings(maximum=2))
    assert aligned.pairs == 1
    assert [aligned.links(pair) for pair in (1, 2, 3, 4)] == [[]] * 4
    assert aligned.offsets.tolist() == [0, 2, 3, 3, 5, 9]


def test_the_lexicon_has_the_likely_translations_in_order() -> None:
    source, target, _ = translated(3)
    table = train_lexicon(source, target, sources=50, targets=200)
    assert table.sources == 50 and len(table.offsets) == 52
    for word in range(40):
        targets, probabilities = table.best(word, 3)
        assert targets[0] == word + 100 and len(targets) <= 3
        assert (np.diff(table.best(word)[1]) <= 0).all()
        assert 0.9 < table.best(word)[1].sum() <= 1 + 1e-9
        assert (probabilities >= 1e-4).all()
    assert table.best(45)[0].size == 0, "a word that does not occur"
    assert table.best(table.sources)[0].size > 0, "the empty word"


def test_nothing_is_left_out_of_a_lexicon_without_a_minimum() -> None:
    """Rows are distributions, and the order is that of probability, then of ids."""
    source, target = random_corpus(11)
    table = train_lexicon(source, target, minimum=0.0)
    for word in range(table.sources + 1):
        targets, probabilities = table.best(word)
        assert probabilities.sum() == pytest.approx(1)
        assert sorted(zip(-probabilities, targets, strict=True)) == list(zip(-probabilities, targets, strict=True))
        assert len(set(targets.tolist())) == len(targets)


def test_ids_from_a_memory_map_are_the_same(tmp_path: object) -> None:
    source, target = random_corpus(12)
    mapped = []
    for name, side in (("source", source), ("target", target)):
        path = f"{tmp_path}/{name}"
        side.values.tofile(path)
        mapped.append(side._replace(values=np.memmap(path, dtype=side.values.dtype, mode="r")))
    for one, other in zip(train_lexicon(source, target), train_lexicon(*mapped), strict=True):
        assert one.tobytes() == other.tobytes()
