"""9. Fidelity to PyTorch's own modules with the same weights."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from calque.layers.multihead import MultiHead
from calque.models.recurrent import RecurrentEncoder, RecurrentEncoderConfig
from calque.models.transformer import (
    TransformerConfig,
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
)
from tests.laws.laws import close
from tests.laws.models import SIZES, SOURCE, TARGET, loud, source, target

KERNELS = {"rnn": nn.RNN, "rnn-relu": partial(nn.RNN, nonlinearity="relu"), "lstm": nn.LSTM, "gru": nn.GRU}


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", KERNELS)
@torch.no_grad()
def test_recurrent_encoder_is_pytorchs(cell: str, bidirectional: bool) -> None:
    config = RecurrentEncoderConfig(cell=cell, bidirectional=bidirectional, layers=3, width=6, embedding=5)
    encoder = loud(RecurrentEncoder(config, vocabulary_size=SIZES.source))
    whole = KERNELS[cell](5, 3 if bidirectional else 6, 3, batch_first=True, bidirectional=bidirectional).double()
    for number, directions in enumerate(encoder.layers):
        for layer, end in zip(directions, ["", "_reverse"], strict=False):
            for name, weight in layer.kernel.named_parameters():
                getattr(whole, f"{name.removesuffix('_l0')}_l{number}{end}").copy_(weight)

    sentences = source()
    embedded = encoder.embedding(sentences.values)
    packed, final = whole(pack_padded_sequence(embedded, sentences.lengths, batch_first=True, enforce_sorted=False))
    outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=SOURCE)

    memory = encoder(sentences)
    close(memory.values[memory.mask], outputs[memory.mask], tolerance=1e-9)
    for ours, theirs in zip(memory.final, final if cell == "lstm" else (final,), strict=True):
        # [L·2,B,D] with adjacent directions, as [B,L,2·D]
        merged = theirs.unflatten(0, (3, -1)).permute(2, 0, 1, 3).flatten(2)
        close(ours, merged, tolerance=1e-9)


@torch.no_grad()
def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def copy_block(theirs: nn.Module, ours: nn.Module, *, attentions: list[str], arounds: list[str]) -> None:
    """Copies the weights of one of our blocks to PyTorch's layer."""
    for mine, name in zip(attentions, ["self_attn", "multihead_attn"], strict=False):
        copy_attention(getattr(theirs, name), getattr(ours, mine))
    for mine, name in zip(arounds, ["norm1", "norm2", "norm3"], strict=False):
        getattr(theirs, name).load_state_dict(getattr(ours, mine).norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.enter.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.leave.state_dict())


def their_layer(kind: type, config: TransformerConfig) -> nn.Module:
    return kind(
        config.width,
        config.heads,
        config.feed_forward,
        0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    )


def encoder_pair(norm: str, activation: str) -> tuple[TransformerEncoder, nn.TransformerEncoder]:
    config = TransformerEncoderConfig(layers=2, width=6, heads=3, feed_forward=10, norm=norm, activation=activation)
    ours = loud(TransformerEncoder(config, vocabulary_size=SIZES.source))
    last = nn.LayerNorm(6) if norm == "pre" else None
    layer = their_layer(nn.TransformerEncoderLayer, config)
    theirs = nn.TransformerEncoder(layer, 2, norm=last, enable_nested_tensor=False).double().eval()
    for mine, block in zip(ours.blocks, theirs.layers, strict=True):
        copy_block(block, mine, attentions=["attention"], arounds=["around_attention", "around_feed_forward"])
    if last is not None:
        theirs.norm.load_state_dict(ours.norm.state_dict())
    return ours, theirs


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_transformer_encoder_is_pytorchs(norm: str, activation: str) -> None:
    ours, theirs = encoder_pair(norm, activation)
    memory = ours(source())
    expected = theirs(memory.inputs, src_key_padding_mask=~memory.mask)
    close(memory.values[memory.mask], expected[memory.mask], tolerance=1e-9)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_transformer_decoder_is_pytorchs(norm: str, activation: str) -> None:
    encoder, _ = encoder_pair(norm, activation)
    memory = encoder(source())
    config = TransformerDecoderConfig(layers=2, width=6, heads=3, feed_forward=10, norm=norm, activation=activation)
    ours = loud(TransformerDecoder(config, vocabulary_size=SIZES.target, memory=encoder.shape))
    last = nn.LayerNorm(6) if norm == "pre" else None
    layer = their_layer(nn.TransformerDecoderLayer, config)
    theirs = nn.TransformerDecoder(layer, 2, norm=last).double().eval()
    for mine, block in zip(ours.blocks, theirs.layers, strict=True):
        copy_block(
            block,
            mine,
            attentions=["self_attention", "cross_attention"],
            arounds=["around_self", "around_cross", "around_feed_forward"],
        )
    if last is not None:
        theirs.norm.load_state_dict(ours.norm.state_dict())

    tokens = target()
    context = ours.prepare(memory)
    output, _ = ours(tokens, ours.start(context), context)
    embedded: Tensor = ours.embedding(tokens, torch.arange(TARGET)[None], size=TARGET)
    future = torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1)
    expected = theirs(embedded, memory.values, tgt_mask=future, memory_key_padding_mask=~memory.mask)
    close(output.hidden, expected, tolerance=1e-9)
