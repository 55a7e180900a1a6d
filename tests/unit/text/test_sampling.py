"""Sampled segmentations against the library's own, and against all segmentations enumerated with their probability."""

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
from calque.text.sampling import MergeDropout, NBestSampling, UnigramSampling
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


def test_the_algorithm_is_recognised(tokenizer: SentencePieceTokenizer, request: pytest.FixtureRequest) -> None:
    assert tokenizer.algorithm == request.node.callspec.params["tokenizer"]
    assert SentencePieceTokenizer.from_bytes(tokenizer.to_bytes()).algorithm == tokenizer.algorithm


def test_without_randomness_segmentations_equal_the_library(tokenizer: SentencePieceTokenizer) -> None:
    """BPE without dropped merges; unigram with almost all probability on the best segmentation."""
    scores = tokenizer.scores()
    segment = (
        MergeDropout(scores, dropout=0.0) if tokenizer.algorithm == "bpe" else UnigramSampling(scores, alpha=1000.0)
    )
    for text in [*LINES[::7], *ODD, " ".join(LINES[:9])]:
        assert tokenizer.encode_with(text, segment=partial(segment, random=Random(0))) == tokenizer.encode(text), text


def test_among_equal_merges_the_leftmost_comes_first() -> None:
    lines = ["aa aaa aaaaa aaaaaaa aab baa"] * 40
    tokenizer = SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=270), lines=lines)
    segment = MergeDropout(tokenizer.scores(), dropout=0.0)
    assert "aa" in tokenizer.scores()
    for size in range(1, 20):
        text = "b" + "a" * size
        assert tokenizer.encode_with(text, segment=partial(segment, random=Random(0))) == tokenizer.encode(text), text


def test_every_segmentation_spells_the_text(tokenizer: SentencePieceTokenizer) -> None:
    scores = tokenizer.scores()
    for parameter in (0.0, 0.2, 0.6, 1.0):
        segmenters = MergeDropout(scores, dropout=parameter), UnigramSampling(scores, alpha=parameter)
        for text in [*LINES[::23], *ODD]:
            for segment in segmenters:
                assert tokenizer.decode(
                    tokenizer.encode_with(text, segment=partial(segment, random=Random(1)))
                ) == tokenizer.decode(tokenizer.encode(text))


def merge_probabilities(symbols: tuple[str, ...], scores: dict[str, float], p: float) -> dict[tuple[str, ...], float]:
    """The final segmentations of Algorithm 1 with their probabilities: the best merge kept is applied, recursively."""
    positions = [left for left in range(len(symbols) - 1) if symbols[left] + symbols[left + 1] in scores]
    positions.sort(key=lambda left: (-scores[symbols[left] + symbols[left + 1]], left))
    probabilities: Counter[tuple[str, ...]] = Counter()
    for rank, left in enumerate(positions):
        merged = (*symbols[:left], symbols[left] + symbols[left + 1], *symbols[left + 2 :])
        for final, probability in merge_probabilities(merged, scores, p).items():
            probabilities[final] += p**rank * (1 - p) * probability  # type: ignore[assignment]
    probabilities[symbols] += p ** len(positions)  # type: ignore[assignment]
    return dict(probabilities)  # type: ignore[arg-type]


def is_close(counts: Counter[tuple[str, ...]], expected: dict[tuple[str, ...], float]) -> bool:
    """Whether every count is within five standard deviations of its expectation."""
    total = counts.total()
    deviations = {pieces: (share * (1 - share) * total) ** 0.5 for pieces, share in expected.items()}
    return counts.keys() <= expected.keys() and all(
        abs(counts[pieces] - share * total) <= 5 * deviations[pieces] + 1 for pieces, share in expected.items()
    )


