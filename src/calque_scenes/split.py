"""Scenes for training, validation and test; the test set has combinations that do not occur in training."""

import random
from collections.abc import Callable
from typing import NamedTuple

from calque_scenes.scene import COLOURS, SHAPES, Kind, Scene, draw_scene

HELD_OUT: frozenset[Kind] = frozenset(zip(COLOURS, SHAPES, strict=False))
"""Combinations of colour and shape that occur only in the test set: red circle, blue square and so on."""
KINDS: tuple[Kind, ...] = tuple((colour, shape) for colour in COLOURS for shape in SHAPES)
SEEN: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind not in HELD_OUT)


class Scenes(NamedTuple):
    """The scenes of each set; every test scene has an object with a held-out combination of colour and shape."""

    train: list[Scene]
    valid: list[Scene]
    test: list[Scene]


def scenes(*, pairs: int, seed: int = 0) -> Scenes:
    """`pairs` training scenes, and a twentieth of that number (50 to 1,000) each for validation and test.

    Scene n of a set depends on the seed and n alone.
    """
    held_out = min(1000, max(50, pairs // 20))
    return Scenes(
        _scenes("train", pairs, seed=seed, kinds=_seen),
        _scenes("valid", held_out, seed=seed, kinds=_seen),
        _scenes("test", held_out, seed=seed, kinds=_with_held_out),
    )


def _scenes(name: str, count: int, *, seed: int, kinds: Callable[[random.Random, int], list[Kind]]) -> list[Scene]:
    return [draw_scene(random.Random(f"{seed}/{name}/{number}"), kinds=kinds) for number in range(count)]


def _seen(generator: random.Random, count: int) -> list[Kind]:
    return generator.sample(SEEN, count)


def _with_held_out(generator: random.Random, count: int) -> list[Kind]:
    held_out = generator.choice(sorted(HELD_OUT))
    kinds = [held_out, *generator.sample([kind for kind in KINDS if kind != held_out], count - 1)]
    generator.shuffle(kinds)
    return kinds
