"""Drawn ways to cut a word against the library's own cut, and against all ways enumerated with their probability."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest
from tests.conftest import environment

from calque.text import SentencePieceConfig, SentencePieceTokenizer
from calque.text.sampling import MergeDropout, NBestDraws, UnigramDraws
from calque.text.sentencepiece import SPACE

LINES = [
    f"{who} {what} the {size} {thing}"
    for who in ("every teacher", "my neighbour", "no traveller", "ёжик", "她")
    for what in ("watches", "remembers", "repairs", "repaired", "watched")
    for size in ("smallest", "oldest", "small", "old", "well-known")
    for thing in ("bicycle", "bicycles", "garden", "gardens", "garden's gate")
]
ODD = [
    "",
    " ",
    "  ",
    " a",
    "a ",
    "a  b",
    "x▁y",
    "▅ ␛0",
    "日本語 text",
    "🚲 garden",
    "<s> <0x41> <unk>",
    "\t\u3000é",
    "é",
]
DRAWS = 20_000


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> SentencePieceTokenizer:
    return learn(request.param)


def learn(algorithm: str) -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(SentencePieceConfig(algorithm=algorithm, vocabulary_size=420), lines=LINES)


def test_the_algorithm_is_known(tokenizer: SentencePieceTokenizer, request: pytest.FixtureRequest) -> None:
    assert tokenizer.algorithm == request.node.callspec.params["tokenizer"]
    assert SentencePieceTokenizer.from_bytes(tokenizer.to_bytes()).algorithm == tokenizer.algorithm


def test_without_chance_texts_are_cut_as_the_library_does(tokenizer: SentencePieceTokenizer) -> None:
    """No merge left out; of unigrams, almost only the likeliest way."""
    scores = tokenizer.scores()
    way = MergeDropout(scores, dropout=0.0) if tokenizer.algorithm == "bpe" else UnigramDraws(scores, alpha=1000.0)
    for text in [*LINES[::7], *ODD, " ".join(LINES[:9])]:
        assert tokenizer.cut_up(text, cut=partial(way, random=Random(0))) == tokenizer.encode(text), text


def test_of_equal_merges_the_first_place_comes_first() -> None:
    lines = ["aa aaa aaaaa aaaaaaa aab baa"] * 40
    made = SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=270), lines=lines)
    way = MergeDropout(made.scores(), dropout=0.0)
    assert "aa" in made.scores()
    for size in range(1, 20):
        text = "b" + "a" * size
        assert made.cut_up(text, cut=partial(way, random=Random(0))) == made.encode(text), text


def test_any_cut_spells_the_text(tokenizer: SentencePieceTokenizer) -> None:
    scores = tokenizer.scores()
    for chance in (0.0, 0.2, 0.6, 1.0):
        way = MergeDropout(scores, dropout=chance)
        other = UnigramDraws(scores, alpha=chance)
        for text in [*LINES[::23], *ODD]:
            for each in (way, other):
                assert tokenizer.decode(
                    tokenizer.cut_up(text, cut=partial(each, random=Random(1)))
                ) == tokenizer.decode(tokenizer.encode(text))


def merge_chances(symbols: tuple[str, ...], scores: dict[str, float], p: float) -> dict[tuple[str, ...], float]:
    """Where Algorithm 1 ends from here, with its probability: the best merge that is kept is done, then on."""
    places = [left for left in range(len(symbols) - 1) if symbols[left] + symbols[left + 1] in scores]
    places.sort(key=lambda left: (-scores[symbols[left] + symbols[left + 1]], left))
    found: Counter[tuple[str, ...]] = Counter()
    for rank, left in enumerate(places):
        merged = (*symbols[:left], symbols[left] + symbols[left + 1], *symbols[left + 2 :])
        for end, chance in merge_chances(merged, scores, p).items():
            found[end] += p**rank * (1 - p) * chance  # type: ignore[assignment]
    found[symbols] += p ** len(places)  # type: ignore[assignment]
    return dict(found)  # type: ignore[arg-type]


def close(found: Counter[tuple[str, ...]], expected: dict[tuple[str, ...], float]) -> bool:
    draws = found.total()
    spread = {way: (share * (1 - share) * draws) ** 0.5 for way, share in expected.items()}
    return found.keys() <= expected.keys() and all(
        abs(found[way] - share * draws) <= 5 * spread[way] + 1 for way, share in expected.items()
    )


@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("word", ["old", "small", "garden"])
def test_merges_are_left_out_as_the_paper_says(word: str, dropout: float) -> None:
    scores = learn("bpe").scores()
    expected = merge_chances(tuple(SPACE + word), scores, dropout)
    assert len(expected) > 3
    assert sum(expected.values()) == pytest.approx(1.0)
    cut, random = MergeDropout(scores, dropout=dropout), Random(5)
    assert close(Counter(tuple(cut(SPACE + word, random=random)) for _ in range(DRAWS)), expected)
    assert MergeDropout(scores, dropout=1.0)(SPACE + word, random=random) == [SPACE, *word]


def ways(text: str, scores: dict[str, float]) -> Iterator[tuple[tuple[str, ...], float]]:
    """All ways to cut a text into pieces, with the sum of their scores."""
    if not text:
        yield (), 0.0
    for size in range(1, len(text) + 1):
        if text[:size] in scores:
            yield from (
                ((text[:size], *rest), scores[text[:size]] + score) for rest, score in ways(text[size:], scores)
            )


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_ways_are_drawn_by_their_probability_to_the_power(alpha: float) -> None:
    scores = learn("unigram").scores() | {"ol": -4.0, SPACE + "o": -3.5, "lde": -6.0, "st": -3.0, "es": -3.0}
    weights = {way: math.exp(alpha * score) for way, score in ways(SPACE + "oldest", scores)}
    expected = {way: weight / sum(weights.values()) for way, weight in weights.items()}
    assert len(expected) > 10
    cut, random = UnigramDraws(scores, alpha=alpha), Random(6)
    assert close(Counter(tuple(cut(SPACE + "oldest", random=random)) for _ in range(DRAWS)), expected)


@pytest.mark.parametrize("count", [1, 3, 12, 512])
@pytest.mark.parametrize("text", ["old", "watches the smallest bicycles", "她 old x"])
def test_the_likeliest_ways_are_those_of_all_ways(text: str, count: int) -> None:
    """Of the whole text, not of its words, by their sums of scores; a character that is no piece is bytes."""
    made = learn("unigram")
    scores = made.scores()
    spelled = SPACE + text.replace(" ", SPACE)
    known = scores | {character: 0.0 for character in spelled if character not in scores}
    every = sorted((score for _, score in ways(spelled, known)), reverse=True)
    assert len(every) > 12 or len(text) < 10
    expected = every[:count]
    found = made.best_ways(text, count=count)
    assert [score for _, score in found] == pytest.approx(expected, abs=1e-4)  # the library adds up in float32
    assert len({tuple(ids) for ids, _ in found}) == len(found)
    assert all(made.decode(ids) == text for ids, _ in found)
    assert found[0][0] == made.encode(text)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_among_the_likeliest_ways_each_is_drawn_by_its_probability_to_the_power(alpha: float) -> None:
    best = [([number, 7], score) for number, score in enumerate((-1.0, -2.0, -2.5, -4.0, -4.0, -7.0))]
    weights = [math.exp(alpha * score) for _, score in best]
    expected = {tuple(map(str, ids)): weight / sum(weights) for (ids, _), weight in zip(best, weights, strict=True)}
    draw, random = NBestDraws(lambda _: best, alpha=alpha), Random(6)
    assert close(Counter(tuple(map(str, draw("", random=random))) for _ in range(DRAWS)), expected)


def test_another_process_draws_the_same() -> None:
    """Whatever the order in which it keeps its words."""
    script = """
from random import Random
from calque.text.sampling import MergeDropout, UnigramDraws
scores = {piece: -float(place) for place, piece in enumerate(["ab", "bc", "abc", "cd", "abcd", "a", "b", "c", "d"])}
for cut in (MergeDropout(scores, dropout=0.4), UnigramDraws(scores, alpha=0.3)):
    print([cut("abcdabcd", random=Random(f"subwords {seed}")) for seed in range(40)])
"""
    found = set()
    for seed in ("1", "2"):
        variables = {**environment(), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=variables, check=True)
        found.add(done.stdout)
    assert len(found) == 1
    assert len(set(found.pop().splitlines())) == 2
