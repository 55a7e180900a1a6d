"""Losses of sampled negatives against their equations, and what is sampled."""

import pytest
import torch
from torch.testing import assert_close

from calque.layers.negatives import NegativesOutput, NegativesOutputConfig
from calque.layers.sampled import draw

FIRST, SIZE, WIDTH = 4, 11, 3


def layer(**settings: object) -> NegativesOutput:
    torch.manual_seed(0)
    output = NegativesOutput(NegativesOutputConfig(**settings), vocabulary_size=SIZE, width=WIDTH, first=FIRST).double()
    output.bias.data.normal_()
    return output


@pytest.mark.parametrize("loss", ["binary", "pairwise"])
def test_the_loss_is_the_papers_equation(loss: str) -> None:
    output = layer(loss=loss, negatives=3)
    hidden, targets = torch.randn(2, 5, WIDTH).double(), torch.randint(FIRST, SIZE, (2, 5))
    avoided = targets[:, :4]
    torch.manual_seed(1)
    losses = output.sampled_losses(hidden, targets, avoided=avoided)
    torch.manual_seed(1)
    negatives = draw(output.proposal, count=30).view(2, 5, 3)
    logits = hidden @ output.weight.T + output.bias
    for row in range(2):
        for place in range(5):
            own = logits[row, place, targets[row, place]]
            others = [item for item in negatives[row, place].tolist() if item not in avoided[row].tolist()]
            scores = logits[row, place, others]
            if loss == "binary":
                expected = -own.sigmoid().log() - (1 - scores.sigmoid()).log().sum()
            else:
                expected = -(own - scores).sigmoid().log().sum() / 3
            assert_close(losses[row, place], expected, rtol=1e-9, atol=0)


def test_special_pieces_are_never_negatives_and_frequencies_count() -> None:
    counts = torch.arange(SIZE) ** 2
    for sampling, expected in (("uniform", torch.ones(SIZE)), ("frequency", counts + 1.0)):
        output = layer(sampling=sampling)
        output.learn_frequencies(counts)
        expected = expected.double()
        expected[:FIRST] = 0
        assert_close(output.proposal.data, expected / expected.sum(), rtol=1e-6, atol=0)
        assert int(draw(output.proposal, count=2000).min()) >= FIRST
