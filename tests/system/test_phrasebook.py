"""Every named system, made small, must learn the phrasebook, judged by combinations of words it has never seen.

scripts/test --full trains all of them and bounds their BLEU. A word-by-word dictionary and the translation of the
nearest training sentence, both of which the quickstart shows, have about 22 on the same sentences; recurrent systems
that two minutes do not carry so far have a bound below that.

scripts/test takes three systems by its seed and trains them briefly. Most then write English that has little to do with
the Chinese, so the bound is on what they know of it: how many nats a piece the translation costs less given its own
source than given another one's. A model that does not read its source has 0; the bounds are about half of the least
that any of three or four seeds reached.
"""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from calque.commands.data import write_book
from calque.config import override, to_values
from calque.data.phrasebook import phrasebook
from calque.evaluation.metrics import score_translations
from calque.experiment import train
from calque.models.systems import SYSTEMS, system_model
from calque.translator import load

pytestmark = pytest.mark.usefixtures("unplotted")

PAIRS = 6000
BRIEF_STEPS = 250
SAMPLE = 3


class Recipe(NamedTuple):
    """How small a system is made, how it learns, and what it must reach."""

    scale: float
    steps: int
    rate: float
    bleu: float  # after `steps`
    nats: float | None  # after BRIEF_STEPS; None where they are too few: draws are learnt late
    overrides: tuple[str, ...] = ()


class Reached(NamedTuple):
    """What a system makes of the test sentences."""

    bleu: float
    nats: float  # a piece, that its own source tells of a translation


ONE_LAYER = ("model.encoder.layers=1", "model.decoder.layers=1")  # a second one needs more than a minute to be of use

RECIPES = {
    "cho2014": Recipe(0.16, 700, 0.01, bleu=4, nats=0.25),
    "sutskever2014": Recipe(0.192, 600, 0.005, bleu=1.5, nats=0.05, overrides=ONE_LAYER),
    "bahdanau2015": Recipe(0.096, 450, 0.01, bleu=25, nats=1.2),
    "luong2015": Recipe(0.192, 600, 0.005, bleu=4, nats=0.12, overrides=ONE_LAYER),
    "luong2015-local-m": Recipe(0.192, 600, 0.005, bleu=4, nats=0.12, overrides=ONE_LAYER),
    "luong2015-local-p": Recipe(0.192, 600, 0.005, bleu=2, nats=0.15, overrides=ONE_LAYER),
    "luong2015-hard": Recipe(0.128, 1500, 0.005, bleu=30, nats=None, overrides=ONE_LAYER),
    "gnmt2016": Recipe(0.094, 600, 0.01, bleu=8, nats=0.5),
    "gehring2017": Recipe(0.1875, 450, 0.003, bleu=25, nats=1.5),
    "vaswani2017-base": Recipe(0.1875, 450, 0.003, bleu=30, nats=0.6),
    "vaswani2017-big": Recipe(0.0625, 450, 0.003, bleu=10, nats=0.25),
    "tiny": Recipe(0.75, 450, 0.003, bleu=30, nats=0.9),
    "small": Recipe(0.375, 450, 0.003, bleu=30, nats=0.9),
    "base": Recipe(0.125, 450, 0.003, bleu=12, nats=0.5),
    "fast": Recipe(0.375, 450, 0.003, bleu=25, nats=0.5),
}


def test_every_system_has_a_recipe() -> None:
    assert set(RECIPES) | {"language"} == set(SYSTEMS)  # which does not translate


@pytest.mark.full
@pytest.mark.parametrize("name", RECIPES)
def test_it_learns_the_phrasebook(name: str, tmp_path: Path, seed: int) -> None:
    recipe = RECIPES[name]
    found = reached(name, steps=recipe.steps, folder=tmp_path, seed=seed)
    assert found.bleu >= recipe.bleu
    assert found.nats >= (recipe.nats or 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(SAMPLE))
def test_it_begins_to_learn_the_phrasebook(place: int, tmp_path: Path, seed: int) -> None:
    bounds = {name: recipe.nats for name, recipe in RECIPES.items() if recipe.nats is not None}
    names = random.Random(seed).sample(sorted(bounds), SAMPLE)
    print(f"the sample: {', '.join(names)}")
    assert reached(names[place], steps=BRIEF_STEPS, folder=tmp_path, seed=seed).nats >= bounds[names[place]]


def reached(name: str, *, steps: int, folder: Path, seed: int) -> Reached:
    """How a system, made small and trained from Chinese to English, translates held-out combinations."""
    recipe = RECIPES[name]
    book = phrasebook(source="zh", target="en", pairs=PAIRS, seed=seed)
    write_book(book, folder / "book", languages=("zh", "en"))
    files = {
        part: [{"kind": "files", "source": str(folder / f"book/{part}.zh"), "target": str(folder / f"book/{part}.en")}]
        for part in ("train", "valid")
    }
    settings = [
        "text.vocabulary_size=2000",
        "training.device=cpu",
        "training.threads=1",
        "training.patience=0",
        "training.label_smoothing=0",
        "training.batch.tokens=1024",
        f"training.steps={steps}",
        f"training.validate_every={steps}",
        f"training.optimiser.learning_rate={recipe.rate}",
        "training.schedule.kind=linear",
        f"training.schedule.warmup={steps // 10}",
        "model.encoder.dropout=0.0",
        "model.decoder.dropout=0.0",
        *recipe.overrides,
    ]
    model = to_values(system_model(name, scale=recipe.scale))
    run = train(override({"seed": seed, "data": files, "model": model}, settings), run=folder / "run", quiet=True)
    translator = load(run.folder, device="cpu")
    sources, references = [pair.source for pair in book.test], [pair.target for pair in book.test]
    scores = score_translations(translator.translate(sources), references)
    loss, mistaken = translator.loss(sources, references), translator.loss(sources[1:] + sources[:1], references)
    print(
        f"{name} × {recipe.scale}, {PAIRS} pairs, {steps} steps, seed {seed}: BLEU {scores.bleu.value:.1f}, "
        f"{scores.exact_match.value:.1f} % exact; {loss:.2f} nats a piece, {mistaken:.2f} with another source"
    )
    return Reached(scores.bleu.value, mistaken - loss)
