"""A toy corpus of images: a coloured square in one of four corners, and its caption."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Values = dict[str, Any]

SIZE = 16
COLOURS = {"red": (200, 20, 20), "green": (20, 180, 40), "blue": (30, 40, 210)}
CORNERS = {"top left": (0, 0), "top right": (0, 8), "bottom left": (8, 0), "bottom right": (8, 8)}


def picture(colour: str, corner: str, *, size: int = SIZE) -> Image.Image:
    """A square of a quarter of the image, on white."""
    pixels = np.full((size, size, 3), 255, dtype=np.uint8)
    top, left = (size * place // SIZE for place in CORNERS[corner])
    pixels[top : top + size // 2, left : left + size // 2] = COLOURS[colour]
    return Image.fromarray(pixels)


def write_images(folder: Path, *, images: int, seed: int = 0, captions: int = 1) -> Path:
    """A manifest and its images; with two captions, the second names the corner first."""
    generator = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(images):
        colour, corner = generator.choice(list(COLOURS)), generator.choice(list(CORNERS))
        picture(colour, corner).save(folder / f"{number}.png")
        texts = [f"a {colour} square at the {corner}", f"at the {corner} a {colour} square"][:captions]
        top, left = CORNERS[corner]
        start = texts[0].index("square")
        boxes = [{"box": [left, top, left + 8, top + 8], "span": [start, start + 6]}]
        lines.append(json.dumps({"image": f"{number}.png", "captions": texts, "boxes": boxes}) + "\n")
    path = folder / "manifest.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def captioning_values(folder: Path, *, captions: int = 1, **changes: Any) -> Values:
    """A small captioner with soft attention."""
    train, valid = (
        write_images(folder / role, images=count, seed=seed, captions=captions)
        for role, count, seed in (("train", 60, 0), ("valid", 12, 1))
    )
    training = {"steps": 12, "validate_every": 4, "checkpoint_every": 4, "log_every": 2, "threads": 1, "device": "cpu"}
    return {
        "task": {"kind": "captioning", "size": SIZE},
        "data": {"train": [{"kind": "images", "path": str(train)}], "valid": [{"kind": "images", "path": str(valid)}]},
        "text": {"kind": "words"},
        "model": {
            "image": {"kind": "grid", "stages": 2, "width": 16},
            "decoder": {
                "kind": "bahdanau",
                "cell": "lstm",
                "width": 16,
                "embedding": 12,
                "readout": 10,
                "bridge": "tanh",
                "dropout": 0.2,
                "attention": {"alignment": 8, "gated": True},
            },
            "doubly_stochastic": 0.1,
        },
        "training": {
            **training,
            "batch": {"tokens": 256, "workers": 0},
            "optimiser": {"learning_rate": 0.01},
            "schedule": {"warmup": 2},
            **changes,
        },
    }
