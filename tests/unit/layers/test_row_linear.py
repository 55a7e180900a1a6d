"""Linear layers of one token per row: a product, its normalisation and its sum in as few kernels as possible."""

import importlib.util
import os
import subprocess
import sys
from itertools import product
from typing import Any, NamedTuple, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.embedding import UNKNOWN, embed_at
from calque.layers.multihead import Chunk, KeysValues
from calque.layers.row_linear import ROWS, Rows, is_few, linear_rows, linear_sum
from calque.layers.transformer import BlockShape, DecoderBlock, Dropouts

SIZES = ((1, 64, 48), (5, 48, 64), (3, 512, 80), (7, 600, 40), (16, 1100, 32))


def compare_with_plain(rows: int, width: int, size: int) -> None:
    """The kernels against their plain versions on the CPU, in float32: the interpreter has no bfloat16."""
    from calque.layers.row_linear_kernel import add_norm
    from calque.layers.row_linear_kernel import linear_rows as kernel

    torch.manual_seed(1)
    norm, residual_norm = nn.LayerNorm(width), nn.LayerNorm(size)
    for parameter in (*norm.parameters(), *residual_norm.parameters()):
        nn.init.normal_(parameter)
    weight, bias = torch.randn(size, width) / width**0.5, torch.randn(size)
    values, residual = torch.randn(rows, width), torch.randn(rows, size)
    inputs = [Rows(values), *([Rows(values, norm)] if width <= 1024 else [])]
    with torch.no_grad():
        for given, relu in product(inputs, (False, True)):
            found = kernel(given.values, given.norm, weight, bias, relu=relu, added=None, added_norm=None, tile=ROWS)
            torch.testing.assert_close(found, linear_rows(given, weight, bias, relu=relu))
        for added in (Rows(residual), Rows(residual, residual_norm)):
            expected = linear_sum(values, weight, bias, added=added, norm=residual_norm)
            found = kernel(values, None, weight, bias, relu=False, added=residual, added_norm=added.norm, tile=ROWS)
            torch.testing.assert_close(found, expected.values)
            total, normalised = add_norm(F.linear(values, weight, bias), added.normalised(), norm=residual_norm)
            torch.testing.assert_close(total, expected.values)
            torch.testing.assert_close(normalised, expected.normalised())


def compare_embedding() -> None:
    """The kernel of `embed_at` on the CPU, with tokens and positions beyond their tables."""
    from calque.layers.embedding_kernel import embed_at as kernel

    weight, table = torch.randn(11, 20), torch.randn(7, 20)
    tokens, positions = torch.tensor([0, 10, 11, 40, 3]), torch.tensor([0, 6, 7, 90, 2])
    expected = embed_at(tokens, weight, positions=positions, table=table)
    found = kernel(tokens, weight, positions=positions, table=table, unknown=UNKNOWN)
    torch.testing.assert_close(found, expected)


def test_the_kernels_compute_what_their_plain_versions_do() -> None:
    """In a process of its own, as Triton reads when it is imported that it is to interpret kernels."""
    if importlib.util.find_spec("triton") is None or torch.cuda.is_available():
        pytest.skip("this needs Triton, and a machine without a GPU: tests/gpu tests the kernel there")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-W", "ignore", __file__], env=environment, check=True)


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("shared", [None, 1])
def test_a_block_read_row_by_row_is_the_block(place: str, shared: int | None) -> None:
    torch.manual_seed(2)
    rows, beams, width, size, source = 6, 3, 8, 5, 4
    shape = BlockShape(width, 2, 20, Dropouts(0.1, 0.1, 0.1), place=place, key_value_heads=shared)  # type: ignore[arg-type]
    block = DecoderBlock(shape, memory_width=width, mixer="attention").double().eval()
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    assert block.reads_rows
    following = nn.LayerNorm(width).double()
    nn.init.normal_(following.weight)
    memory = block.cross_attention.remember(torch.randn(rows // beams, source, width).double())
    lengths = torch.tensor([source, 2])
    cache = KeysValues(*(torch.randn(rows, shared or 2, size, 4).double() for _ in range(2)))
    ancestors = torch.randint(0, rows, (rows, size), dtype=torch.int32)
    chunk = Chunk(torch.full((rows, 1), 3), None, None, ancestors=ancestors)
    stream = torch.randn(rows, 1, width).double()
    copies = KeysValues(*(part.clone() for part in cache))
    with torch.no_grad():
        rows_after = block.read_rows(
            block.around_self.start_rows(stream[:, 0]),
            copies,
            chunk._replace(ancestors=ancestors.clone()),
            memory=memory,
            lengths=lengths,
            following=following,
        )
        expected, _ = block.read(stream, cache, chunk)
        expected = block.feed(block.cross_attend_once(expected, memory, lengths=lengths))
        expected = following(expected) if place == "pre" else expected
    torch.testing.assert_close(rows_after.normalised(), expected[:, 0])
    torch.testing.assert_close(copies, cache)


class OnGPU(NamedTuple):
    """What `is_few` reads of a tensor [N,D]."""

    shape: tuple[int, int]
    dtype: torch.dtype = torch.bfloat16
    is_cuda: bool = True

    def __len__(self) -> int:
        return self.shape[0]


def test_only_a_gpu_and_few_rows_use_the_kernel() -> None:
    def is_used(*shape: int, normalised: bool = False, **others: Any) -> bool:
        return is_few(cast(Tensor, OnGPU(cast(tuple[int, int], shape), **others)), normalised=normalised)

    assert is_used(1, 8) and is_used(16, 4096) and is_used(3, 1024, normalised=True)
    assert not is_used(1, 8, is_cuda=False)
    assert not is_used(17, 8)
    assert not is_used(1, 8, dtype=torch.float64)
    assert not is_used(1, 1025, normalised=True)
    assert not is_used(1, 513, normalised=True, dtype=torch.float32)


def test_blocks_with_other_parts_are_computed_otherwise() -> None:
    plain = BlockShape(8, 2, 20, Dropouts(0.0, 0.0, 0.0))
    for other in (plain._replace(normalisation="rms"), plain._replace(activation="gelu"), plain._replace(reach=2)):
        assert not DecoderBlock(other, memory_width=8, mixer="attention").reads_rows
    assert not DecoderBlock(plain, memory_width=8, mixer="ssru").reads_rows


if __name__ == "__main__":
    for sizes in SIZES:
        compare_with_plain(*sizes)
    compare_embedding()
