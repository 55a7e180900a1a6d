"""The laws of sentence vectors, over one list of all sentence encoders: padding, rows, gradients."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from calque.models.sentence_encoder import SIDES, SentenceEncoderModel, Side
from calque.objectives.contrastive import contrastive_losses
from calque.tensors import Padded
from tests.laws.sentence_encoders import PIECES, SENTENCE_ENCODERS, SENTENCES, build, sentences
from tests.laws.slopes import slopes_in_a_direction


@pytest.fixture(params=sorted(SENTENCE_ENCODERS))
def model(request: pytest.FixtureRequest) -> SentenceEncoderModel:
    return build(request.param)


@pytest.mark.parametrize("side", SIDES)
@torch.no_grad()
def test_padding_affects_nothing(model: SentenceEncoderModel, side: Side) -> None:
    own, other = sentences(), sentences(seed=1)
    disturbed = Padded(own.values.where(own.mask, other.values), own.lengths)
    assert not torch.equal(disturbed.values, own.values)
    wider = Padded(torch.cat([disturbed.values, other.values], dim=1), own.lengths)
    vectors = model.encode(own, side)
    assert vectors.shape == (SENTENCES, model.width)
    assert_close(model.encode(disturbed, side), vectors, rtol=0, atol=1e-9)
    assert_close(model.encode(wider, side), vectors, rtol=0, atol=1e-9)


@torch.no_grad()
def test_rows_are_read_alike_in_any_order_and_company(model: SentenceEncoderModel) -> None:
    own = sentences()
    whole = model.encode(own, "source")
    assert (torch.cdist(whole, whole) + torch.eye(SENTENCES) > 1e-6).all()
    for rows, size in (([2, 0, 1, 2], PIECES), ([1, 2], 4), ([2], 2)):
        part = model.encode(Padded(own.values[rows, :size], own.lengths[rows]), "source")
        assert_close(part, whole[rows], rtol=0, atol=1e-9)


@torch.no_grad()
def test_vectors_have_length_one_where_the_config_says_so(model: SentenceEncoderModel) -> None:
    lengths = model.encode(sentences(), "source").norm(dim=1)
    is_one = torch.allclose(lengths, torch.ones_like(lengths))
    assert is_one == model.source.normalise


@torch.no_grad()
def test_sides_share_an_encoder_or_have_their_own(model: SentenceEncoderModel) -> None:
    one, other = (model.encode(sentences(), side) for side in SIDES)
    assert torch.equal(one, other) == (model.target is None)


def _loss(model: SentenceEncoderModel) -> Tensor:
    source, target = (model.encode(sentences(seed), side) for seed, side in enumerate(SIDES))
    return contrastive_losses(source, target, temperature=0.7, margin=0.1).sum()


def test_every_parameter_learns(model: SentenceEncoderModel) -> None:
    model.train()
    _loss(model).backward()
    idle = {name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()}
    assert not idle


def test_gradients_are_those_of_finite_differences(model: SentenceEncoderModel) -> None:
    """Along one random direction through all weights at once."""
    parameters = [value for value in model.parameters() if value.requires_grad]
    numerical, analytical = slopes_in_a_direction(lambda: _loss(model), parameters, step=1e-6)
    assert numerical == pytest.approx(analytical, rel=1e-4)


@torch.no_grad()
def test_each_side_has_its_encoder() -> None:
    model, text = build("lstm-mean"), sentences()
    assert model.target is not None
    assert torch.equal(model.encode(text, "source"), model.source(text))
    assert torch.equal(model.encode(text, "target"), model.target(text))
