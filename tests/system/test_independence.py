"""A translation does not depend on what else is in its batch (P15): every named system, made small and trained briefly.

Each sentence is translated alone and in batches of several sizes and orders. In float32 log-probabilities agree to
2e-5 for each token and texts are the same, or else the two searches part between outcomes within 1e-5 of each other,
which is proved for every difference (recipes/search/independence.py). In float64 there is no difference, also over the
translator's own batches.
"""

import random
from pathlib import Path

import pytest
from recipes.search import independence

from calque.config import override, to_values
from calque.engine import load
from calque.experiment import train
from calque.models.systems import TRANSLATORS, system_model
from calque_phrasebook import phrasebook, write_phrasebook
from tests.system.test_systems_learn import RECIPES

pytestmark = pytest.mark.usefixtures("unplotted")

STEPS, PAIRS = 60, 4000
MOST, FEWER, IN_FLOAT64 = 200, 30, 15  # sentences
LIMITS = {  # what has hardly learnt runs on, or says nothing
    "beam": 4,
    "minimum_ratio": 0.7,
    "maximum_ratio": 1.0,
    "maximum_extra": 3,
}
QUICK = ("luong2015", "tiny")


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Path:
    """A small phrasebook."""
    folder = tmp_path_factory.mktemp("book")
    write_phrasebook(phrasebook(source="zh", target="en", pairs=PAIRS, seed=seed), folder, languages=("zh", "en"))
    return folder


def test_every_system_is_there() -> None:
    assert set(RECIPES) == set(TRANSLATORS)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RECIPES]
)
def test_a_batch_does_not_change_a_translation(name: str, book: Path, tmp_path: Path, seed: int) -> None:
    refuse_dependence(trained(name, book=book, folder=tmp_path, seed=seed), book=book, count=FEWER, seed=seed)


@pytest.mark.full
@pytest.mark.parametrize("name", RECIPES)
def test_nor_among_two_hundred(name: str, book: Path, tmp_path: Path, seed: int) -> None:
    refuse_dependence(trained(name, book=book, folder=tmp_path, seed=seed), book=book, count=MOST, seed=seed)


def refuse_dependence(run: Path, *, book: Path, count: int, seed: int) -> None:
    """Fails where a batch changes a translation and it is not proved that its two outcomes are as good as equal."""
    lines = (book / "test.zh").read_text(encoding="utf-8").splitlines()
    for precision, size in (("float32", count), ("float64", IN_FLOAT64)):
        sources = random.Random(seed).sample(lines, size)
        translator = load(run, device="cpu", precision=precision)
        search = translator.search.model_copy(update=LIMITS)
        comparison = independence.compare(translator, sources, search=search, sizes=(7, size), seed=seed)
        share = f"{len(comparison.differences)} of {comparison.comparisons} differ"
        print(f"in {precision} {share}, noise {comparison.noise:.1e}, {len(set(comparison.alone))} texts")
        if precision == "float32":
            assert len(set(comparison.alone)) > 1, "it has learnt to say something"
            assert comparison.noise <= independence.SCORE_NOISE
            assert all(difference.divergence.gap <= independence.NEAR for difference in comparison.differences)
        else:
            assert (comparison.differences, comparison.noise <= 1e-12) == ([], True)
            assert [translation.text for translation in translator.stream(sources, search=search)] == comparison.alone


def trained(name: str, *, book: Path, folder: Path, seed: int) -> Path:
    """A run of a few steps."""
    sides = {"source": str(book / "train.zh"), "target": str(book / "train.en")}
    settings = [
        "text.vocabulary_size=1100",
        "training.device=cpu",
        "training.threads=1",
        "training.patience=0",
        "training.average=0",
        "training.batch.tokens=512",
        f"training.optimiser.learning_rate={RECIPES[name].budget.rate / 2}",
        "training.schedule.kind=linear",
        "training.schedule.warmup=10",
        *(f"training.{key}={STEPS}" for key in ("steps", "validate_every", "checkpoint_every", "log_every")),
    ]
    model = to_values(system_model(name, scale=RECIPES[name].scale))
    values = override({"seed": seed, "data": {"train": [{"kind": "files", **sides}]}, "model": model}, settings)
    return train(values, run=folder / "run", quiet=True).folder
