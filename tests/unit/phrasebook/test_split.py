"""The laws of the corpus: what training never shows, and what the test set never hides."""

import subprocess
import sys
from functools import cache
from itertools import permutations
from random import Random

import pytest

from calque_phrasebook import Pair, Phrasebook, phrasebook
from calque_phrasebook.grammar.sentences import Sentence, draw
from calque_phrasebook.split import combinations, held_out
from calque_phrasebook.surface import LANGUAGES, say, words

PAIRS = 20_000


@cache
def book() -> Phrasebook:
    return phrasebook(source="zh", target="en", pairs=PAIRS)


@cache
def meanings() -> dict[str, Sentence]:
    """Gives the meaning of every Chinese sentence of the corpus, drawn again from its seed."""
    wanted = {pair.source for part in book() for pair in part}
    random, found = Random(0), dict[str, Sentence]()
    while len(found) < len(wanted):
        meaning = draw(random)
        text = say(meaning, language="zh")
        if text in wanted:
            found[text] = meaning
    return found


def test_sizes_and_pairs() -> None:
    assert [len(part) for part in book()] == [PAIRS, 1000, 1000]
    pairs = [pair for part in book() for pair in part]
    assert len({pair.source for pair in pairs}) == len({pair.target for pair in pairs}) == len(pairs)
    assert all(say(meanings()[pair.source], language="en") == pair.target for pair in pairs)


def test_every_test_sentence_combines_what_training_never_does() -> None:
    trained = {c for pair in book().train for c in combinations(meanings()[pair.source])}
    assert not any(held_out(c) for c in trained)
    assert not any(held_out(c) for pair in book().valid for c in combinations(meanings()[pair.source]))
    for pair in book().test:
        assert any(held_out(c) and c not in trained for c in combinations(meanings()[pair.source])), pair


def test_clauses_and_arguments_are_both_held_out() -> None:
    tested = [c for pair in book().test for c in combinations(meanings()[pair.source]) if held_out(c)]
    kinds = {c[0] for c in tested}
    assert {"object", "place", "quality", "because", "although", "report", "goal", "companion"} <= kinds


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_the_test_set_is_trained(language: str) -> None:
    target = {"zh": "en", "en": "de", "de": "zh"}[language]
    corpus = phrasebook(source=language, target=target, pairs=PAIRS)  # type: ignore[arg-type]
    trained = {token for pair in corpus.train for text in pair[:2] for token in _tokens(text)}
    tested = {token for pair in corpus.test for text in pair[:2] for token in _tokens(text)}
    assert tested <= trained
    if language == "zh":
        assert _chinese_words(corpus.test) <= _chinese_words(corpus.train)


def _tokens(text: str) -> list[str]:
    """Gives words without marks and case, or the characters of Chinese."""
    if any("一" <= character <= "鿿" for character in text):
        return list(text)
    return text.rstrip(".?").replace(",", "").lower().split()


def _chinese_words(pairs: list[Pair]) -> set[str]:
    return {token for pair in pairs for token in words(meanings()[pair.source], language="zh")}


@pytest.mark.parametrize("pairs", [1, 60, 700])
def test_small_corpora_keep_their_promises(pairs: int) -> None:
    for source, target in permutations(LANGUAGES, 2):
        small = phrasebook(source=source, target=target, pairs=pairs, seed=7)
        assert [len(part) for part in small] == [pairs, 50, 50]
        assert len({pair for part in small for pair in part}) == pairs + 100


def test_a_corpus_is_a_function_of_its_arguments() -> None:
    first = phrasebook(source="de", target="zh", pairs=200, seed=3)
    assert first == phrasebook(source="de", target="zh", pairs=200, seed=3)
    assert first != phrasebook(source="de", target="zh", pairs=200, seed=4)
    program = (
        "from calque_phrasebook import phrasebook; import hashlib;"
        "book = phrasebook(source='de', target='zh', pairs=200, seed=3);"
        "print(hashlib.sha256(repr([[tuple(p) for p in part] for part in book]).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path)), "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
