"""The built-in images: scenes of coloured shapes, drawn from random meanings, with captions in three languages.

Every scene has exactly one caption per language, the box of every object and the words that name it are known, and the
test set has combinations of colour and shape that do not occur in training. May use `calque.errors`, and nothing else
of calque.
"""

from calque_scenes.captions import LANGUAGES, Caption, Language, caption
from calque_scenes.drawing import draw
from calque_scenes.files import write_scenes
from calque_scenes.scene import COLOURS, SHAPES, Scene
from calque_scenes.split import HELD_OUT, Scenes, scenes

__all__ = [
    "COLOURS",
    "HELD_OUT",
    "LANGUAGES",
    "SHAPES",
    "Caption",
    "Language",
    "Scene",
    "Scenes",
    "caption",
    "draw",
    "scenes",
    "write_scenes",
]
