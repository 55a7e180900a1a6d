"""Losses of language models over running text: token by token they are those of reading it one token at a time."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from calque.config import check
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.objectives.language_model import running_loss, running_token_losses, token_loss
from calque.text import EOS, PAD

V = 11
RECURRENT = {"kind": "recurrent", "layers": 2, "width": 6, "embedding": 5}
TRANSFORMER = {"kind": "transformer", "layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0}
TEXT = np.random.default_rng(0).integers(4, V, size=37).astype(np.int32)


def build(network: dict[str, Any]) -> LanguageModel:
    torch.manual_seed(1)
    config = check(LanguageModelConfig, {"network": network, "tie": False}, origin="test")
    return LanguageModel(config, vocabulary_size=V).double().eval()


@pytest.mark.parametrize("network", [RECURRENT, TRANSFORMER], ids=lambda network: network["kind"])
def test_the_losses_of_tokens_sum_up_to_the_loss_of_the_text(network: dict[str, Any]) -> None:
    model = build(network)
    losses = running_token_losses(model, TEXT, context=10, stride=4)
    total = running_loss(model, TEXT, rows=1, steps=8, context=10, stride=4)
    assert len(losses) == total.tokens
    assert sum(losses) == pytest.approx(total.nats, rel=1e-9)


@torch.no_grad()
def test_a_recurrent_network_has_read_everything_before_a_token() -> None:
    model = build(RECURRENT)
    losses = running_token_losses(model, TEXT, context=10, stride=4)
    state, expected = model.start(1), []
    for token, following in itertools.pairwise([EOS, *TEXT.tolist()]):  # a text follows an end mark
        read, state = model.read(torch.tensor([[token]]), state)
        expected.append(-float(model.log_probs(read.hidden)[0, 0, following]))
    assert losses == pytest.approx(expected, rel=1e-9)


def test_off_the_cpu_shapes_do_not_depend_on_the_padding() -> None:
    """Counting the padding would make the host wait for the device; on `meta` it is impossible."""
    model = build(RECURRENT).to("meta")
    targets = torch.full((2, 3), PAD, device="meta")
    loss = token_loss(model, torch.zeros(2, 3, 5, dtype=torch.float64, device="meta"), targets)
    assert loss.device.type == "meta" and loss.shape == ()
