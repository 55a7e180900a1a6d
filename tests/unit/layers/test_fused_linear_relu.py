"""A product with ReLU as one operation: the results and gradients of two."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from calque.layers.feed_forward import FeedForward
from calque.layers.fused_linear import trained_linear_relu


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_it_is_relu_of_the_product(backend: str | None, dtype: torch.dtype | None) -> None:
    torch.manual_seed(1)
    shapes = ((2, 5, 7), (11, 7), (11,))
    inputs, weight, bias = (torch.randn(shape, requires_grad=True) for shape in shapes)
    function = (
        trained_linear_relu if backend is None else torch.compile(trained_linear_relu, backend=backend, fullgraph=True)
    )
    results = []
    for compute in (function, lambda inputs, **layer: F.linear(inputs, **layer).relu()):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            outputs = compute(inputs, weight=weight, bias=bias)
        assert outputs.dtype == (dtype or torch.float32)
        slopes = torch.linspace(-1, 1, outputs.numel()).view(outputs.shape).to(outputs.dtype)
        results.append([outputs, *torch.autograd.grad(outputs, (inputs, weight, bias), slopes)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-2 if dtype else 1e-5, atol=2e-2 if dtype else 1e-6)


def test_a_compiled_feed_forward_layer_uses_it_in_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(inputs: Tensor, **layer: Tensor) -> Tensor:
        calls.append(inputs)
        return trained_linear_relu(inputs, **layer)

    monkeypatch.setattr("calque.layers.feed_forward.trained_linear_relu", counted)
    layer, inputs = FeedForward(6, inner=9, dropout=0.0), torch.randn(3, 6)
    expected = layer(inputs)
    layer.fuses_relu = True
    torch.testing.assert_close(layer.eval()(inputs), expected)
    assert not calls
    torch.testing.assert_close(layer.train()(inputs), expected)
    assert len(calls) == 1


def test_nan_outputs_stay_nan_and_pass_their_gradient_on() -> None:
    """As with torch's ReLU, so that a bad loss is recognised."""
    weight, bias = torch.full((2, 3), torch.nan, requires_grad=True), torch.zeros(2)
    for compute in (trained_linear_relu, lambda inputs, **layer: F.linear(inputs, **layer).relu()):
        outputs = compute(torch.ones(1, 3), weight=weight, bias=bias)
        assert outputs.isnan().all()
        (gradient,) = torch.autograd.grad(outputs, weight, torch.full((1, 2), 5.0))
        assert (gradient == 5).all()
