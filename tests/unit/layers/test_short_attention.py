"""The kernel for attention over short sentences, in Triton's interpreter, against softmax(q·k/√d) v."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from calque.layers.multihead import MultiHead
from calque.layers.short_attention import LONGEST, fits, load_kernel

ROWS, HEADS, WIDTH = 2, 3, 16


def compare(queries: int, keys: int, kind: str) -> None:
    """Compares results and gradients in float32; the interpreter has no bfloat16, which tests/gpu tests."""
    torch.manual_seed(1)
    inputs = [torch.randn(ROWS, size, HEADS, WIDTH).transpose(1, 2).requires_grad_() for size in (queries, keys, keys)]
    mask = (torch.arange(keys) < torch.randint(1, keys + 1, (ROWS, 1)))[:, None, None] if kind == "masked" else None
    is_causal = kind == "causal"
    output = torch.ops.calque.short_attention(*inputs, mask, is_causal)
    allowed = torch.arange(keys) <= torch.arange(keys - queries, keys)[:, None] if is_causal else mask
    scores = inputs[0] @ inputs[1].transpose(2, 3) * WIDTH**-0.5
    clear = (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(dim=-1) @ inputs[2]
    slopes = torch.randn_like(clear)
    torch.testing.assert_close(output, clear)
    found, expected = (torch.autograd.grad(result, inputs, slopes) for result in (output, clear))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def compare_joined(size: int, kind: str) -> None:
    """Queries, keys and values in one tensor: the results and the gradient of three."""
    torch.manual_seed(1)
    projected = torch.randn(ROWS, size, 3 * HEADS * WIDTH, requires_grad=True)
    mask = (torch.arange(size) < torch.randint(1, size + 1, (ROWS, 1)))[:, None, None] if kind == "masked" else None
    parts = [part.unflatten(2, (HEADS, WIDTH)).transpose(1, 2) for part in projected.chunk(3, dim=2)]
    apart = torch.ops.calque.short_attention(*parts, mask, kind == "causal").transpose(1, 2).flatten(2)
    joined = torch.ops.calque.short_self_attention(projected, HEADS, mask, kind == "causal")
    slopes = torch.randn_like(joined)
    assert torch.equal(joined, apart)
    found, expected = (torch.autograd.grad(result, projected, slopes)[0] for result in (joined, apart))
    assert torch.equal(found, expected)


def test_results_and_gradients_are_those_of_plain_products() -> None:
    """In a process of its own, as Triton reads when it is imported that it is to interpret kernels."""
    if importlib.util.find_spec("triton") is None or torch.cuda.is_available():
        pytest.skip("this needs Triton, and a machine without a GPU: tests/gpu tests the kernel there")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-W", "ignore", __file__], env=environment, check=True)


def test_what_the_kernel_takes() -> None:
    queries, keys = torch.empty(2, 4, 5, 16), torch.empty(2, 4, 7, 16)
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    assert fits(queries, keys, None) and fits(queries, keys, mask)
    assert not fits(queries, torch.empty(2, 4, LONGEST + 1, 16), None)
    assert not fits(queries, keys[:, :2], None)  # heads that share keys
    assert not fits(queries[..., :12], keys[..., :12], None)
    assert not fits(queries.double(), keys.double(), None)
    assert not fits(queries, keys, mask.expand(2, 1, 5, 7))


def test_without_triton_there_are_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    assert not load_kernel()


def test_only_a_gpu_uses_the_kernel() -> None:
    layer = MultiHead(32, memory_width=32, heads=2, dropout=0.0)
    assert not (layer.is_compiled or layer.has_kernel)
    memory = layer.remember(torch.randn(2, 5, 32))
    queries = layer.queries(torch.randn(2, 5, 32))
    layer.is_compiled = layer.has_kernel = True
    assert not layer._uses_kernel(queries, memory, None)  # on a CPU
    assert not layer._is_short(queries, memory)


if __name__ == "__main__":
    assert load_kernel()
    for kind in ("causal", "masked", "neither"):
        for queries, keys in ((5, 5), (7, 20), (33, 33), (3, 64)):
            compare(queries, keys, kind)
        for size in (5, 33):
            compare_joined(size, kind)