@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("word", ["old", "small", "garden"])
def test_merges_are_dropped_as_in_the_paper(word: str, dropout: float) -> None:
    scores = learn("bpe").scores()
    expected = merge_probabilities(tuple(SPACE + word), scores, dropout)
    assert len(expected) > 3
    assert sum(expected.values()) == pytest.approx(1.0)
    segment, random = MergeDropout(scores, dropout=dropout), Random(5)
    assert is_close(Counter(tuple(segment(SPACE + word, random=random)) for _ in range(DRAWS)), expected)
    assert MergeDropout(scores, dropout=1.0)(SPACE + word, random=random) == [SPACE, *word]


def segmentations(text: str, scores: dict[str, float]) -> Iterator[tuple[tuple[str, ...], float]]:
    """All segmentations of a text into pieces, with the sum of their scores."""
    if not text:
        yield (), 0.0
    for size in range(1, len(text) + 1):
        if text[:size] in scores:
            yield from (
                ((text[:size], *rest), scores[text[:size]] + score)
                for rest, score in segmentations(text[size:], scores)
            )


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_segmentations_are_sampled_by_their_probability_to_the_power_alpha(alpha: float) -> None:
    scores = learn("unigram").scores() | {"ol": -4.0, SPACE + "o": -3.5, "lde": -6.0, "st": -3.0, "es": -3.0}
    weights = {pieces: math.exp(alpha * score) for pieces, score in segmentations(SPACE + "oldest", scores)}
    expected = {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}
    assert len(expected) > 10
    segment, random = UnigramSampling(scores, alpha=alpha), Random(6)
    assert is_close(Counter(tuple(segment(SPACE + "oldest", random=random)) for _ in range(DRAWS)), expected)


@pytest.mark.parametrize("count", [1, 3, 12, 512])
@pytest.mark.parametrize("text", ["old", "watches the smallest bicycles", "她 old x"])
def test_the_n_best_segmentations_are_the_best_of_all(text: str, count: int) -> None:
    """Of the whole text, not per word, by their sums of scores; a character that is not a piece is spelled in bytes."""
    tokenizer = learn("unigram")
    scores = tokenizer.scores()
    spelled = SPACE + text.replace(" ", SPACE)
    known = scores | {character: 0.0 for character in spelled if character not in scores}
    all_scores = sorted((score for _, score in segmentations(spelled, known)), reverse=True)
    assert len(all_scores) > 12 or len(text) < 10
    expected = all_scores[:count]
    nbest = tokenizer.nbest(text, count=count)
    assert [score for _, score in nbest] == pytest.approx(expected, abs=1e-4)  # the library adds up in float32
    assert len({tuple(ids) for ids, _ in nbest}) == len(nbest)
    assert all(tokenizer.decode(ids) == text for ids, _ in nbest)
    assert nbest[0][0] == tokenizer.encode(text)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_the_n_best_segmentations_are_sampled_by_their_probability_to_the_power_alpha(alpha: float) -> None:
    nbest = [([number, 7], score) for number, score in enumerate((-1.0, -2.0, -2.5, -4.0, -4.0, -7.0))]
    weights = [math.exp(alpha * score) for _, score in nbest]
    expected = {tuple(map(str, ids)): weight / sum(weights) for (ids, _), weight in zip(nbest, weights, strict=True)}
    sample, random = NBestSampling(lambda _: nbest, alpha=alpha), Random(6)
    assert is_close(Counter(tuple(map(str, sample("", random=random))) for _ in range(DRAWS)), expected)


def test_other_processes_sample_the_same() -> None:
    """Independently of the order of hash tables."""
    script = """
from random import Random
from calque.text.sampling import MergeDropout, UnigramSampling
scores = {piece: -float(rank) for rank, piece in enumerate(["ab", "bc", "abc", "cd", "abcd", "a", "b", "c", "d"])}
for segment in (MergeDropout(scores, dropout=0.4), UnigramSampling(scores, alpha=0.3)):
    print([segment("abcdabcd", random=Random(f"subwords {seed}")) for seed in range(40)])
"""
    outputs = set()
    for seed in ("1", "2"):
        variables = {**environment(), "PYTHONHASHSEED": seed}
        process = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=variables, check=True
        )
        outputs.add(process.stdout)
    assert len(outputs) == 1
    assert len(set(outputs.pop().splitlines())) == 2
