"""Captions of scenes in English, Chinese and German, with the characters that describe each object."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from calque_scenes.scene import Colour, Scene, Shape, Size, Thing

Language = Literal["en", "zh", "de"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Gender = Literal["m", "f", "n"]


class Caption(NamedTuple):
    """A text and, for each object of the scene, the span of its adjectives and noun, such as "large red star"."""

    text: str
    spans: tuple[tuple[int, int], ...]


class _Phrase(NamedTuple):
    """A noun phrase, and where it begins after the article or measure word."""

    text: str
    start: int


_ENGLISH_RELATIONS = {
    ("across", False): "to the left of",
    ("across", True): "to the right of",
    ("down", False): "above",
    ("down", True): "below",
}
_GERMAN_RELATIONS = {
    ("across", False): "links von",
    ("across", True): "rechts von",
    ("down", False): "über",
    ("down", True): "unter",
}
_CHINESE_RELATIONS = {
    ("across", False): "左边",
    ("across", True): "右边",
    ("down", False): "上面",
    ("down", True): "下面",
}

_CHINESE_SHAPES: dict[Shape, str] = {
    "circle": "圆形",
    "square": "正方形",
    "triangle": "三角形",
    "star": "星形",
    "cross": "十字",
    "diamond": "菱形",
    "ring": "圆环",
    "heart": "心形",
}
_CHINESE_COLOURS: dict[Colour, str] = {
    "red": "红",
    "blue": "蓝",
    "green": "绿",
    "yellow": "黄",
    "purple": "紫",
    "black": "黑",
}
_CHINESE_SIZES: dict[Size, str] = {"small": "小", "large": "大"}

_GERMAN_SHAPES: dict[Shape, tuple[str, Gender]] = {
    "circle": ("Kreis", "m"),
    "square": ("Quadrat", "n"),
    "triangle": ("Dreieck", "n"),
    "star": ("Stern", "m"),
    "cross": ("Kreuz", "n"),
    "diamond": ("Raute", "f"),
    "ring": ("Ring", "m"),
    "heart": ("Herz", "n"),
}
_GERMAN_COLOURS: dict[Colour, str] = {
    "red": "rot",
    "blue": "blau",
    "green": "grün",
    "yellow": "gelb",
    "purple": "violett",
    "black": "schwarz",
}
_GERMAN_SIZES: dict[Size, str] = {"small": "klein", "large": "groß"}
_NOMINATIVE: dict[Gender, tuple[str, str]] = {"m": ("ein", "er"), "f": ("eine", "e"), "n": ("ein", "es")}
_DATIVE_NOUNS = {"Herz": "Herzen"}  # the only noun here that changes
_DATIVE: dict[Gender, tuple[str, str]] = {"m": ("einem", "en"), "f": ("einer", "en"), "n": ("einem", "en")}


def caption(scene: Scene, *, language: Language) -> Caption:
    """The caption of a scene in a language."""
    match language:
        case "en":
            return _english(scene)
        case "zh":
            return _chinese(scene)
        case "de":
            return _german(scene)


def _english(scene: Scene) -> Caption:
    phrases = [_Phrase(f"a {thing.size} {thing.colour} {thing.shape}", len("a ")) for thing in scene.things]
    if len(phrases) == 2:
        return _joined(phrases, [f" {_ENGLISH_RELATIONS[scene.axis, scene.is_reversed]} "])
    if len(phrases) == 3:
        order = "from left to right: " if scene.axis == "across" else "from top to bottom: "
        return _joined(phrases, [", ", " and "], before=order)
    return _joined(phrases, [])


def _german(scene: Scene) -> Caption:
    if len(scene.things) == 2:
        phrases = [_german_phrase(scene.things[0], _NOMINATIVE), _german_phrase(scene.things[1], _DATIVE)]
        return _joined(phrases, [f" {_GERMAN_RELATIONS[scene.axis, scene.is_reversed]} "])
    phrases = [_german_phrase(thing, _NOMINATIVE) for thing in scene.things]
    if len(phrases) == 3:
        order = "von links nach rechts: " if scene.axis == "across" else "von oben nach unten: "
        return _joined(phrases, [", ", " und "], before=order)
    return _joined(phrases, [])


def _german_phrase(thing: Thing, endings: dict[Gender, tuple[str, str]]) -> _Phrase:
    noun, gender = _GERMAN_SHAPES[thing.shape]
    noun = _DATIVE_NOUNS.get(noun, noun) if endings is _DATIVE else noun
    article, ending = endings[gender]
    size, colour = _GERMAN_SIZES[thing.size] + ending, _GERMAN_COLOURS[thing.colour] + ending
    return _Phrase(f"{article} {size} {colour} {noun}", len(f"{article} "))


def _chinese(scene: Scene) -> Caption:
    phrases = []
    for thing in scene.things:
        size, colour = _CHINESE_SIZES[thing.size], _CHINESE_COLOURS[thing.colour]
        phrases.append(_Phrase(f"一个{colour}色的{size}{_CHINESE_SHAPES[thing.shape]}", len("一个")))
    if len(phrases) == 2:  # the second object comes first: "B 的左边有 A"
        relation = f"的{_CHINESE_RELATIONS[scene.axis, scene.is_reversed]}有"
        text, (second, first) = _joined(phrases[::-1], [relation])
        return Caption(text, (first, second))
    if len(phrases) == 3:
        order = "从左到右：" if scene.axis == "across" else "从上到下："
        return _joined(phrases, ["、", "和"], before=order)
    return _joined(phrases, [])


def _joined(phrases: Sequence[_Phrase], links: Sequence[str], *, before: str = "") -> Caption:
    """Joins phrases with the words in `links` between them, and locates each description in the text."""
    text, spans = before, []
    for phrase, link in zip(phrases, (*links, ""), strict=True):
        spans.append((len(text) + phrase.start, len(text) + len(phrase.text)))
        text += phrase.text + link
    return Caption(text, tuple(spans))
