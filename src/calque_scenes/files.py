"""Writes scenes as PNG files, and a manifest for each language: train.en.jsonl, valid.en.jsonl, test.en.jsonl, …"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calque.errors import ConfigError
from calque_scenes.captions import LANGUAGES, caption
from calque_scenes.drawing import PixelBox, draw
from calque_scenes.scene import Scene
from calque_scenes.split import Scenes


def write_scenes(drawn: Scenes, folder: Path, *, size: int = 64) -> None:
    """Writes the images of train, valid and test to folders of these names, and a manifest per set and language.

    A line of a manifest holds the path of an image, its caption and, for each object, its box (left, top, right, bottom
    in pixels) and the span of the caption that names it.
    """
    image_module = _pillow()
    for name, scenes in drawn._asdict().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        paths, boxes = [], []
        for number, scene in enumerate(scenes):
            picture = draw(scene, size=size)
            paths.append(f"{name}/{number:06}.png")
            boxes.append(picture.boxes)
            image_module.fromarray(picture.pixels).save(folder / paths[-1])
        for language in LANGUAGES:
            lines = (
                _line(path, scene, places, language=language)
                for path, scene, places in zip(paths, scenes, boxes, strict=True)
            )
            (folder / f"{name}.{language}.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")


def _line(path: str, scene: Scene, boxes: Sequence[PixelBox], *, language: Any) -> str:
    text, spans = caption(scene, language=language)
    named = [{"box": list(box), "span": list(span)} for box, span in zip(boxes, spans, strict=True)]
    return json.dumps({"image": path, "caption": text, "boxes": named}, ensure_ascii=False) + "\n"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            "writing images needs the package pillow, which is not installed; install it with: pip install pillow"
        ) from None
    return Image
