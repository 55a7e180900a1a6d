"""Made-up test sets: references of random words, and systems that corrupt them."""

import random
from typing import NamedTuple

WORDS = [f"{first}{second}" for first in ("ba", "de", "ki", "lo", "mu", "ra", "su", "te") for second in "nrst"]


class Corpus(NamedTuple):
    """References, and the hypotheses of two systems."""

    references: list[str]
    first: list[str]
    second: list[str]


def corrupted(words: list[str], *, rate: float, generator: random.Random) -> list[str]:
    """The words with some dropped, replaced, doubled or exchanged."""
    result: list[str] = []
    for word in words:
        if generator.random() >= rate:
            result.append(word)
            continue
        result += [[], [generator.choice(WORDS)], [word, word], [generator.choice(WORDS), word]][generator.randrange(4)]
    return result


def make_corpus(*, sentences: int, rates: tuple[float, float] = (0.25, 0.25), seed: int = 0) -> Corpus:
    """Sentences of 1 to 30 words, some words more frequent than others, with a full stop."""
    generator = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    references = [generator.choices(WORDS, weights, k=generator.randint(1, 30)) for _ in range(sentences)]
    systems = [
        [f"{' '.join(corrupted(words, rate=rate, generator=generator))} ." for words in references] for rate in rates
    ]
    return Corpus([f"{' '.join(words)} ." for words in references], *systems)
