"""What a recurrent encoder leaves behind."""

import pytest
import torch
from pydantic import ValidationError
from tests.laws.models import SIZES, loud, source

from calque.models.recurrent import RecurrentEncoder, RecurrentEncoderConfig


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "gru-original"])
@torch.no_grad()
def test_the_last_states_are_what_each_direction_ends_with(cell: str) -> None:
    """→h at the last token and ←h at the first are both in the top layer's memory."""
    config = RecurrentEncoderConfig(cell=cell, layers=2, width=6, embedding=5)
    memory = loud(RecurrentEncoder(config, vocabulary_size=SIZES.source))(source())
    for row, size in enumerate(source().lengths.tolist()):
        ends = torch.cat([memory.values[row, size - 1, :3], memory.values[row, 0, 3:]])
        torch.testing.assert_close(memory.final[0][row, -1], ends, rtol=0, atol=1e-12)


def test_two_directions_need_an_even_width() -> None:
    with pytest.raises(ValidationError, match="width 7 must be even"):
        RecurrentEncoderConfig(width=7)
    assert RecurrentEncoderConfig(width=7, bidirectional=False).width == 7
