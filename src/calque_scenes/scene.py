"""The meaning of an image: one to three objects, and how they are arranged.

Coordinates lie between 0 and 1, from the upper left corner.
"""

import random
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

Shape = Literal["circle", "square", "triangle", "star", "cross", "diamond", "ring", "heart"]
Colour = Literal["red", "blue", "green", "yellow", "purple", "black"]
Size = Literal["small", "large"]
Axis = Literal["across", "down"]

SHAPES: tuple[Shape, ...] = get_args(Shape)
COLOURS: tuple[Colour, ...] = get_args(Colour)

_RADIUS: dict[Size, tuple[float, float]] = {"small": (0.085, 0.1), "large": (0.15, 0.165)}
_COUNTS = (1, 2, 2, 2, 3)  # objects in a scene


class Thing(NamedTuple):
    """An object of a scene."""

    shape: Shape
    colour: Colour
    size: Size
    x: float
    y: float
    radius: float
    shade: float  # how much lighter or darker than its colour it is drawn, between -1 and 1


class Scene(NamedTuple):
    """Objects in the order in which a caption names them, and the axis along which they lie."""

    things: tuple[Thing, ...]
    axis: Axis
    background: float  # its lightness

    @property
    def is_reversed(self) -> bool:
        """Whether the first object lies to the right of the second, or below it."""
        first, second = self.things[:2]
        return (first.x > second.x) if self.axis == "across" else (first.y > second.y)


Kind = tuple[Colour, Shape]
Draw = Callable[[random.Random], Kind]


def draw_scene(generator: random.Random, *, kinds: Callable[[random.Random, int], list[Kind]]) -> Scene:
    """A random scene; `kinds(generator, n)` draws the colours and shapes of n objects, all distinct.

    Two objects are named in the order of their sizes, the larger one first; if these are equal, the left or upper one
    is named first. Three are named from left to right, or from top to bottom.
    """
    count = generator.choice(_COUNTS)
    axis: Axis = generator.choice(("across", "down"))
    along = _along(generator, count)
    base = generator.uniform(0.25, 0.75)
    things = []
    for (colour, shape), place in zip(kinds(generator, count), along, strict=True):
        size: Size = generator.choice(("small", "large"))
        beside = min(0.8, max(0.2, base + generator.uniform(-0.08, 0.08))) if count > 1 else generator.uniform(0.2, 0.8)
        x, y = (place, beside) if axis == "across" else (beside, place)
        radius = generator.uniform(*_RADIUS[size])
        things.append(Thing(shape, colour, size, x, y, radius, generator.uniform(-1, 1)))
    if count == 2 and things[0].size == "small" and things[1].size == "large":
        things.reverse()
    return Scene(tuple(things), axis, generator.uniform(0.8, 1.0))


def _along(generator: random.Random, count: int) -> list[float]:
    """Random positions of objects along their axis, in order and without overlap."""
    match count:
        case 1:
            return [generator.uniform(0.2, 0.8)]
        case 2:
            start = generator.uniform(0.2, 0.4)
            return [start, generator.uniform(start + 0.36, 0.82)]
        case _:
            return [centre + generator.uniform(-0.005, 0.005) for centre in (0.17, 0.5, 0.83)]
