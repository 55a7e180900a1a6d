"""The adaptive softmax against a second implementation of its equations, word by word, for any vocabulary order."""

import math

import pytest
import torch
from pydantic import ValidationError
from tests.laws.models import loud

from calque.layers.adaptive import AdaptiveOutput, AdaptiveOutputConfig, default_cutoffs

VOCABULARY, WIDTH, POSITIONS = 11, 9, 4
COUNTS = torch.tensor([0, 0, 14, 3, 40, 1, 7, 0, 22, 7, 5])
BY_FREQUENCY = [4, 8, 2, 6, 9, 10, 3, 5, 0, 1, 7]  # equal counts by id
CUTOFFS = {"two clusters": (3, 7), "one cluster": (10,), "a word in the head": (1, 2, 5)}


def adaptive(cutoffs: tuple[int, ...], *, counts: torch.Tensor = COUNTS) -> AdaptiveOutput:
    config = AdaptiveOutputConfig(cutoffs=cutoffs, shrink=2.0)
    layer = loud(AdaptiveOutput(config, vocabulary_size=VOCABULARY, width=WIDTH))
    layer.learn_frequencies(counts)
    return layer


def plain(layer: AdaptiveOutput, hidden: torch.Tensor, *, cutoffs: tuple[int, ...]) -> list[float]:
    """P of each word: from the head for frequent words, else P(cluster)·P(word | cluster) at reduced width."""

    def softmax(logits: torch.Tensor) -> list[float]:
        total = sum(math.exp(logit) for logit in logits.tolist())
        return [math.exp(logit) / total for logit in logits.tolist()]

    head = softmax(layer.softmax.head.weight @ hidden)
    probabilities = {word: head[rank] for rank, word in enumerate(BY_FREQUENCY[: cutoffs[0]])}
    for cluster, (start, stop) in enumerate(zip(cutoffs, (*cutoffs[1:], VOCABULARY), strict=True)):
        down, out = layer.softmax.tail[cluster]
        assert down.weight.shape == (WIDTH // 2 ** (cluster + 1), WIDTH)
        cluster_probs = softmax(out.weight @ (down.weight @ hidden))
        for word, prob in zip(BY_FREQUENCY[start:stop], cluster_probs, strict=True):
            probabilities[word] = head[cutoffs[0] + cluster] * prob
    return [probabilities[word] for word in range(VOCABULARY)]


@pytest.mark.parametrize("name", CUTOFFS)
@torch.no_grad()
def test_probabilities_are_those_of_the_equations(name: str) -> None:
    layer, hidden = adaptive(CUTOFFS[name]), torch.randn(POSITIONS, WIDTH, dtype=torch.float64)
    for vector, log_probs in zip(hidden, layer.log_probs(hidden), strict=True):
        expected = plain(layer, vector, cutoffs=CUTOFFS[name])
        assert log_probs.exp().tolist() == pytest.approx(expected, abs=1e-12)
        losses = layer.loss(vector.expand(VOCABULARY, WIDTH), torch.arange(VOCABULARY), smoothing=0.0)
        assert losses.tolist() == pytest.approx([-math.log(prob) for prob in expected], abs=1e-12)


@pytest.mark.parametrize("name", CUTOFFS)
@torch.no_grad()
def test_probabilities_and_losses_are_those_of_torch(name: str) -> None:
    layer, hidden = adaptive(CUTOFFS[name]), torch.randn(VOCABULARY, WIDTH, dtype=torch.float64)
    by_rank = layer.softmax.log_prob(hidden)
    torch.testing.assert_close(layer.log_probs(hidden)[:, BY_FREQUENCY], by_rank, rtol=0, atol=1e-12)
    for targets in (torch.arange(VOCABULARY), torch.full((VOCABULARY,), 4), torch.full((VOCABULARY,), 7)):
        losses = layer.loss(hidden, targets, smoothing=0.0)
        expected = layer.softmax(hidden, layer.ranks[targets]).output
        torch.testing.assert_close(losses, -expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_probabilities_do_not_depend_on_the_order_of_the_vocabulary() -> None:
    """Counts without ties: the same words under other ids."""
    counts = COUNTS * 20 + torch.arange(VOCABULARY)
    permutation = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(3))  # the old id of each new one
    layer, permuted = adaptive((3, 7), counts=counts), adaptive((3, 7), counts=counts[permutation])
    hidden = torch.randn(POSITIONS, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(permuted.log_probs(hidden), layer.log_probs(hidden)[:, permutation], rtol=0, atol=0)
    targets = torch.tensor([0, 3, 8, 10])
    torch.testing.assert_close(
        permuted.loss(hidden, targets, smoothing=0.0),
        layer.loss(hidden, permutation[targets], smoothing=0.0),
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_cluster_of_absent_words_is_computed_nowhere_and_has_a_gradient_of_zero(dtype: torch.dtype) -> None:
    """With a gradient of None, a single process would not update the weights, but several ranks, which sum, would."""
    layer, sizes = adaptive((3, 7)).float(), []
    for tail in layer.softmax.tail:
        tail.register_forward_hook(lambda _tail, _hidden, output: sizes.append(len(output)))
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        losses = layer.loss(torch.randn(3, WIDTH), torch.tensor([4, 2, 0]), smoothing=0.0, ignored=0)
    losses.sum().backward()
    assert sizes == [0, 0]
    assert layer.softmax.head.weight.grad.any()
    for weight in layer.softmax.tail.parameters():
        assert weight.grad is not None
        assert not weight.grad.any()


def test_ranks_are_by_frequency_and_whole_in_every_precision() -> None:
    layer = adaptive((3, 7)).to(torch.bfloat16)
    assert layer.ranks.dtype == torch.int64
    assert layer.ranks.argsort().tolist() == BY_FREQUENCY


@pytest.mark.parametrize(("pieces", "expected"), [(32_000, (3200, 16_000)), (12, (1, 6)), (3, (1,)), (2, (1,))])
def test_default_cutoffs_are_a_tenth_and_a_half(pieces: int, expected: tuple[int, ...]) -> None:
    assert default_cutoffs(pieces) == expected
    layer = AdaptiveOutput(AdaptiveOutputConfig(), vocabulary_size=pieces, width=16)
    assert tuple(layer.softmax.cutoffs) == (*expected, pieces)


@pytest.mark.parametrize("cutoffs", [(0, 3), (5, 3), (3, 3), (-1,), tuple(range(1, 20))])
def test_cutoffs_that_do_not_ascend_are_rejected(cutoffs: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError):
        AdaptiveOutputConfig(cutoffs=cutoffs)


def test_smoothing_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="smoothing"):
        adaptive((3, 7)).loss(torch.zeros(1, WIDTH, dtype=torch.float64), torch.zeros(1).long(), smoothing=0.1)
