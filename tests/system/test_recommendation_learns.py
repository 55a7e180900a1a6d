"""A recommender learns generated histories: their order and, if it reads them, what times and behaviours tell."""

from pathlib import Path

import pytest

from calque.experiment import train
from tests.conftest import without_plots
from tests.histories import GRU, TIME_AWARE, TRANSFORMER, recommendation_values

pytestmark = pytest.mark.slow

LARGER = {"width": 32, "feed_forward": 64}


@pytest.mark.parametrize(
    ("network", "least"),
    [
        ({**TRANSFORMER, **LARGER}, 0.45),  # 0.65 can be known from the order of items
        ({**GRU, "width": 48, "embedding": 32}, 0.45),
        ({**TIME_AWARE, **LARGER}, 0.7),  # 0.95 with times and behaviours
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_it_learns(network, least: float, tmp_path: Path, seed: int) -> None:
    values = recommendation_values(
        tmp_path, network=network, users=1500, steps=400, validate_every=100, checkpoint_every=400
    )
    values["task"]["exclude_seen"] = False
    values["seed"] = seed
    values["training"]["batch"]["tokens"] = 512
    with without_plots():
        best = train(values, run=tmp_path / "run", quiet=True).summary.best
    assert best is not None
    print(best.summary)
    assert best.values["hr@1"] > least
