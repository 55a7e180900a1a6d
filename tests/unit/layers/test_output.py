"""Output layers: the formulas of the full softmax, and the properties common to all."""

import math

import pytest
import torch
from tests.laws.models import loud
from torch.nn import functional as F

from calque.errors import ConfigError
from calque.layers import output
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.output import FullOutput, FullOutputConfig, OutputLayer
from calque.layers.sampled import SampledOutputConfig
from calque.models.model import OutputConfig, build_output

VOCABULARY, WIDTH, POSITIONS = 7, 5, 4
COUNTS = torch.tensor([0, 0, 9, 1, 4, 30, 2])
KINDS: dict[str, OutputConfig] = {
    "full": FullOutputConfig(),
    "sampled": SampledOutputConfig(samples=6),
    "adaptive": AdaptiveOutputConfig(cutoffs=(2, 4), shrink=2.0),
}


def layer_and_hidden() -> tuple[FullOutput, torch.Tensor]:
    layer = loud(FullOutput(VOCABULARY, width=WIDTH))
    return layer, torch.randn(POSITIONS, WIDTH, dtype=torch.float64)


def layer_of(kind: str) -> OutputLayer:
    layer = loud(build_output(KINDS[kind], vocabulary_size=VOCABULARY, width=WIDTH))
    layer.learn_frequencies(COUNTS)
    return layer


# --- The full softmax ---


@torch.no_grad()
def test_log_probs_are_the_log_of_the_softmax() -> None:
    layer, hidden = layer_and_hidden()
    for vector, log_probs in zip(hidden, layer.log_probs(hidden), strict=True):
        logits = [float(layer.weight[word] @ vector + layer.bias[word]) for word in range(VOCABULARY)]
        total = sum(map(math.exp, logits))
        assert log_probs.tolist() == pytest.approx([math.log(math.exp(logit) / total) for logit in logits], abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@torch.no_grad()
def test_loss_is_the_cross_entropy_of_the_smoothed_target(smoothing: float) -> None:
    """−Σ q(w) log p(w), q = (1 − ε)·one-hot + ε/V."""
    layer, hidden = layer_and_hidden()
    targets = torch.tensor([0, VOCABULARY - 1, 3, 3])
    losses = layer.loss(hidden, targets, smoothing=smoothing)
    for target, log_probs, loss in zip(targets.tolist(), layer.log_probs(hidden), losses, strict=True):
        q = [smoothing / VOCABULARY + (1 - smoothing) * (word == target) for word in range(VOCABULARY)]
        expected = -sum(share * log_prob for share, log_prob in zip(q, log_probs.tolist(), strict=True))
        assert loss.item() == pytest.approx(expected, abs=1e-12)
    logits = hidden @ layer.weight.T + layer.bias
    torch.testing.assert_close(losses, F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing))


# --- Every kind ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (POSITIONS,), (2, 3), (0,)])
@torch.no_grad()
def test_probabilities_sum_to_one(kind: str, shape: tuple[int, ...]) -> None:
    layer = layer_of(kind)
    log_probs = layer.log_probs(torch.randn(*shape, WIDTH, dtype=torch.float64))
    assert log_probs.shape == (*shape, VOCABULARY)
    ones = torch.ones(shape, dtype=torch.float64)
    torch.testing.assert_close(log_probs.exp().sum(-1), ones, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positions", [0, 1, VOCABULARY])
@torch.no_grad()
def test_in_evaluation_the_loss_is_the_negative_log_probability(kind: str, positions: int) -> None:
    layer = layer_of(kind)
    hidden = torch.randn(positions, WIDTH, dtype=torch.float64)
    targets = torch.arange(positions)
    expected = -layer.log_probs(hidden).gather(1, targets[:, None]).squeeze(1)
    losses = layer.loss(hidden, targets, smoothing=0.0)
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("ignored", [0, -100])
@pytest.mark.parametrize("kind", KINDS)
def test_ignored_targets_have_no_loss_and_no_gradient(kind: str, ignored: int, training: bool) -> None:
    layer = layer_of(kind).train(training)
    hidden = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([ignored, 3, ignored, 6, ignored])
    torch.manual_seed(1)
    losses = layer.loss(hidden, targets, smoothing=0.0, ignored=ignored)
    (gradient,) = torch.autograd.grad(losses.sum(), hidden)
    torch.manual_seed(1)
    alone = layer.loss(hidden[[1, 3]], targets[[1, 3]], smoothing=0.0, ignored=ignored)
    torch.testing.assert_close(losses[[1, 3]], alone, rtol=0, atol=1e-12)
    assert losses[[0, 2, 4]].tolist() == [0, 0, 0]
    assert not gradient[[0, 2, 4]].any()
    assert gradient[[1, 3]].all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision_is_normalised_in_single(kind: str, dtype: torch.dtype) -> None:
    layer, hidden = layer_of(kind).to(dtype), torch.randn(POSITIONS, WIDTH).to(dtype)
    log_probs = layer.log_probs(hidden)
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(POSITIONS), rtol=0, atol=1e-6)
    for training in (False, True):
        loss = layer.train(training).loss(hidden, torch.arange(POSITIONS), smoothing=0.0)
        assert loss.dtype == torch.float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [False, True])
def test_mixed_precision_is_close_to_single(kind: str, training: bool) -> None:
    """Hidden vectors come in float32 from a norm and in bfloat16 from a product."""
    layer = layer_of(kind).float().train(training)
    hidden, targets = torch.randn(VOCABULARY, WIDTH), torch.arange(VOCABULARY)
    torch.manual_seed(2)
    expected = layer.loss(hidden, targets, smoothing=0.0)
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.manual_seed(2)
            losses = layer.loss(hidden.to(dtype), targets, smoothing=0.0)
            sums = layer.log_probs(hidden.to(dtype)).exp().sum(-1)
        losses.sum().backward()
        assert losses.dtype == torch.float32
        torch.testing.assert_close(losses, expected, rtol=0.05, atol=0.05)
        torch.testing.assert_close(sums, torch.ones(VOCABULARY), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_corpus_statistics_are_saved_and_not_trained(kind: str) -> None:
    names = {"full": set(), "sampled": {"proposal"}, "adaptive": {"ranks"}}
    layer = layer_of(kind)
    assert {name for name, value in layer.named_parameters() if not value.requires_grad} == names[kind]
    assert not list(layer.buffers())


# --- Invalid settings ---

INVALID = {
    "more cutoffs than pieces": (
        AdaptiveOutputConfig(cutoffs=(2, 7)),
        r"cutoffs \[2, 7\].*vocabulary size of 7",
    ),
    "too narrow": (
        AdaptiveOutputConfig(cutoffs=(2, 4), shrink=3.0),
        "width 5 is too small for 2 clusters, each narrower by a factor of 3",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_settings_are_rejected_with_their_key(name: str) -> None:
    config, message = INVALID[name]
    with pytest.raises(ConfigError, match=rf"^model\.output: .*{message}"):
        build_output(config, vocabulary_size=VOCABULARY, width=WIDTH)


@pytest.mark.parametrize("rows", [1, 5, 13])
def test_the_best_words_are_the_same_whatever_is_held_at_a_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, hidden = FullOutput(40, width=6), torch.randn(rows, 6)
    with torch.no_grad():
        log_probs = layer.log_probs(hidden)
        monkeypatch.setattr(output, "BEST_ROWS", 5)
        best = layer.best(hidden, count=7, end=2)
    expected = log_probs.sort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(best.log_probs, expected.values[:, :7])
    assert torch.equal(best.words, expected.indices[:, :7])
    torch.testing.assert_close(best.ends, log_probs[:, 2])
