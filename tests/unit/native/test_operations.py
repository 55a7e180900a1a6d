"""Kernels in C compute what torch computes, and a row's result has the same bits whatever the other rows are."""

import ctypes
import itertools
import math
from collections.abc import Iterator
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from calque.folders.cache import private_cache
from calque.layers import int8_linear
from calque.layers.int8_linear import Int8Linear
from calque.native import library, operations
from calque.native.library import Compiled
from calque.native.operations import (
    FloatProduct,
    Int8Product,
    attend_source,
    attend_steps,
    best_words,
    gru_cell,
    is_available,
    is_usable,
    lstm_cell,
    places_of,
    recurrent_layer,
)
from calque.tensors import best_candidates

pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are not compiled here")
SHAPES = [(1, 1), (3, 5), (33, 50), (64, 64), (100, 257), (256, 1000), (1031, 70)]  # inputs, outputs
ROWS = [0, 1, 2, 5, 6, 7, 13, 200]


@pytest.fixture(params=["this processor", "AVX2"], autouse=True)
def _processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs with the kernels for this processor and with those for one that has AVX2 alone."""
    if request.param == "AVX2":
        monkeypatch.setattr(operations, "compiled", lambda: Compiled(for_avx2(), "for AVX2"))
        monkeypatch.setattr(int8_linear, "input_levels", lambda: 63)
    with torch.inference_mode():
        yield


@cache
def for_avx2() -> ctypes.CDLL:
    folder = private_cache("native")
    assert folder is not None
    options = [option.replace("native", "haswell") for option in library.OPTIONS]
    version = library._output(["cc", "--version"]).partition("\n")[0]
    return library.build(folder, ["cc", *options, *library._openmp(version)], version=version)


def close(actual: Tensor, expected: Tensor, *, tolerance: float = 1e-6) -> None:
    """Compares with a float64 result, by the norm of all rows."""
    error = (actual.double() - expected.double()).norm() / max(1.0, float(expected.double().norm()))
    assert float(error) < tolerance


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_with_its_activation_and_residual_sum(shape: tuple[int, int], rows: int) -> None:
    inputs, outputs = shape
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    x, added = torch.randn(rows, inputs), torch.randn(rows, outputs)
    product, plain = FloatProduct(weight, bias), F.linear(x.double(), weight.double(), bias.double())
    close(product(x), plain)
    close(product(x, relu=True), plain.relu())
    close(product(x, relu=True, added=added), plain.relu() + added)
    close(FloatProduct(weight, None)(x), plain - bias)


def test_inputs_may_have_any_layout_and_number_of_dimensions() -> None:
    weight = torch.randn(20, 10)
    product, wide = FloatProduct(weight, None), torch.randn(6, 4, 30)
    for inputs in (wide[..., :10], wide[:, 1, 10:20], wide[..., ::3], torch.randn(10, 7).T, torch.randn(10)):
        close(product(inputs), inputs.double() @ weight.double().T)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_8_bit_products_have_the_bits_of_torch(
    shape: tuple[int, int], rows: int, request: pytest.FixtureRequest
) -> None:
    inputs, outputs = shape
    layer = Int8Linear.of(torch.randn(outputs, inputs), torch.randn(outputs))
    x = torch.randn(rows, inputs) * torch.logspace(-3, 3, max(rows, 1))[:rows, None]
    product = Int8Product(layer.weight, layer.scales, layer.bias)
    actual, rectified = product(x), product(x, relu=True, added=x[:, :1].expand(-1, outputs).contiguous())
    request.getfixturevalue("without_kernels")
    expected = layer(x)
    assert torch.equal(actual, expected)
    assert torch.equal(rectified, expected.relu() + x[:, :1])


def test_the_largest_levels_do_not_overflow_and_rows_of_zeros_give_the_bias() -> None:
    weight, bias = torch.ones(64, 4096), torch.arange(64.0)
    layer = Int8Linear.of(weight, bias)
    product = Int8Product(layer.weight, layer.scales, layer.bias)
    close(product(torch.ones(2, 4096)), 4096 + bias.expand(2, -1), tolerance=2e-5)
    close(product(-torch.ones(2, 4096)), -4096 + bias.expand(2, -1), tolerance=2e-5)
    assert torch.equal(product(torch.zeros(1, 4096)), bias[None])


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_the_bits_of_a_row_do_not_depend_on_the_other_rows(kind: str) -> None:
    weight, bias, x = torch.randn(130, 77), torch.randn(130), torch.randn(400, 77)
    layer = Int8Linear.of(weight, bias)
    product = FloatProduct(weight, bias) if kind == "float" else Int8Product(layer.weight, layer.scales, layer.bias)
    together = product(x)
    for start, stop in ((0, 1), (7, 9), (50, 61), (199, 400)):
        assert torch.equal(product(x[start:stop]), together[start:stop])


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    weight, x, before = torch.randn(300, 64), torch.randn(70, 64), torch.get_num_threads()
    layer = Int8Linear.of(weight, torch.zeros(300))
    products = [FloatProduct(weight, None), Int8Product(layer.weight, layer.scales, layer.bias)]
    logits, lengths = torch.randn(70, 500), torch.full((70,), 9)
    attention = torch.randn(70, 2, 16), torch.randn(70, 2, 9, 16), torch.randn(70, 2, 9, 16)
    results = []
    for count in (1, threads):
        torch.set_num_threads(count)
        best = best_words(logits, count=4, end=2)
        attended = attend_source(*attention, sentences=torch.arange(70), lengths=lengths, scale=0.25)
        results.append([*(product(x) for product in products), *best, attended, *lstm_cell(x, x, x[:, :16])])
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (4, 4), (6, 2), (4, 1)])
@pytest.mark.parametrize("width", [3, 16, 24, 64, 100])
def test_attention_over_a_source(heads: int, groups: int, width: int) -> None:
    lengths, size = torch.tensor([13, 1, 5, 7, 8, 9, 3]), 13
    sentences = torch.tensor([0, 0, 0, 1, 2, 2, 4, 5, 6, 6])
    queries = torch.randn(len(sentences), heads, width)
    for keys in (torch.randn(7, size, groups, width).transpose(1, 2), torch.randn(7, groups, size, width)):
        values = torch.randn(7, groups, size, width)
        actual = attend_source(queries, keys, values, sentences=sentences, lengths=lengths, scale=width**-0.5)
        close(actual, plain_attention(queries, keys, values, sentences=sentences, lengths=lengths, scale=width**-0.5))


def plain_attention(
    queries: Tensor, keys: Tensor, values: Tensor, *, sentences: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """softmax(scale · q·k) v in float64, one query and head at a time."""
    rows = []
    for query, sentence in zip(queries.double(), sentences.tolist(), strict=True):
        length, shared = int(lengths[sentence]), len(query) // keys.shape[1]
        for head, vector in enumerate(query):
            of_head = keys[sentence, head // shared, :length].double()
            weights = (scale * (of_head @ vector)).softmax(dim=0)
            rows.append(weights @ values[sentence, head // shared, :length].double())
    return torch.stack(rows).view(len(queries), -1)


def test_additive_attention_and_its_weights() -> None:
    queries, keys, values, vector = torch.randn(5, 1, 37), torch.randn(3, 8, 37), torch.randn(3, 8, 50), torch.randn(37)
    sentences, lengths, weights = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([8, 3, 5]), torch.empty(5, 8)
    actual = attend_source(
        queries,
        keys[:, None],
        values[:, None],
        sentences=sentences,
        lengths=lengths,
        scale=1.0,
        additive=vector,
        weights=weights,
    )
    scores = (queries.double() + keys[sentences].double()).tanh() @ vector.double()
    is_padding = torch.arange(8) >= lengths[sentences][:, None]
    expected = scores.masked_fill(is_padding, -math.inf).softmax(dim=1)
    close(weights, expected)
    assert weights[is_padding].eq(0).all()
    close(actual, (expected[:, None] @ values[sentences].double()).squeeze(1))


def test_padding_changes_no_bit_of_attention() -> None:
    queries, sentences, lengths = torch.randn(4, 2, 20), torch.tensor([0, 1, 1, 2]), torch.tensor([5, 3, 4])
    keys, values = torch.randn(2, 3, 2, 5, 20).unbind(0)
    padded = [F.pad(part, (0, 0, 0, 9), value=math.nan) for part in (keys, values)]
    results = [
        attend_source(queries, *memory, sentences=sentences, lengths=lengths, scale=0.2)
        for memory in ((keys, values), padded)
    ]
    assert torch.equal(*results)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_self_attention_reads_the_tokens_of_ancestors(groups: int) -> None:
    heads, width, size, rows = 4, 12, 6, 9
    steps = [torch.randn(rows + place, 2 * groups * width) for place in range(size)]
    ancestors = torch.randint(rows, (11, size), dtype=torch.int32)
    queries = torch.randn(11, heads * width)
    actual = attend_steps(queries, steps, places_of(steps), ancestors=ancestors, heads=heads, groups=groups)
    read = torch.stack([step[index.long()] for step, index in zip(steps, ancestors.T, strict=True)], dim=1)
    keys, values = (part.unflatten(2, (groups, width)).transpose(1, 2) for part in read.chunk(2, dim=2))
    expected = plain_attention(
        queries.view(11, heads, width),
        keys,
        values,
        sentences=torch.arange(11),
        lengths=torch.full((11,), size),
        scale=width**-0.5,
    )
    close(actual, expected)


MANY = [(40, 33), (65, 60), (200, 129), (1000, 129), (8001, 129), (8001, 400)]  # compared in smaller blocks


@pytest.mark.parametrize(("words", "count"), [*itertools.product((5, 63, 64, 65, 200, 1000, 8001), (1, 4, 5)), *MANY])
def test_the_best_words_and_ties(words: int, count: int) -> None:
    logits = torch.randn(30, words) * 3
    logits[3] = 0
    logits[4] = torch.randint(3, (words,)).float()
    logits[5, 1:] = -math.inf
    best = best_words(logits, count=count, end=2)
    log_probs = F.log_softmax(logits, dim=-1)
    expected, indices = best_candidates(log_probs, count=count)
    torch.testing.assert_close(best[0], expected, atol=2e-6, rtol=1e-6)
    is_finite = expected.isfinite()  # the order of words with probability 0 is not specified
    assert torch.equal(best[1][is_finite], indices[is_finite])
    torch.testing.assert_close(best[2], log_probs[:, 2], atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("among", [3, 64, 65, 150, 200])
def test_the_best_of_some_words(among: int) -> None:
    logits = torch.randn(20, 200) * 3
    best = best_words(logits, count=3, end=1, among=among)
    expected, indices = best_candidates(F.log_softmax(logits, dim=-1)[:, :among], count=3)
    torch.testing.assert_close(best[0], expected, atol=2e-6, rtol=1e-6)
    assert torch.equal(best[1], indices)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_have_no_probabilities(bad: float) -> None:
    logits = torch.zeros(3, 100)
    logits[1, 70] = bad
    log_probs, _, ends = best_words(logits, count=3, end=2)
    assert log_probs.isnan().any(dim=1).tolist() == [False, True, False]
    assert ends.isnan().tolist() == [False, True, False]
    assert best_words(torch.full((1, 100), -math.inf), count=3, end=2)[0].isnan().all()


@pytest.mark.parametrize("width", [1, 16, 37, 256])
def test_the_cell_of_an_lstm(width: int) -> None:
    entering, recurring, cell = torch.randn(9, 4 * width) * 4, torch.randn(9, 8 * width), torch.randn(9, width)
    recurring = recurring[:, : 4 * width]
    hidden, after = lstm_cell(entering, recurring, cell)
    enter, forget, candidate, leave = (entering.double() + recurring).chunk(4, dim=1)
    expected = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
    torch.testing.assert_close(after.double(), expected, atol=5e-7, rtol=1e-6)
    torch.testing.assert_close(hidden.double(), leave.sigmoid() * expected.tanh(), atol=5e-7, rtol=1e-6)


@pytest.mark.parametrize("width", [1, 16, 37, 256])
def test_the_cell_of_a_gru(width: int) -> None:
    entering, recurring, before = torch.randn(9, 3 * width) * 3, torch.randn(9, 3 * width), torch.randn(9, width)
    reset, update, inner = (part.double() for part in recurring.chunk(3, dim=1))
    enter_reset, enter_update, candidate = (part.double() for part in entering.chunk(3, dim=1))
    fresh = (candidate + (enter_reset + reset).sigmoid() * inner).tanh()
    share = (enter_update + update).sigmoid()
    expected = share * before + (1 - share) * fresh
    torch.testing.assert_close(gru_cell(entering, recurring, before).double(), expected, atol=5e-7, rtol=1e-6)


def test_cells_read_any_layout() -> None:
    gates, state = torch.randn(1024, 2560).T, torch.randn(256, 2560).T  # copies of this size are returned to the system
    hidden, _ = lstm_cell(gates, gates, state)
    assert torch.equal(hidden, lstm_cell(gates.contiguous(), gates.contiguous(), state.contiguous())[0])
    assert torch.equal(
        gru_cell(gates[:, :768], gates[:, :768], state),
        gru_cell(*2 * [gates[:, :768].contiguous()], state.contiguous()),
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_torchs_default_type_does_not_matter(dtype: torch.dtype) -> None:
    weight, x = torch.randn(70, 33), torch.randn(9, 33)
    expected = FloatProduct(weight, None)(x), *best_words(x, count=3, end=2)
    torch.set_default_dtype(dtype)
    try:
        actual = FloatProduct(weight, None)(x), *best_words(x, count=3, end=2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))


def test_addresses_of_copied_steps_are_computed_again() -> None:
    steps = [torch.randn(3, 8) for _ in range(4)]
    options = {"ancestors": torch.zeros(2, 4, dtype=torch.int32), "heads": 1, "groups": 1}
    queries = torch.randn(2, 4)
    expected = attend_steps(queries, steps, places_of(steps), **options)
    copies = [step.clone() for step in steps]
    for places in (places_of(steps), torch.zeros(4, 2, dtype=torch.long), places_of([])):
        assert torch.equal(attend_steps(queries, copies, places, **options), expected)


def test_the_cell_of_an_lstm_saturates() -> None:
    gates = torch.tensor([[1e4, 1e4, -1e4, 1e4], [-1e4, -1e4, 1e4, -1e4]])
    hidden, after = lstm_cell(gates, torch.zeros(2, 4), torch.full((2, 1), 3.0))
    torch.testing.assert_close(after, torch.tensor([[2.0], [0.0]]))
    torch.testing.assert_close(hidden, torch.tensor([[math.tanh(2.0)], [0.0]]))


def test_kernels_are_for_float32_on_a_cpu_without_gradients() -> None:
    assert is_usable(torch.zeros(1))
    assert not is_usable(torch.zeros(1, dtype=torch.float64))
    with torch.inference_mode(False), torch.enable_grad():
        assert not is_usable(torch.zeros(1))


@pytest.mark.parametrize("kind", ["float", "int8"])
@pytest.mark.parametrize("cell", [True, False])
def test_a_recurrent_layer_is_its_cells_one_after_the_other(cell: bool, kind: str) -> None:
    width, gates, sizes = 20, 80 if cell else 60, (5, 5, 3, 3, 1)
    layer = Int8Linear.of(torch.randn(gates, width), torch.randn(gates))
    weight = layer.weight.float() * layer.scales[:, None]
    product = FloatProduct(weight, layer.bias)
    if kind == "int8":
        product = Int8Product(layer.weight, layer.scales, layer.bias)
    entering = torch.randn(sum(sizes), gates)
    states = recurrent_layer(entering, sizes, product, cell=cell)
    before = tuple(torch.zeros(5, width) for _ in states)
    start = 0
    for rows in sizes:
        before = tuple(part[:rows] for part in before)
        shares = entering[start : start + rows], product(before[0])
        before = lstm_cell(*shares, before[1]) if cell else (gru_cell(*shares, before[0]),)
        assert all(torch.equal(state[start : start + rows], part) for state, part in zip(states, before, strict=True))
        start += rows


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_stay_in_their_row(bad: float) -> None:
    layer = Int8Linear.of(torch.randn(70, 33), torch.zeros(70))
    x = torch.randn(5, 33)
    x[2, 17] = bad
    for product in (FloatProduct(torch.randn(70, 33), None), Int8Product(layer.weight, layer.scales, layer.bias)):
        for relu in (False, True):
            is_finite = product(x, relu=relu).isfinite()
            assert is_finite.all(dim=1).tolist() == [True, True, False, True, True]
    assert product(x, relu=True)[2].isnan().all()


def test_what_would_read_beyond_a_tensor_is_rejected() -> None:
    product = FloatProduct(torch.randn(70, 33), None)
    layer = Int8Linear.of(torch.randn(70, 33), None)
    x, steps = torch.randn(4, 33), [torch.randn(3, 8)]
    source = {"sentences": torch.zeros(4, dtype=torch.long), "lengths": torch.tensor([5]), "scale": 1.0}
    memory = torch.randn(1, 1, 5, 33)
    with torch.no_grad():
        for call in (
            lambda: product(torch.randn(4, 32)),
            lambda: product(x.double()),
            lambda: product(x, added=torch.randn(1, 70)),
            lambda: product(x, added=torch.randn(4, 70).double()),
            lambda: FloatProduct(torch.randn(70, 33).bfloat16(), None),
            lambda: FloatProduct(torch.randn(70, 33), torch.randn(60)),
            lambda: Int8Product(layer.weight.float(), layer.scales, layer.bias),
            lambda: attend_steps(x[:3, :4], steps, places_of(steps), ancestors=torch.zeros(3, 1), heads=1, groups=1),
            lambda: attend_source(x[:, None], memory, memory.double(), **source),
            lambda: attend_source(x[:, None], memory, memory, **{**source, "lengths": torch.tensor([5]).int()}),
            lambda: attend_source(x[:, None], memory, memory, **source, additive=torch.randn(33).double()),
            lambda: attend_source(x[:, None], memory, memory, **source, weights=torch.empty(4, 6)),
            lambda: best_words(x, count=40, end=2),
            lambda: best_words(x, count=3, end=33),
            lambda: lstm_cell(x[:, :8], x[:, :8], x[:3, :2]),
            lambda: gru_cell(x[:, :5], x[:, :6], x[:, :2]),
            lambda: recurrent_layer(torch.randn(4, 70), (1, 3), product, cell=True),
        ):
            with pytest.raises(ValueError, match=r"."):
                call()


def test_a_length_beyond_the_source_is_cut() -> None:
    queries, memory = torch.randn(2, 1, 4), torch.randn(1, 1, 3, 4)
    results = [
        attend_source(queries, memory, memory, sentences=torch.zeros(2, dtype=torch.long), lengths=length, scale=1.0)
        for length in (torch.tensor([3]), torch.tensor([300]))
    ]
    assert torch.equal(*results)
