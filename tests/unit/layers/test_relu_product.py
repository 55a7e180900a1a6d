"""A product with ReLU as one operation: the results and gradients of two."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from calque.layers.feed_forward import FeedForward
from calque.layers.relu_product import relu_product


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_it_is_relu_of_the_product(backend: str | None, dtype: torch.dtype | None) -> None:
    torch.manual_seed(1)
    shapes = ((2, 5, 7), (11, 7), (11,))
    inputs, weight, bias = (torch.randn(shape, requires_grad=True) for shape in shapes)
    function = relu_product if backend is None else torch.compile(relu_product, backend=backend, fullgraph=True)
    results = []
    for compute in (function, lambda *arguments: F.linear(*arguments).relu()):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            outputs = compute(inputs, weight, bias)
        assert outputs.dtype == (dtype or torch.float32)
        slopes = torch.linspace(-1, 1, outputs.numel()).view(outputs.shape).to(outputs.dtype)
        results.append([outputs, *torch.autograd.grad(outputs, (inputs, weight, bias), slopes)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-2 if dtype else 1e-5, atol=2e-2 if dtype else 1e-6)


def test_a_compiled_feed_forward_layer_uses_it_in_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*arguments: Tensor) -> Tensor:
        calls.append(arguments)
        return relu_product(*arguments)

    monkeypatch.setattr("calque.layers.feed_forward.relu_product", counted)
    layer, inputs = FeedForward(6, inner=9, dropout=0.0), torch.randn(3, 6)
    expected = layer(inputs)
    layer.is_compiled = True
    torch.testing.assert_close(layer.eval()(inputs), expected)
    assert not calls
    torch.testing.assert_close(layer.train()(inputs), expected)
    assert len(calls) == 1
