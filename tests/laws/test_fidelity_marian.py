"""9. Fidelity to Hugging Face's Marian with the same weights."""

from typing import Any

import pytest
import torch
from torch import nn

from calque.layers.multihead import MultiHead
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from calque.tensors import Padded

PIECES, WIDTH, HEADS, INNER, LAYERS = 29, 16, 4, 20, 2


@pytest.fixture(scope="module")
def marian() -> Any:
    """A small model with random weights, large enough that every part has an effect."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=PIECES,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        forced_eos_token_id=1,
        decoder_start_token_id=0,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # not the sinusoids
                parameter.copy_(torch.randn_like(parameter) * 0.4)
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    return model


@torch.no_grad()
def with_weights_of(theirs: Any) -> Model:
    """Our post-norm Transformer with Marian's weights."""
    config = ModelConfig(
        tie="all",
        encoder=TransformerEncoderConfig(layers=LAYERS, width=WIDTH, heads=HEADS, feed_forward=INNER, norm="post"),
        decoder=TransformerDecoderConfig(layers=LAYERS, width=WIDTH, heads=HEADS, feed_forward=INNER, norm="post"),
    )
    ours = Model(config, sizes=Sizes(PIECES, PIECES, joint=True)).eval()
    ours.output.weight.copy_(theirs.model.shared.weight)
    ours.output.bias.copy_(theirs.final_logits_bias[0])
    for mine, layer in zip(ours.encoder.blocks, theirs.model.encoder.layers, strict=True):
        copy_attention(mine.attention, layer.self_attn)
        copy_parts(mine, layer, {"around_attention": "self_attn_layer_norm"})
    for mine, layer in zip(ours.decoder.blocks, theirs.model.decoder.layers, strict=True):
        copy_attention(mine.self_attention, layer.self_attn)
        copy_attention(mine.cross_attention, layer.encoder_attn)
        copy_parts(mine, layer, {"around_self": "self_attn_layer_norm", "around_cross": "encoder_attn_layer_norm"})
    return ours


def copy_attention(ours: MultiHead, theirs: nn.Module) -> None:
    ours.query.load_state_dict(theirs.q_proj.state_dict())
    ours.key_value.weight.copy_(torch.cat([theirs.k_proj.weight, theirs.v_proj.weight]))
    ours.key_value.bias.copy_(torch.cat([theirs.k_proj.bias, theirs.v_proj.bias]))
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def copy_parts(ours: nn.Module, theirs: nn.Module, norms: dict[str, str]) -> None:
    ours.feed_forward.enter.load_state_dict(theirs.fc1.state_dict())
    ours.feed_forward.leave.load_state_dict(theirs.fc2.state_dict())
    for mine, name in (norms | {"around_feed_forward": "final_layer_norm"}).items():
        getattr(ours, mine).norm.load_state_dict(getattr(theirs, name).state_dict())


@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_logits_are_marians(marian: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(1, PIECES, (4, 11), generator=generator)
    target = torch.randint(0, PIECES, (4, 9), generator=generator)
    lengths = torch.tensor([11, 3, 1, 7])
    padded = Padded(source, lengths)
    ours = with_weights_of(marian)
    logits = ours.output.logits(ours(padded, target).hidden)
    expected = marian(input_ids=source, attention_mask=padded.mask.long(), decoder_input_ids=target).logits
    assert expected.std() > 0.5
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_every_changed_weight_is_detected(marian: Any) -> None:
    """The comparison detects a small change of any weight."""
    source, target = torch.randint(1, PIECES, (2, 11)), torch.randint(0, PIECES, (2, 9))
    expected = marian(input_ids=source, decoder_input_ids=target).logits
    undetected = []
    for name, _ in with_weights_of(marian).named_parameters():
        ours = with_weights_of(marian)
        changed = ours.get_parameter(name)
        changed += 0.1 * torch.randn_like(changed)
        logits = ours.output.logits(ours(Padded(source, torch.tensor([11, 11])), target).hidden)
        if torch.allclose(logits, expected, rtol=1e-4, atol=1e-4):
            undetected.append(name)
    assert undetected == []
