"""Recognisers must learn: tones whose order decides the text, with CTC, and with attention beside it."""

import pytest

from calque.config import override
from calque.experiment import train
from tests.conftest import without_plots
from tests.spoken import recognition_values


@pytest.mark.slow
@pytest.mark.parametrize(("head", "most"), [("ctc", 10), ("hybrid", 35)])
def test_a_recogniser_learns_to_write_down_tones(tmp_path, seed, head, most) -> None:
    """The bound on the WER is looser for a hybrid, whose decoder of width 12 learns more slowly."""
    values = recognition_values(
        tmp_path, head=head, recordings=300, steps=900, validate_every=100, checkpoint_every=900, patience=0
    )
    values = override(
        {**values, "seed": seed % 1000}, ["model.encoder.width=48", "model.encoder.embedding=24", "model.features=24"]
    )
    with without_plots():
        best = train(values, run=tmp_path / "run", quiet=True).summary.best
    assert best is not None and best.values["wer"] <= most, best.summary
