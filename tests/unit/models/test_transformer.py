"""Who may look at what in the Transformer's decoder, and how it starts.

That prefixes of different length share a batch is the law `prefixes` in tests/laws/laws.py.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.laws.models import SIZES, source

from calque.models.transformer import TransformerConfig, TransformerEncoder, self_mask


@settings(max_examples=50, deadline=None)
@given(past=st.integers(0, 6), size=st.integers(1, 4), data=st.data())
def test_a_token_sees_its_rows_own_past_and_the_chunk_up_to_itself(past: int, size: int, data) -> None:
    position = data.draw(st.lists(st.integers(0, past), min_size=1, max_size=3))
    mask = self_mask(torch.tensor(position), past=past, size=size)
    assert mask.shape == (len(position), 1, size, past + size)
    for row, read in enumerate(position):
        for token in range(size):
            seen = mask[row, 0, token].nonzero().flatten().tolist()
            assert seen == list(range(past - read, past + token + 1))


@torch.no_grad()
def test_an_encoder_without_recurrence_ends_in_the_mean_of_its_true_positions() -> None:
    config = TransformerConfig(layers=1, width=6, heads=2, feed_forward=10)
    encoder = TransformerEncoder(config, vocabulary_size=SIZES.source).double().eval()
    memory = encoder(source())
    for row, size in enumerate(source().lengths.tolist()):
        torch.testing.assert_close(memory.final[0][row, 0], memory.values[row, :size].mean(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("width", "heads"), [(10, 4), (9, 3)])
def test_a_width_that_does_not_divide_is_refused(width: int, heads: int) -> None:
    with pytest.raises(ValidationError, match=f"width {width} must be even and a multiple of heads {heads}"):
        TransformerConfig(width=width, heads=heads)
