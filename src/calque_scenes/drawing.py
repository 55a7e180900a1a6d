"""Draws scenes: every shape is an inequality, evaluated at several points of each pixel (antialiasing).

Letters: H height and width in pixels.
"""

from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from calque_scenes.scene import Colour, Scene, Shape, Thing

Array = NDArray[Any]

_POINTS = 4  # per pixel and direction
_SHADE = 18.0  # by which a shade is lighter or darker at most, of 255
_RGB: dict[Colour, tuple[int, int, int]] = {
    "red": (212, 38, 38),
    "blue": (40, 80, 210),
    "green": (38, 150, 60),
    "yellow": (238, 200, 30),
    "purple": (135, 50, 165),
    "black": (30, 30, 32),
}


class PixelBox(NamedTuple):
    """The pixels that an object touches; `right` and `bottom` are exclusive."""

    left: int
    top: int
    right: int
    bottom: int


class Drawn(NamedTuple):
    """An image and the box of each of its objects."""

    pixels: Array  # uint8 [H,H,3]
    boxes: tuple[PixelBox, ...]


def draw(scene: Scene, *, size: int = 64) -> Drawn:
    """The image of a scene with `size` × `size` pixels."""
    image = np.full((size, size, 3), 255 * scene.background)
    boxes = []
    for thing in scene.things:
        covered = coverage(thing, size=size)
        colour = np.clip(np.array(_RGB[thing.colour]) + _SHADE * thing.shade, 0, 255)
        image += covered[..., None] * (colour - image)
        rows, columns = np.flatnonzero(covered.any(axis=1)), np.flatnonzero(covered.any(axis=0))
        boxes.append(PixelBox(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1))
    return Drawn(np.round(image).astype(np.uint8), tuple(boxes))


def coverage(thing: Thing, *, size: int) -> Array:
    """The share of each pixel that an object covers, [H,H]; only pixels near it are computed."""
    columns, rows = (_pixels_near(centre, thing.radius, size=size) for centre in (thing.x, thing.y))
    x, y = np.meshgrid(
        *((_points(near, size=size) - at) / thing.radius for near, at in ((columns, thing.x), (rows, thing.y)))
    )
    inside = is_inside(thing.shape, x, y)
    shares = np.zeros((size, size))
    shares[rows.start : rows.stop, columns.start : columns.stop] = inside.reshape(
        len(rows), _POINTS, len(columns), _POINTS
    ).mean(axis=(1, 3))
    return shares


def _pixels_near(centre: float, radius: float, *, size: int) -> range:
    reach = 1.15 * radius  # a heart is a little wider than its radius
    return range(max(0, int((centre - reach) * size)), min(size, int((centre + reach) * size) + 1))


def _points(pixels: range, *, size: int) -> Array:
    return (np.arange(pixels.start * _POINTS, pixels.stop * _POINTS) + 0.5) / (size * _POINTS)


def is_inside(shape: Shape, x: Array, y: Array) -> NDArray[np.bool_]:
    """Whether points lie inside a shape of radius 1 around the origin; y points down."""
    inside: NDArray[np.bool_]
    match shape:
        case "circle":
            inside = x**2 + y**2 <= 1
        case "ring":
            inside = (x**2 + y**2 <= 1) & (x**2 + y**2 >= 0.55**2)
        case "square":
            inside = np.maximum(abs(x), abs(y)) <= 0.85
        case "diamond":
            inside = abs(x) / 0.7 + abs(y) <= 1
        case "triangle":
            inside = (y <= 0.75) & (abs(x) <= (y + 1) / 1.75)
        case "cross":
            inside = (np.minimum(abs(x), abs(y)) <= 0.3) & (np.maximum(abs(x), abs(y)) <= 0.95)
        case "heart":
            across, up = x * 1.2, 0.2 - y * 1.15
            inside = (across**2 + up**2 - 1) ** 3 - across**2 * up**3 <= 0
        case "star":
            inside = _is_in_star(x, y)
        case _:
            assert_never(shape)
    return inside


def _is_in_star(x: Array, y: Array) -> NDArray[np.bool_]:
    """Whether positions lie inside a five-pointed star, with points at radius 1 and notches at radius 0.42."""
    sector = np.pi / 5
    angle = np.abs((np.arctan2(x, -y) + sector) % (2 * sector) - sector)  # from the nearest point
    radius = np.hypot(x, y)
    notch = 0.42 * np.array([np.cos(sector), np.sin(sector)])
    along, beside = radius * np.cos(angle), radius * np.sin(angle)
    inside: NDArray[np.bool_] = notch[1] * (1 - along) >= beside * (1 - notch[0])
    return inside
