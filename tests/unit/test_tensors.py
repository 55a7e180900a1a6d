"""Padded rows, and trees of tensors whose rows are chosen."""

import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import environment
from torch import Tensor

from calque.tensors import (
    Padded,
    at_last,
    best_candidates,
    copied_to_host,
    length_mask,
    map_rows,
    reverse_within,
    select_rows,
)

SIZE = 6
lengths = st.lists(st.integers(0, SIZE), min_size=1, max_size=4)
quick = settings(max_examples=50, deadline=None)


def numbered(rows: int, *, width: int | None = None) -> Tensor:
    """[rows,SIZE] or [rows,SIZE,width] of different numbers."""
    shape = (rows, SIZE) if width is None else (rows, SIZE, width)
    return torch.arange(torch.Size(shape).numel()).view(shape)


@quick
@given(sizes=lengths)
def test_a_mask_is_true_before_each_rows_length(sizes: list[int]) -> None:
    expected = [[place < size for place in range(SIZE)] for size in sizes]
    assert length_mask(torch.tensor(sizes), size=SIZE).tolist() == expected
    assert Padded(numbered(len(sizes)), torch.tensor(sizes)).mask.tolist() == expected
    assert Padded(numbered(len(sizes), width=2), torch.tensor(sizes)).mask.tolist() == expected


def test_lengths_stay_on_the_host() -> None:
    moved = Padded(numbered(2), torch.tensor([1, 2])).to(torch.device("meta"))
    assert moved.values.device.type == "meta"
    assert moved.lengths.device.type == "cpu"


@quick
@given(sizes=lengths, width=st.sampled_from([None, 3]))
def test_rows_are_reversed_within_their_length(sizes: list[int], width: int | None) -> None:
    values = numbered(len(sizes), width=width)
    found = reverse_within(values, torch.tensor(sizes)).tolist()
    assert found == [row[:size][::-1] + row[size:] for row, size in zip(values.tolist(), sizes, strict=True)]


@quick
@given(sizes=lengths, width=st.sampled_from([None, 3]))
def test_reversing_twice_changes_nothing(sizes: list[int], width: int | None) -> None:
    values = numbered(len(sizes), width=width)
    assert torch.equal(reverse_within(reverse_within(values, torch.tensor(sizes)), torch.tensor(sizes)), values)


@quick
@given(sizes=st.lists(st.integers(1, SIZE), min_size=1, max_size=4))
def test_at_last_is_each_rows_last_true_value(sizes: list[int]) -> None:
    values = numbered(len(sizes), width=3)
    found = at_last(values, torch.tensor(sizes)).tolist()
    assert found == [row[size - 1] for row, size in zip(values.tolist(), sizes, strict=True)]


class Leaf(NamedTuple):
    one: Tensor
    nothing: None
    pair: tuple[Tensor, ...]


class Ancestors(NamedTuple):
    """A node that keeps its values in place and only writes down which row is whose."""

    values: Tensor
    rows: Tensor

    def select(self, rows: Tensor) -> "Ancestors":
        return Ancestors(self.values, self.rows.index_select(0, rows))


def tree() -> tuple[Leaf, tuple[()], Tensor]:
    return Leaf(numbered(3), None, (numbered(3, width=2), numbered(3) + 100)), (), numbered(3) + 200


def test_rows_are_chosen_in_every_tensor_of_a_tree() -> None:
    rows = torch.tensor([2, 0, 0, 1])
    leaf, empty, last = select_rows(tree(), rows)
    before, _, before_last = tree()
    assert isinstance(leaf, Leaf)
    assert (leaf.nothing, empty) == (None, ())
    assert torch.equal(leaf.one, before.one[rows])
    assert torch.equal(leaf.pair[0], before.pair[0][rows])
    assert torch.equal(leaf.pair[1], before.pair[1][rows])
    assert torch.equal(last, before_last[rows])


@quick
@given(one=st.lists(st.integers(0, 2), min_size=1, max_size=5), data=st.data())
def test_choosing_twice_is_choosing_once(one: list[int], data) -> None:
    other = data.draw(st.lists(st.integers(0, len(one) - 1), min_size=1))
    twice = select_rows(select_rows(tree()[0], torch.tensor(one)), torch.tensor(other))
    once = select_rows(tree()[0], torch.tensor([one[row] for row in other]))
    assert str(twice) == str(once)


def test_a_node_with_its_own_select_chooses_for_itself_wherever_it_stands() -> None:
    values = numbered(3)
    node = Ancestors(values, torch.arange(3))
    rows = torch.tensor([1, 1])
    deep, beside = select_rows(((node, None), numbered(3)), rows)
    assert deep[0].values is values
    assert deep[0].rows.tolist() == [1, 1]
    assert torch.equal(beside, numbered(3)[rows])


def test_map_rows_keeps_the_shape_of_the_tree() -> None:
    mapped = map_rows(lambda tensor: tensor + 1, tree())
    assert isinstance(mapped[0], Leaf)
    assert mapped[1] == ()
    assert torch.equal(mapped[0].pair[1], tree()[0].pair[1] + 1)
    assert torch.equal(mapped[2], tree()[2] + 1)


@pytest.mark.parametrize("wrong", [[torch.zeros(1)], {"a": torch.zeros(1)}, 3, (torch.zeros(1), "text")])
def test_what_is_not_a_tree_of_tensors_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="a tree of tensors contains only"):
        map_rows(lambda tensor: tensor, wrong)
    with pytest.raises(TypeError, match="a tree of tensors contains only"):
        select_rows(wrong, torch.tensor([0]))


def test_weightless_models_have_the_shapes_of_others_and_load_no_compiler() -> None:
    """Loading it takes seconds, and every command that opens a model would wait for it."""
    program = """
import sys
from calque.models.model import Model, Sizes
from calque.models.systems import TRANSLATORS, system_model
from calque.tensors import weightless
for name in TRANSLATORS:
    config, sizes = system_model(name, scale=0.1), Sizes(500, 500, joint=True)
    with weightless():
        empty = Model(config, sizes=sizes)
    assert all(one.is_meta for one in empty.parameters())
    full = Model(config, sizes=sizes)
    shapes = [{key: one.shape for key, one in model.named_parameters()} for model in (empty, full)]
    assert shapes[0] == shapes[1]
print('LOADED', sorted(name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert done.stdout == "LOADED []\n", done.stderr


@pytest.mark.parametrize("size", [5, 100, 703, 1500, 1536])
@pytest.mark.parametrize("count", [1, 2, 11])
def test_the_best_of_many_are_found_in_blocks_and_after_the_last_whole_block(size: int, count: int, seed: int) -> None:
    """Against a stable sort; the last values are the largest in half of the rows, and many values are equal."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 40, (12, size), generator=generator).float()
    scores[::2, -3:] += 50
    expected = scores.sort(dim=1, descending=True, stable=True)
    values, indices = best_candidates(scores, count=count)
    assert torch.equal(values, expected.values[:, :count])
    assert torch.equal(indices, expected.indices[:, :count])


def test_tensors_of_a_tree_are_copied_to_the_host() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tree = (torch.arange(3, device=device), (torch.ones(2, 2, device=device), None))
    first, (second, nothing) = copied_to_host(tree)
    assert nothing is None and first.device.type == second.device.type == "cpu"
    assert first.tolist() == [0, 1, 2] and second.tolist() == [[1, 1], [1, 1]]
