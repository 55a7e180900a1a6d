"""Captioners must learn: the colour of a square and the corner that it lies in; attention finds the square."""

import pytest

from calque.config import override
from calque.engine import Captioner, load
from calque.engine.captioner_boxes import box_attention, manifest_entries
from calque.evaluation.attention_boxes import mean_attention
from calque.experiment import train
from tests.captioned import captioning_values, write_images
from tests.conftest import without_plots

SIZES = [
    "model.image.width=32",
    "model.decoder.width=32",
    "model.decoder.embedding=16",
    "model.decoder.readout=32",
    "model.decoder.dropout=0.0",
    "model.decoder.attention.alignment=16",
    "training.optimiser.learning_rate=0.005",
]
MODELS = {
    "soft": [*SIZES, "model.doubly_stochastic=0.0"],
    "doubly stochastic": [*SIZES, "model.doubly_stochastic=0.1"],
    "hard": [*SIZES, "model.doubly_stochastic=0.0", "model.decoder.attention.choice=hard"],
    "transformer": [
        "model.doubly_stochastic=0.0",
        'model.image={kind="patches", patch=4, width=32}',
        'model.encoder={kind="transformer", layers=1, width=32, heads=2, feed_forward=64}',
        'model.decoder={kind="transformer", layers=1, width=32, heads=2, feed_forward=64}',
        "training.optimiser.learning_rate=0.003",
    ],
}


@pytest.mark.parametrize(
    "name",
    ["soft", "transformer", *(pytest.param(name, marks=pytest.mark.full) for name in ("doubly stochastic", "hard"))],
)
def test_a_captioner_learns_what_is_where(tmp_path, seed, name) -> None:
    steps = {"hard": 900, "transformer": 700}.get(name, 300)
    values = captioning_values(tmp_path, steps=steps, validate_every=100, checkpoint_every=steps)
    write_images(tmp_path / "train", images=120, seed=seed % 1000)
    values = override({**values, "seed": seed % 1000}, [*MODELS[name], "training.metric=exact_match"])
    with without_plots():
        done = train(values, run=tmp_path / "run", quiet=True)
    assert done.summary.best is not None and done.summary.best.values["exact_match"] >= 95, done.summary.best
    captioner = load(done.folder)
    assert isinstance(captioner, Captioner)
    entries = manifest_entries(tmp_path / "valid" / "manifest.jsonl")
    assert mean_attention(list(box_attention(captioner, entries))).names == len(entries)
