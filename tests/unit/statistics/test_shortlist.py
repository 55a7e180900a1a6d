"""Shortlists: the frequent pieces, a sample of the others, and the likely translations of each source piece."""

import numpy as np
import pytest

from calque.data.store import Store, store_of_pairs
from calque.statistics import shortlist as module
from calque.statistics.shortlist import build_shortlist
from calque.statistics.word_alignment import train_lexicon
from calque.text import EOS, PIECES, UNK, Vocabulary

SOURCE = Vocabulary([*PIECES, *(f"s{number}" for number in range(30)), "same", "unseen"])
TARGET = Vocabulary([*PIECES, *(f"t{number}" for number in range(40)), "same", "never"])


def corpus(seed: int, *, pairs: int = 300) -> Store:
    """Source piece s is mostly translated by target piece s; low ids are frequent."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(pairs):
        source = 4 + np.minimum(random.geometric(0.15, size=random.integers(1, 8)), 29)
        target = np.where(random.random(len(source)) < 0.8, source, random.integers(4, 44, size=len(source)))
        rows.append((source.tolist(), random.permutation(target).tolist()))
    return store_of_pairs(rows)


@pytest.mark.parametrize(("frequent", "best"), [(5, 1), (12, 3), (1, 100)])
def test_a_sentences_list_is_what_the_lexicon_says(frequent: int, best: int, seed: int) -> None:
    store = corpus(seed)
    table = build_shortlist(store, source=SOURCE, target=TARGET, frequent=frequent, best=best)
    counts = np.bincount(store["target"].values, minlength=len(TARGET))
    counts[EOS] = len(store)
    most = sorted(range(len(TARGET)), key=lambda id: (-counts[id], id))[:frequent]
    assert table.frequent.tolist() == sorted({*most, EOS, UNK})
    lexicon = train_lexicon(store["source"], store["target"], sources=len(SOURCE), targets=len(TARGET))
    for source in ([4], [5, 9, 5, 20], [33, SOURCE.id("same")], []):
        likely = {int(id) for piece in source for id in lexicon.best(piece, best)[0]}
        same = {TARGET.id(SOURCE.piece(piece)) for piece in source}
        expected = (likely | same) - {*table.frequent.tolist()}
        assert table.own(source).tolist() == sorted(expected)
        assert table.own(source, further=[EOS, 43]).tolist() == sorted(expected | ({43} - {*table.frequent.tolist()}))


def test_a_piece_that_is_a_target_too_can_be_copied(seed: int) -> None:
    table = build_shortlist(corpus(seed), source=SOURCE, target=TARGET, frequent=5, best=3)
    assert table.own([SOURCE.id("same")]).tolist() == [TARGET.id("same")]
    assert table.own([SOURCE.id("unseen")]).tolist() == []


def test_the_sample_is_of_the_others(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(module, "SAMPLE", 7)
    table = build_shortlist(corpus(seed), source=SOURCE, target=TARGET, frequent=10, best=2)
    assert len({*table.sample.tolist()}) == 7
    assert not {*table.sample.tolist()} & {*table.frequent.tolist()}
    assert max(table.sample) < len(TARGET)
    monkeypatch.setattr(module, "SAMPLE", 1000)
    table = build_shortlist(corpus(seed), source=SOURCE, target=TARGET, frequent=10, best=2)
    assert len(table.sample) + len(table.frequent) == len(TARGET), "all others"


def test_pieces_that_do_not_occur_are_not_frequent(seed: int) -> None:
    table = build_shortlist(corpus(seed), source=SOURCE, target=TARGET, frequent=10_000, best=2)
    assert TARGET.id("never") not in table.frequent
    assert len(table.targets) == 1, "only the piece that is the same on both sides is left"
