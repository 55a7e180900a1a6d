"""Every family must learn to copy, reverse and sort sequences it has not seen; the seed changes with the commit.

The bounds are shares of whole sequences that are right. The plain decoder has no attention, so it gets shorter ones.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import learning, still_and, toy_corpus, toy_values

from calque.experiment import train
from calque.translator import load

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unplotted")]


class Recipe(NamedTuple):
    """How a family learns, and what it must reach."""

    steps: int
    rate: float
    width: int
    longest: int
    bounds: dict[str, float]  # by task
    overrides: tuple[str, ...] = ()


RECIPES = {
    "plain": Recipe(600, 0.01, 96, longest=4, bounds={"copy": 0.8, "reverse": 0.8, "sort": 0.8}),
    "luong": Recipe(450, 0.01, 48, longest=6, bounds={"copy": 0.95, "reverse": 0.95, "sort": 0.85}),
    "bahdanau": Recipe(450, 0.01, 48, longest=6, bounds={"copy": 0.95, "reverse": 0.95, "sort": 0.85}),
    "convolutional": Recipe(
        500,
        0.005,
        48,
        longest=6,
        bounds={"copy": 0.95, "reverse": 0.95, "sort": 0.9},
        overrides=tuple(f"model.{side}.embedding=48" for side in ("encoder", "decoder")),
    ),
    "transformer": Recipe(
        500,
        0.005,
        48,
        longest=6,
        bounds={"copy": 0.95, "reverse": 0.9, "sort": 0.9},
        overrides=(
            *(f"model.{side}.{key}" for side in ("encoder", "decoder") for key in ("heads=4", "feed_forward=96")),
            "model.encoder.attention_dropout=0",
            "model.decoder.activation_dropout=0",
        ),
    ),
}
TASKS: dict[str, Callable[[list[str]], list[str]]] = {"copy": list, "reverse": lambda row: row[::-1], "sort": sorted}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", RECIPES)
def test_it_learns(family: str, task: str, tmp_path: Path, seed: int) -> None:
    assert learnt(family, RECIPES[family], task=task, folder=tmp_path, seed=seed) >= RECIPES[family].bounds[task]


OUTPUTS = {
    "sampled": ("model.output.kind=sampled", "model.output.samples=6"),
    "adaptive": ("model.output.kind=adaptive", "model.output.cutoffs=[4, 8]"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_it_learns_with_every_output_layer(kind: str, tmp_path: Path, seed: int) -> None:
    recipe = RECIPES["luong"]._replace(overrides=OUTPUTS[kind])
    assert learnt("luong", recipe, task="copy", folder=tmp_path, seed=seed) >= recipe.bounds["copy"]


def learnt(family: str, recipe: Recipe, *, task: str, folder: Path, seed: int) -> float:
    """The share of unseen sequences that are right after training."""
    corpus, unseen = (
        toy_corpus(folder / name, pairs=pairs, change=TASKS[task], seed=number, longest=recipe.longest)
        for name, pairs, number in (("corpus", 2000, seed), ("unseen", 400, seed + 1))
    )
    settings = learning(steps=recipe.steps, rate=recipe.rate, tokens=600)
    values = toy_values(corpus, family, f"seed={seed}", *settings, *still_and(width=recipe.width), *recipe.overrides)
    run = train(values, run=folder / "run", quiet=True)
    seen = set(_lines(corpus["source"]))
    pairs = zip(_lines(unseen["source"]), _lines(unseen["target"]), strict=True)
    sources, references = zip(*((source, target) for source, target in pairs if source not in seen), strict=True)
    found = load(run.folder).translate(list(sources))
    right = sum(one == other for one, other in zip(found, references, strict=True)) / len(sources)
    print(f"{family} {' '.join(recipe.overrides)}, {task}, seed {seed}: {right:.1%} of {len(sources)} unseen sequences")
    assert len(sources) >= 100
    return right


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
