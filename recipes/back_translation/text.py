"""Text processing for back-translation: halves corpora, tags synthetic sources, and adds noise to sentences."""

import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from recipes.runner.pair_recipe import Pair

SYNTHETIC = "<BT>"  # in front of a synthetic source (Caswell et al. 2019)
TAGS = re.compile(rf"((<2\w+>|{SYNTHETIC})\s*)+")


class Halves(NamedTuple):
    """Half of the pairs, and the two sides of the other half as monolingual texts, each in an order of its own."""

    pairs: list[Pair]
    sources: list[str]
    targets: list[str]


def halve(pairs: Sequence[Pair], *, seed: int = 1) -> Halves:
    """The first half of the shuffled pairs, and the sides of the second half, each shuffled again."""
    generator = random.Random(seed)
    shuffled = list(pairs)
    generator.shuffle(shuffled)
    middle = len(shuffled) // 2
    sources, targets = ([pair[side] for pair in shuffled[middle:]] for side in (0, 1))
    generator.shuffle(sources)
    generator.shuffle(targets)
    return Halves(shuffled[:middle], sources, targets)


def tagged(lines: Iterable[str], tag: str) -> list[str]:
    """Lines with a tag in front.

    >>> tagged(["ein Hund"], SYNTHETIC)
    ['<BT> ein Hund']
    """
    return [f"{tag} {line}".strip() for line in lines]


def untagged(line: str) -> str:
    """A line without the tags in front: <BT>, and <2de> or those of other languages.

    >>> untagged("<2de> a dog")
    'a dog'
    """
    found = TAGS.match(line)
    return line[found.end() :] if found else line


def noised(line: str, generator: random.Random, *, drop: float = 0.1, distance: int = 3) -> str:
    """A noisy copy of a sentence, in which words are dropped and moved (Lample et al. 2018, §2.3).

    Each word is dropped with probability `drop`, but never all of them; no word moves by more than `distance` places.
    """
    words = line.split()
    kept = [word for word in words if generator.random() >= drop] or words[:1]
    keys = [place + generator.random() * (distance + 1) for place in range(len(kept))]
    return " ".join(kept[place] for place in sorted(range(len(kept)), key=keys.__getitem__))
