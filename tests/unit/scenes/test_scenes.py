"""Scenes: drawn as their meaning says, with the box and the words of every object; test combinations are new."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calque_scenes import COLOURS, HELD_OUT, LANGUAGES, SHAPES, Scene, caption, draw, scenes, write_scenes
from calque_scenes.drawing import coverage
from calque_scenes.scene import Thing

SOME = scenes(pairs=200, seed=5)
NOUNS = {
    "en": dict(zip(SHAPES, SHAPES, strict=True)),
    "zh": dict(zip(SHAPES, ("圆形", "正方形", "三角形", "星形", "十字", "菱形", "圆环", "心形"), strict=True)),
    "de": dict(zip(SHAPES, ("Kreis", "Quadrat", "Dreieck", "Stern", "Kreuz", "Raute", "Ring", "Herz"), strict=True)),
}


def thing(shape="circle", colour="red", size="small", x=0.5, y=0.5, radius=0.1) -> Thing:
    return Thing(shape, colour, size, x, y, radius, 0.0)


def test_held_out_combinations_are_new_but_their_parts_are_not() -> None:
    seen = {(item.colour, item.shape) for scene in SOME.train + SOME.valid for item in scene.things}
    assert not seen & HELD_OUT
    assert {colour for colour, _ in seen} == set(COLOURS) and {shape for _, shape in seen} == set(SHAPES)
    assert all(any((item.colour, item.shape) in HELD_OUT for item in scene.things) for scene in SOME.test)
    assert {(item.colour, item.shape) for scene in SOME.test for item in scene.things} >= HELD_OUT


def test_a_seed_is_a_corpus_and_a_longer_one_begins_alike() -> None:
    assert scenes(pairs=200, seed=5) == SOME
    assert scenes(pairs=300, seed=5).train[:200] == SOME.train
    assert scenes(pairs=200, seed=6).train != SOME.train


def test_no_image_has_two_captions_and_different_scenes_look_different() -> None:
    pictures = {draw(scene).pixels.tobytes() for scene in SOME.train}
    assert len(pictures) == len(SOME.train)


@pytest.mark.parametrize("language", LANGUAGES)
def test_spans_are_the_adjectives_and_nouns_of_their_objects(language) -> None:
    for scene in SOME.train + SOME.test:
        text, spans = caption(scene, language=language)
        for item, (start, stop) in zip(scene.things, spans, strict=True):
            noun = NOUNS[language][item.shape]
            assert text[start:stop].removesuffix("en" if language == "de" else "\0").endswith(noun)
            assert text[:start].endswith(("一个", "a ", "ein ", "eine ", "einem ", "einer "))
            if language == "en":
                assert text[start:stop] == f"{item.size} {item.colour} {item.shape}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_captions_differ_where_meanings_do(language) -> None:
    """Two scenes with one caption have the same objects in the same order, and lie alike."""
    meanings: dict[str, object] = {}
    for scene in SOME.train + SOME.valid + SOME.test:
        named = tuple((item.shape, item.colour, item.size) for item in scene.things)
        relation = (scene.axis, scene.is_reversed) if len(named) == 2 else (scene.axis if len(named) == 3 else "")
        assert meanings.setdefault(caption(scene, language=language).text, (named, relation)) == (named, relation)


def test_german_agrees_with_gender_and_case() -> None:
    left, right = thing("diamond", "red", "large", x=0.2, radius=0.15), thing("heart", "blue", x=0.8)
    texts = {
        (left, right): "eine große rote Raute links von einem kleinen blauen Herzen",
        (right._replace(size="large"), left._replace(size="small")): (
            "ein großes blaues Herz rechts von einer kleinen roten Raute"
        ),
    }
    for things, text in texts.items():
        assert caption(Scene(things, "across", 1.0), language="de").text == text
    one = Scene((thing("ring", "black"),), "down", 1.0)
    assert caption(one, language="de").text == "ein kleiner schwarzer Ring"


def test_relations_are_those_of_the_picture() -> None:
    """Read off the boxes in the picture, not the meaning."""
    words = {"to the left of": (-1, 0), "to the right of": (1, 0), "above": (0, -1), "below": (0, 1)}
    for scene in SOME.train:
        if len(scene.things) == 2:
            (first, second), text = draw(scene).boxes, caption(scene, language="en").text
            (relation,) = [word for word in words if word in text]
            across, down = words[relation]
            gap = (first.left - second.left, first.top - second.top)
            assert gap[0] * across + gap[1] * down > 8


def test_objects_do_not_touch_and_boxes_are_tight() -> None:
    for scene in SOME.train[:60]:
        covered = [coverage(item, size=64) > 0 for item in scene.things]
        assert sum(mask.astype(int) for mask in covered).max() == 1
        for mask, box in zip(covered, draw(scene).boxes, strict=True):
            outside = mask.copy()
            outside[box.top : box.bottom, box.left : box.right] = False
            assert not outside.any()
            inside = mask[box.top : box.bottom, box.left : box.right]
            assert inside[0].any() and inside[-1].any() and inside[:, 0].any() and inside[:, -1].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_lie_in_their_image_and_look_alike_mirrored(shape) -> None:
    mask = coverage(thing(shape, radius=0.4), size=64)
    assert np.allclose(mask, mask[:, ::-1]) and 0.1 < mask.mean() < 0.6
    assert not mask[0].any() and not mask[-1].any() and not mask[:, 0].any()
    exact = {"circle": np.pi * 0.4**2, "square": (2 * 0.85 * 0.4) ** 2, "diamond": 2 * 0.7 * 0.4**2}
    if shape in exact:
        assert mask.mean() == pytest.approx(exact[shape], rel=0.01)


def test_files_hold_what_was_drawn(tmp_path: Path) -> None:
    few = scenes(pairs=50, seed=2)
    few = few._replace(train=few.train[:3], valid=few.valid[:2], test=few.test[:2])
    write_scenes(few, tmp_path, size=48)
    lines = [json.loads(line) for line in (tmp_path / "train.de.jsonl").read_text(encoding="utf-8").splitlines()]
    for line, scene in zip(lines, few.train, strict=True):
        assert np.array_equal(np.array(Image.open(tmp_path / line["image"])), draw(scene, size=48).pixels)
        assert line["caption"] == caption(scene, language="de").text
        assert [item["box"] for item in line["boxes"]] == [list(box) for box in draw(scene, size=48).boxes]
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == sorted(
        f"{role}.{language}.jsonl" for role in ("train", "valid", "test") for language in LANGUAGES
    )
