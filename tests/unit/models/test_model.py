"""Whole models: tied matrices are one, and what cannot be built is refused with the reason."""

import pytest
import torch
from pydantic import ValidationError
from tests.laws.models import MODELS, SIZES, build, idle, sizes, source, target

from calque.errors import ConfigError
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.attention import AttentionConfig
from calque.layers.output import FullOutputConfig
from calque.layers.sampled import SampledOutputConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.luong import LuongConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig

JOINT = Sizes(11, 11, joint=True)
SMALL = TransformerEncoderConfig(layers=1, width=6, heads=2, feed_forward=10)
SMALL_DECODER = TransformerDecoderConfig(layers=1, width=6, heads=2, feed_forward=10)


def transformer(tie: str, *, encoder: TransformerEncoderConfig = SMALL, **options) -> ModelConfig:
    return ModelConfig(tie=tie, encoder=encoder, decoder=SMALL_DECODER, **options)


def matrices(model: Model) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return model.encoder.embedding.weight, model.decoder.embedding.weight, model.output.weight


@pytest.mark.parametrize(("tie", "distinct"), [("none", 3), ("target", 2), ("all", 1)])
def test_tied_matrices_are_one_parameter(tie: str, distinct: int) -> None:
    model = Model(transformer(tie), sizes=JOINT)
    source_side, target_side, output = matrices(model)
    assert len({id(matrix) for matrix in matrices(model)}) == distinct
    assert (output is target_side) == (tie != "none")
    assert (source_side is target_side) == (tie == "all")
    untied = sum(parameter.numel() for parameter in Model(transformer("none"), sizes=JOINT).parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) == untied - (3 - distinct) * 11 * 6


@pytest.mark.parametrize(
    ("sizes", "options", "tie"),
    [
        (JOINT, {}, "all"),
        (JOINT._replace(joint=False), {}, "target"),
        (JOINT, {"output": AdaptiveOutputConfig()}, "embeddings"),
        (JOINT._replace(joint=False), {"output": AdaptiveOutputConfig()}, "none"),
    ],
)
def test_automatic_tying_shares_what_the_vocabularies_and_the_output_allow(
    sizes: Sizes, options: dict[str, AdaptiveOutputConfig], tie: str
) -> None:
    assert transformer("auto", **options).tie_with(joint=sizes.joint) == tie
    assert transformer("none").tie_with(joint=sizes.joint) == "none"
    if not options:
        model = Model(transformer("auto"), sizes=sizes)
        assert model.output.weight is model.decoder.embedding.weight
        assert (model.encoder.embedding.weight is model.decoder.embedding.weight) == sizes.joint


@pytest.mark.parametrize("tie", ["target", "all"])
def test_tied_matrices_stay_one_through_a_step_and_a_copy(tie: str) -> None:
    model = Model(transformer(tie), sizes=JOINT).double()
    hidden = model(source()._replace(values=source().values % 11), target()).hidden.flatten(0, 1)
    model.output.loss(hidden, target().flatten(), smoothing=0.1).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    other = Model(transformer(tie), sizes=JOINT).double()
    other.load_state_dict(model.state_dict())
    for each in (model, other):
        source_side, target_side, output = matrices(each)
        assert torch.equal(output, target_side)
        assert tie == "target" or torch.equal(source_side, target_side)
    assert torch.equal(model.output.weight, other.output.weight)


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_the_names_in_a_state_do_not_depend_on_tying(tie: str) -> None:
    names = set(Model(transformer(tie), sizes=JOINT).state_dict())
    assert names == set(Model(transformer("none"), sizes=JOINT).state_dict())
    assert {"encoder.embedding.weight", "decoder.embedding.weight", "output.weight", "output.bias"} <= names


def test_the_output_layer_is_the_full_softmax_unless_said() -> None:
    assert ModelConfig().output == FullOutputConfig()
    names = {name for name, _ in Model(transformer("none"), sizes=JOINT).named_parameters()}
    assert {name for name in names if name.startswith("output.")} == {"output.weight", "output.bias"}


@pytest.mark.parametrize("tie", ["target", "all"])
def test_an_adaptive_softmax_is_never_tied_and_a_sampled_one_may_be(tie: str) -> None:
    with pytest.raises(ValidationError, match=rf"tie = '{tie}' and output.kind = 'adaptive'.*set model.tie = 'none'"):
        transformer(tie, output=AdaptiveOutputConfig())
    model = Model(transformer(tie, output=SampledOutputConfig()), sizes=JOINT)
    assert model.output.weight is model.decoder.embedding.weight


