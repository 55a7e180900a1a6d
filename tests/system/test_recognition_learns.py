"""Recognisers must learn: tones whose order decides the text, with CTC alone and with a decoder beside it."""

import pytest

from calque.config import override
from calque.experiment import train
from tests.conftest import without_plots
from tests.spoken import recognition_values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "steps", "most"), [("ctc", 1600, 10), pytest.param("hybrid", 3000, 35, marks=pytest.mark.full)]
)
def test_a_recogniser_learns_to_write_down_tones(tmp_path, seed, head, steps, most) -> None:
    """A hybrid, whose decoder of width 12 learns more slowly, has more steps and a looser bound on the WER."""
    values = recognition_values(
        tmp_path, head=head, recordings=300, steps=steps, validate_every=100, checkpoint_every=steps, patience=0
    )
    values = override(
        {**values, "seed": seed % 1000}, ["model.encoder.width=48", "model.encoder.embedding=24", "model.features=24"]
    )
    with without_plots():
        best = train(values, run=tmp_path / "run", quiet=True).summary.best
    assert best is not None and best.values["wer"] <= most, best.summary
