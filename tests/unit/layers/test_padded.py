"""The product with a padded vocabulary gives the logits of the plain one, with rows that start at aligned places."""

import copy
import pickle

import pytest
import torch

from calque.layers.output import FullOutput
from calque.layers.padded import PaddedLinear, pad
from calque.layers.padded_output import MULTIPLE


@pytest.mark.parametrize("words", [5, 64, 100, 8004])
def test_the_same_logits(words: int) -> None:
    torch.manual_seed(1)
    layer = FullOutput(words, width=16)
    torch.nn.init.normal_(layer.bias)
    hidden = torch.randn(7, 3, 16)
    with torch.no_grad():
        expected = layer.logits(hidden)
        pad(layer)
        actual = layer.logits(hidden)
    torch.testing.assert_close(actual, expected)
    assert actual.shape == (7, 3, words)
    assert actual.stride(1) % MULTIPLE == 0


def test_new_weights_are_seen_and_gradients_are_those_of_the_plain_product() -> None:
    layer = FullOutput(10, width=4)
    pad(layer)
    hidden = torch.randn(2, 4)
    with torch.no_grad():
        first = layer.logits(hidden)
        layer.weight.mul_(2)
        torch.testing.assert_close(layer.logits(hidden), 2 * first)
    layer.logits(hidden).sum().backward()
    torch.testing.assert_close(layer.weight.grad, hidden.sum(dim=0).expand(10, 4))


def test_a_padded_layer_can_be_copied_and_pickled() -> None:
    layer = PaddedLinear(4, 10)
    with torch.no_grad():
        expected = layer(torch.ones(1, 4))
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            torch.testing.assert_close(other(torch.ones(1, 4)), expected)
