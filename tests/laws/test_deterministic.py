"""Deterministic mode: no model, objective or search uses an operation without a deterministic GPU kernel.

Calls are recorded on the CPU, where torch would not reject them.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from calque.layers.feed_forward import FeedForward
from calque.layers.mixers import AverageAttention
from calque.layers.multihead import Chunk
from calque.objectives.objective import Objective, ObjectiveConfig
from calque.search.sampling import Sampling, filtered
from calque.search.sampling import draw as draw_token
from calque.tensors import running_sum
from calque.text import WordsConfig, WordsTokenizer
from tests.conftest import FAMILIES
from tests.laws.models import MODELS, build, source, target
from tests.unit.objectives.objects import make_batch, make_model

# The operations that torch.use_deterministic_algorithms rejects, forward or backward, and those composed of them.
NONDETERMINISTIC = {
    *("put", "put_", "histc", "_ctc_loss", "ctc_loss", "median", "nanmedian", "kthvalue", "multinomial"),
    *("nll_loss2d_forward", "nll_loss2d", "_embedding_bag", "scatter_reduce", "grid_sampler_2d", "cumprod"),
    *("reflection_pad1d", "reflection_pad2d", "adaptive_max_pool2d", "avg_pool3d", "upsample_linear1d", "bincount"),
}
# Combinations consist of the same parts as the other models; only hard attention calls other operations.
REST = {name for name in MODELS if " " in name and "hard" not in name}
NAMES = [pytest.param(name, marks=[pytest.mark.full] if name in REST else []) for name in MODELS]
METHODS = ("cross-entropy", "scheduled-sampling", "r-drop", "minimum-risk")


class Calls(TorchDispatchMode):
    """Records calls of nondeterministic operations; integer sums do not depend on their order."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        self.count += 1
        is_sum = name in ("cumsum", "cumsum_", "logcumsumexp") and args[0].is_floating_point()
        if name in NONDETERMINISTIC or is_sum:
            self.refused.add(name)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", NAMES)
def test_models(name: str) -> None:
    model = build(name).train()
    sentences, tokens = source(), target(size=2)
    with Calls() as calls:
        output = model(sentences, tokens)
        losses = model.losses(output, sentences.values, tokens, smoothing=0.0, ignored=-1)
        (losses.sum() + sum(extra.sum() for extra in output.losses.values())).backward()
    assert calls.count > 20
    assert not calls.refused


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_objectives(method: str, family: str) -> None:
    settings = {"samples": 2} if method == "minimum-risk" else {}
    config = ObjectiveConfig.model_validate({"method": {"kind": method, **settings}, "word_dropout": {"source": 0.2}})
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=["a b c d"])
    objective, model = Objective(config, smoothing=0.1, tokenizer=tokenizer), make_model(family).train()
    with Calls() as calls:
        objective(model, make_batch(), step=10_000).objective.backward()
    assert not calls.refused


@pytest.mark.usefixtures("deterministic")
def test_sampling_in_search() -> None:
    with Calls() as calls:
        draw_token(filtered(torch.randn(3, 17), Sampling(top_p=0.7, top_k=9, min_p=0.01)), torch.rand(3))
    assert not calls.refused


def test_nondeterministic_calls_are_detected() -> None:
    """Without deterministic mode, average attention and multinomial sampling use faster operations."""
    with Calls() as calls:
        build("transformer-average")(source(), target())
        torch.multinomial(torch.ones(4), 9, replacement=True)
    assert calls.refused == {"cumsum", "multinomial"}


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
def test_running_sums_are_the_same_and_so_are_their_gradients(size: int) -> None:
    values = torch.randn(3, size, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, size, 5, dtype=torch.float64)
    for dim, inputs in ((1, values), (-1, values.transpose(1, 2))):
        sums_found, expected = running_sum(inputs, dim=dim), inputs.cumsum(dim)
        torch.testing.assert_close(sums_found, expected, rtol=0, atol=1e-12)
        gradients = [
            torch.autograd.grad((sums * weights.view_as(sums)).sum(), values)[0] for sums in (sums_found, expected)
        ]
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@torch.no_grad()
def test_average_attention_accumulates_in_float32() -> None:
    """In bfloat16 a sum of ones would stop at 256."""
    layer = AverageAttention(2, feed_forward=FeedForward(2, inner=2, dropout=0.0)).bfloat16()
    ones = torch.ones(1, 1000, 2, dtype=torch.bfloat16)
    chunk = Chunk(torch.arange(1000)[None], mask=None, turn=None)
    assert (layer.read(ones, layer.start(1, like=ones), chunk)[1] == 1000).all()
