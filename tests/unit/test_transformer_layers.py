"""The variants' layers: second ways to the same numbers, PyTorch's own where it has them."""

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.feed_forward import FeedForward, SwiGLUFeedForward
from calque.layers.mixers import AverageAttention, recur
from calque.layers.multihead import Chunk, KeysValues, MultiHead, RelativeMultiHead
from calque.layers.normalisation import build_norm
from calque.layers.positions import rotate, sinusoids

ROWS, SIZE, WIDTH, HEADS = 2, 5, 8, 4


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def chunk(start: int = 0, *, turn: Tensor | None = None) -> Chunk:
    return Chunk(start + torch.arange(SIZE).expand(ROWS, -1), None, turn)


def around(attention: MultiHead, inputs: Tensor, **options: Tensor) -> Tensor:
    """Causal self-attention as training has it."""
    found, _ = attention.read(inputs, attention.start(ROWS, like=inputs), chunk(**options))
    return found


def _relative(key_value_heads: int | None = None) -> RelativeMultiHead:
    return RelativeMultiHead(WIDTH, heads=HEADS, dropout=0.0, reach=2, key_value_heads=key_value_heads)


def _multihead(key_value_heads: int | None = None) -> MultiHead:
    return MultiHead(WIDTH, memory_width=WIDTH, heads=HEADS, dropout=0.0, key_value_heads=key_value_heads)


@torch.no_grad()
def test_rms_norm_is_its_formula() -> None:
    norm, inputs = loud(build_norm("rms", width=WIDTH)), random(ROWS, SIZE, WIDTH)
    expected = norm.weight * inputs / ((inputs * inputs).mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(norm(inputs), expected, rtol=0, atol=1e-12)
    assert not norm(torch.zeros(WIDTH, dtype=torch.float64)).any()


@torch.no_grad()
def test_swiglu_with_an_open_gate_is_swish() -> None:
    layer, inputs = loud(SwiGLUFeedForward(WIDTH, inner=3, dropout=0.0)), random(ROWS, WIDTH)
    layer.scale.weight.zero_()
    layer.scale.bias.fill_(1)
    torch.testing.assert_close(layer(inputs), layer.leave(F.silu(layer.enter(inputs))), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("key_value_heads", [1, 2])
@torch.no_grad()
def test_grouped_queries_are_attention_with_repeated_heads(key_value_heads: int, dtype: torch.dtype) -> None:
    attention = loud(_multihead(key_value_heads), dtype=dtype)
    inputs = random(ROWS, SIZE, WIDTH).to(dtype)
    kept = attention.remember(inputs)
    repeated = [part.repeat_interleave(HEADS // key_value_heads, dim=1) for part in kept]
    queries = attention.query(inputs).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    mask = torch.tensor([[True] * SIZE, [True] * 2 + [False] * 3])[:, None, None]
    for options in ({"attn_mask": mask}, {"is_causal": True}):
        expected = attention.out(
            F.scaled_dot_product_attention(queries, *repeated, **options).transpose(1, 2).flatten(2)
        )
        found = attention(inputs, kept, options.get("attn_mask"), causal="is_causal" in options)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("key_value_heads", [None, 2, 1])
@torch.no_grad()
def test_relative_attention_without_distances_is_attention(key_value_heads: int | None) -> None:
    relative, plain = loud(_relative(key_value_heads)), loud(_multihead(key_value_heads))
    relative.key_distances.zero_()
    relative.value_distances.zero_()
    plain.load_state_dict(relative.state_dict(), strict=False)
    inputs = random(ROWS, SIZE, WIDTH)
    torch.testing.assert_close(around(relative, inputs), around(plain, inputs), rtol=0, atol=1e-12)
    mask = torch.tensor([[True] * SIZE, [True] * 2 + [False] * 3])[:, None, None]
    ours, theirs = (each(inputs, each.remember(inputs), mask) for each in (relative, plain))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@torch.no_grad()
def test_attention_with_rotary_positions_forgets_where_the_text_begins() -> None:
    attention, inputs = loud(_multihead()), random(ROWS, SIZE, WIDTH)
    early, late = (sinusoids(20, width=2)[start : start + SIZE].expand(ROWS, -1, -1) for start in (0, 11))
    torch.testing.assert_close(
        around(attention, inputs, turn=early), around(attention, inputs, turn=late), rtol=0, atol=1e-12
    )
    assert not torch.allclose(around(attention, inputs, turn=early), around(attention, inputs))
    assert torch.equal(attention.remember(inputs, turn=early).keys, rotate(attention.remember(inputs).keys, early))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 33])
def test_the_recurrence_is_a_sum_of_decayed_inputs(size: int) -> None:
    """c_t = Σ_s inputs_s · decay_{s+1} ⋯ decay_t, the start being the input before all others."""
    decay, inputs, start = random(ROWS, size, WIDTH).sigmoid(), random(ROWS, size, WIDTH), random(ROWS, WIDTH)
    everything = torch.cat([start[:, None], inputs], dim=1)
    for last, found in enumerate(recur(decay, inputs, start=start).unbind(1), start=1):
        parts = [everything[:, first] * decay[:, first:last].prod(dim=1) for first in range(last + 1)]
        torch.testing.assert_close(found, sum(parts), rtol=0, atol=1e-12)


@torch.no_grad()
def test_average_attention_averages_from_the_rows_own_start() -> None:
    """With a feed-forward of the identity and gates half open, it is half the token plus half the mean so far."""
    feed_forward = FeedForward(WIDTH, inner=WIDTH, dropout=0.0)
    for linear in (feed_forward.enter, feed_forward.leave):
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    layer = AverageAttention(WIDTH, feed_forward=feed_forward).double()
    nn.init.zeros_(layer.gates.weight)
    inputs, before = random(ROWS, SIZE, WIDTH).abs(), random(ROWS, 2, WIDTH).abs()
    places = torch.tensor([[2], [0]]) + torch.arange(SIZE)
    carried = torch.stack([before[0].sum(0), torch.zeros(WIDTH).double()])
    found, after = layer.read(inputs, carried, Chunk(places, None, None))
    texts = [torch.cat([before[0], inputs[0]]), inputs[1]]
    for row, text in enumerate(texts):
        for place in range(SIZE):
            end = len(text) - SIZE + place + 1
            torch.testing.assert_close(found[row, place], (text[end - 1] + text[:end].mean(0)) / 2, rtol=0, atol=1e-12)
        torch.testing.assert_close(after[row], text.sum(0), rtol=0, atol=1e-12)


@torch.no_grad()
def test_relative_attention_drops_its_weights_in_training() -> None:
    attention = loud(RelativeMultiHead(WIDTH, heads=HEADS, dropout=0.5, reach=2))
    inputs = random(ROWS, SIZE, WIDTH)
    rested = around(attention, inputs)
    assert torch.equal(around(attention, inputs), rested)
    assert not torch.allclose(around(attention.train(), inputs), rested)


@torch.no_grad()
def test_what_is_kept_grows_by_the_chunk() -> None:
    attention, inputs = loud(_multihead(2)), random(ROWS, SIZE, WIDTH)
    _, first = attention.read(inputs, attention.start(ROWS, like=inputs), chunk())
    mask = torch.ones(ROWS, 1, SIZE, 2 * SIZE, dtype=torch.bool).tril(SIZE)
    _, second = attention.read(inputs, first, chunk(SIZE)._replace(mask=mask, past=SIZE))
    assert isinstance(second, KeysValues)
    assert second.keys.shape == (ROWS, 2, 2 * SIZE, WIDTH // HEADS)
    assert torch.equal(second.keys[:, :, :SIZE], first.keys)