REFUSED = {
    "all without a joint vocabulary": (
        transformer("all"),
        SIZES,
        r"text\.joint = true, or model\.tie = 'target' or 'none'",
    ),
    "matrices of different width": (
        ModelConfig(tie="target", encoder=SMALL, decoder=BahdanauConfig(embedding=7, readout=8, bridge="tanh")),
        SIZES,
        r"model.tie = 'target'.*\(11, 8\) and \(11, 7\)",
    ),
    "sides of different width": (
        transformer("all", encoder=SMALL.model_copy(update={"width": 8})),
        JOINT,
        "model.tie = 'all'",
    ),
    "more decoder layers than states": (
        ModelConfig(
            encoder=RecurrentEncoderConfig(layers=1, width=6, embedding=5),
            decoder=RecurrentDecoderConfig(layers=2, width=6, embedding=7),
        ),
        SIZES,
        "model.decoder: bridge 'copy': the decoder has 2 layers.*states for only 1;",
    ),
    "copy between widths": (
        ModelConfig(
            encoder=RecurrentEncoderConfig(layers=2, width=6, embedding=5),
            decoder=RecurrentDecoderConfig(layers=2, width=9, embedding=7),
        ),
        SIZES,
        "width 6 differs from the decoder's 9; use bridge = 'tanh'",
    ),
    "dot between widths": (
        ModelConfig(
            encoder=RecurrentEncoderConfig(layers=2, width=6, embedding=5),
            decoder=LuongConfig(layers=2, width=9, embedding=7, bridge="tanh", attention=AttentionConfig(score="dot")),
        ),
        SIZES,
        "use score = 'general'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_built_is_refused_with_the_way_out(name: str) -> None:
    config, sizes, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        Model(config, sizes=sizes)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_learns(name: str) -> None:
    assert idle(MODELS[name]) == set()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_dropout_rests_in_evaluation(name: str) -> None:
    config = MODELS[name]
    sides = {side: getattr(config, side).model_copy(update={"dropout": 0.3}) for side in ("encoder", "decoder")}
    model = Model(config.model_copy(update=sides), sizes=sizes(name)).double()
    assert not torch.allclose(model(source(), target()).hidden, model(source(), target()).hidden)
    model.eval()
    assert torch.equal(model(source(), target()).hidden, model(source(), target()).hidden)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_attention_comes_only_when_asked_for_and_changes_nothing(name: str) -> None:
    model = Model(MODELS[name], sizes=sizes(name)).double().eval()
    context = model.decoder.prepare(model.encode(source()))
    quiet, _ = model.decoder(target(), model.decoder.start(context), context)
    asked, _ = model.decoder(target(), model.decoder.start(context), context, attention=True)
    assert quiet.attention is None
    assert (asked.attention is not None) == model.decoder.attends
    assert (quiet.copied is None) == (quiet.gate is None)
    assert torch.equal(quiet.hidden, asked.hidden)


HARD_COPIES = [name for name, config in MODELS.items() if "hard" in name and getattr(config.decoder, "copies", False)]


@pytest.mark.parametrize("name", HARD_COPIES)
def test_hard_attention_copies_from_all_it_weighed(name: str) -> None:
    """A draw, or the most likely position alone, would leave no other word to copy, and teach the scores nothing."""
    model, sentences = build(name), source()
    context = model.prepare(sentences)
    output, _ = model.read(target(), model.start(context), context, attention=True)
    assert ((output.attention == 0) | (output.attention == 1)).all()
    assert ((output.copied[0] > 0).sum(dim=-1) > 1).all()
    totals = model.log_probs(output, context).logsumexp(dim=-1)
    torch.testing.assert_close(totals, torch.zeros_like(totals), rtol=0, atol=1e-9)
    words = sentences.values[:, :1].expand_as(target())  # words that can be copied
    model.losses(output, sentences.values, words, smoothing=0.0, ignored=-1).sum().backward()
    learning = [one.grad for one in model.decoder.attention.score.parameters()]
    assert learning and all(gradient is not None and gradient.any() for gradient in learning)


def test_some_models_copy_with_hard_attention() -> None:
    assert len(HARD_COPIES) >= 2
