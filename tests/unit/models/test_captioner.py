"""Captioners: their layers against second implementations, and the term of doubly stochastic attention."""

import pytest
import torch
from pydantic import ValidationError
from tests.laws.captioners import images
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from calque.config import override
from calque.models.captioner import CaptionerConfig, CaptionerModel, doubly_stochastic_term
from calque.models.images import (
    DEVIATION,
    MEAN,
    GridConfig,
    GridInputs,
    PatchesConfig,
    PatchInputs,
    grid_positions,
)
from calque.models.systems import CAPTIONERS, system_model
from calque.tensors import Padded


def test_patches_are_products_of_their_pixels() -> None:
    layer = PatchInputs(PatchesConfig(patch=4, width=6, positions="none")).double()
    source = images()
    vectors = layer(source).values
    weight, bias = layer.project.weight, layer.project.bias
    assert bias is not None
    for row in range(3):
        for column in range(3):
            patch = source.values[1, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].double()
            expected = bias.clone()
            for channel in range(3):
                expected += (weight[:, channel] * ((patch[..., channel] - MEAN) / DEVIATION)).sum(dim=(1, 2))
            assert_close(vectors[1, 3 * row + column], expected, rtol=0, atol=1e-9)


def test_a_grid_is_its_stages_one_after_the_other() -> None:
    layer = GridInputs(GridConfig(stages=2, width=16, positions="none")).double()
    source = images()
    values = ((source.values.double() - MEAN) / DEVIATION).permute(0, 3, 1, 2)
    for stage in layer.stages:
        first, second = stage.first, stage.second
        norms = [nn.GroupNorm(8, first.out_channels).double() for _ in range(2)]
        values = F.relu(norms[0](F.conv2d(values, first.weight, first.bias, stride=2, padding=1)))
        values = values + F.relu(norms[1](F.conv2d(values, second.weight, second.bias, padding=1)))
    expected = values.permute(0, 2, 3, 1).reshape(2, 9, 16)
    assert_close(layer(source).values, expected, rtol=0, atol=1e-9)


def test_positions_tell_rows_and_columns_apart() -> None:
    positions = grid_positions(torch.zeros(1, 12, 3, 4, dtype=torch.float64))
    assert positions.shape == (12, 3, 4)
    assert (positions[:6] == positions[:6, :, :1]).all()  # half of the channels depend on the row alone
    assert (positions[6:] == positions[6:, :1]).all()  # the others on the column
    flat = positions.flatten(1).T
    assert torch.cdist(flat, flat).add(torch.eye(12)).min() > 1e-3


def test_the_doubly_stochastic_term_is_the_equation_of_the_paper() -> None:
    """Σᵢ (1 − Σₜ αₜᵢ)² (Xu 2015, eq. 14), over the words that are not padding."""
    attention = torch.rand(2, 4, 5, dtype=torch.float64).softmax(dim=-1)
    lengths = [4, 2]
    expected = sum(
        (1 - sum(float(attention[row, word, cell]) for word in range(length))) ** 2
        for row, length in enumerate(lengths)
        for cell in range(5)
    )
    counts = torch.tensor([[True] * 4, [True, True, False, False]])
    assert float(doubly_stochastic_term(attention, counts)) == pytest.approx(expected)
    empty = torch.cat([counts, torch.zeros(1, 4, dtype=torch.bool)])
    filled = torch.cat([attention, attention[:1]])
    assert float(doubly_stochastic_term(filled, empty)) == pytest.approx(expected)


@pytest.mark.parametrize("name", CAPTIONERS)
@pytest.mark.parametrize("scale", [1.0, 0.25, 2.0])
def test_systems_can_be_scaled_and_keep_their_grid(name: str, scale: float) -> None:
    config = system_model(name, scale=scale)
    assert isinstance(config, CaptionerConfig)
    assert config.side(64) == 8 and config.positions(64) == 64
    model = CaptionerModel(config, vocabulary_size=20)
    assert model.encode(Padded(torch.zeros(1, 64, 64, 3, dtype=torch.uint8), torch.tensor([64]))).values.shape[1] == 64


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["decoder.copies=true"], "cannot be used with images, which have no words to copy"),
        (["doubly_stochastic=1.0", 'decoder={kind="recurrent"}'], "that decoder has no attention"),
        (["doubly_stochastic=1.0", "decoder.attention.choice=hard"], "sampled positions have no gradient"),
        (["image.width=15"], "width 15 must be even"),
        (['image={kind="patches", width=3}'], "width 3 must be even"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: list[str], problem: str) -> None:
    values = override({"decoder": {"kind": "bahdanau", "bridge": "tanh"}, "image": {"kind": "grid"}}, changes)
    with pytest.raises(ValidationError, match=problem):
        CaptionerConfig.model_validate(values)


def test_word_matrices_can_be_shared() -> None:
    config = system_model("liu2021", scale=0.25)
    assert isinstance(config, CaptionerConfig)
    model = CaptionerModel(config, vocabulary_size=20)
    assert model.output.weight is model.decoder.embedding.weight
