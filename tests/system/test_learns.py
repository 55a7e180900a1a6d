"""Every family must learn to copy, reverse and sort sequences it has not seen; the seed changes with the commit.

The bounds are shares of whole sequences that are right. The plain decoder has no attention, so it gets shorter ones.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import still_and
from tests.system.learning import TASKS, Budget, learnt

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unplotted")]


class Recipe(NamedTuple):
    """How a family learns, and what it must reach."""

    width: int
    budget: Budget
    bounds: dict[str, float]  # by task
    overrides: tuple[str, ...] = ()


RECIPES = {
    "plain": Recipe(96, Budget(600, 0.01, longest=4), bounds={"copy": 0.8, "reverse": 0.8, "sort": 0.8}),
    "luong": Recipe(48, Budget(450, 0.01, longest=6), bounds={"copy": 0.95, "reverse": 0.95, "sort": 0.85}),
    "bahdanau": Recipe(48, Budget(450, 0.01, longest=6), bounds={"copy": 0.95, "reverse": 0.95, "sort": 0.85}),
    "convolutional": Recipe(
        48,
        Budget(500, 0.005, longest=6),
        bounds={"copy": 0.95, "reverse": 0.95, "sort": 0.9},
        overrides=tuple(f"model.{side}.embedding=48" for side in ("encoder", "decoder")),
    ),
    "transformer": Recipe(
        48,
        Budget(500, 0.005, longest=6),
        bounds={"copy": 0.95, "reverse": 0.9, "sort": 0.9},
        overrides=(
            *(f"model.{side}.{key}" for side in ("encoder", "decoder") for key in ("heads=4", "feed_forward=96")),
            "model.encoder.attention_dropout=0",
            "model.decoder.activation_dropout=0",
        ),
    ),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", RECIPES)
def test_it_learns(family: str, task: str, tmp_path: Path, seed: int) -> None:
    assert reached(family, RECIPES[family], task=task, folder=tmp_path, seed=seed) >= RECIPES[family].bounds[task]


OUTPUTS = {
    "sampled": ("model.output.kind=sampled", "model.output.samples=6"),
    "adaptive": ("model.output.kind=adaptive", "model.output.cutoffs=[4, 8]"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_it_learns_with_every_output_layer(kind: str, tmp_path: Path, seed: int) -> None:
    recipe = RECIPES["luong"]._replace(overrides=OUTPUTS[kind])
    assert reached("luong", recipe, task="copy", folder=tmp_path, seed=seed) >= recipe.bounds["copy"]


def reached(family: str, recipe: Recipe, *, task: str, folder: Path, seed: int) -> float:
    """The share of unseen sequences that a family has right after training."""
    settings = (*still_and(width=recipe.width), *recipe.overrides)
    right = learnt(family, *settings, budget=recipe.budget, task=task, folder=folder, seed=seed)
    print(f"{family} {' '.join(recipe.overrides)}, {task}, seed {seed}: {right:.1%} of unseen sequences right")
    return right
