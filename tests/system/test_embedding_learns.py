"""Sentence encoders must learn: unseen sequences find their partners in another alphabet."""

from pathlib import Path

import pytest

from calque.experiment import train
from tests.conftest import toy_corpus, without_plots

ENCODERS = {
    "bag of words": {"kind": "mean", "width": 32, "embedding": 32, "dropout": 0.0},
    "lstm": {"kind": "recurrent", "layers": 1, "width": 32, "embedding": 16, "dropout": 0.0},
}


@pytest.mark.parametrize("name", ENCODERS)
def test_partners_are_found_in_another_alphabet(name: str, tmp_path: Path, seed: int) -> None:
    """By chance, 1 % would be."""
    corpus = {
        role: toy_corpus(
            tmp_path / role,
            pairs=pairs,
            change=lambda row: [letter.upper() for letter in row],
            seed=seed % 1000 + number,
            letters="abcdefghijklmnop",
            longest=9,
        )
        for number, (role, pairs) in enumerate({"train": 600, "valid": 100}.items())
    }
    values = {
        "seed": seed % 1000,
        "task": {"kind": "embedding"},
        "data": {
            role: [{"kind": "files", **{side: str(path) for side, path in files.items()}}]
            for role, files in corpus.items()
        },
        "text": {"kind": "tokens"},
        "model": {"pooling": "mean", "projection": 32, "dropout": 0.0, "encoder": ENCODERS[name]},
        "training": {
            "steps": 120,
            "validate_every": 60,
            "checkpoint_every": 120,
            "log_every": 20,
            "threads": 1,
            "device": "cpu",
            "batch": {"tokens": 600},
            "optimiser": {"learning_rate": 0.01},
            "schedule": {"warmup": 10},
        },
    }
    with without_plots():
        done = train(values, run=tmp_path / "run", quiet=True)
    assert done.summary.best_value > 90
