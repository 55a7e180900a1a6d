"""The key-value memory: its equation, its laws, and that sharp addresses recall exactly what was written."""

import math

import torch
from torch.testing import assert_close

from calque.layers.key_value_memory import KeyValueMemory, MemorySlots

ROWS, SLOTS, QUERIES, KEYS, VALUES, WIDTH = 2, 5, 3, 7, 4, 6


def layer() -> KeyValueMemory:
    torch.manual_seed(0)
    return KeyValueMemory(KEYS, address_width=WIDTH).double()


def pairs(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys, values and queries."""
    torch.manual_seed(seed)
    return (
        torch.randn(ROWS, SLOTS, KEYS).double(),
        torch.randn(ROWS, SLOTS, VALUES).double(),
        torch.randn(ROWS, QUERIES, KEYS).double(),
    )


def empty(memory: KeyValueMemory) -> MemorySlots:
    return memory.start(ROWS, value_width=VALUES, like=torch.zeros(()).double())


@torch.no_grad()
def test_reading_is_the_equation() -> None:
    memory, (keys, values, queries) = layer(), pairs()
    read = memory(memory.write(empty(memory), keys, values), queries)
    matrix = memory.address.weight
    for row in range(ROWS):
        for place in range(QUERIES):
            query = matrix @ queries[row, place]
            scores = torch.stack([query @ (matrix @ key) / math.sqrt(WIDTH) for key in keys[row]])
            expected = sum(share * value for share, value in zip(scores.softmax(dim=0), values[row], strict=True))
            assert_close(read[row, place], expected, rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_writing_in_parts_or_in_another_order_is_the_same() -> None:
    memory, (keys, values, queries) = layer(), pairs()
    whole = memory(memory.write(empty(memory), keys, values), queries)
    parts = memory.write(memory.write(empty(memory), keys[:, :2], values[:, :2]), keys[:, 2:], values[:, 2:])
    assert_close(memory(parts, queries), whole, rtol=1e-9, atol=1e-12)
    order = torch.tensor([3, 0, 4, 2, 1])
    assert_close(memory(memory.write(empty(memory), keys[:, order], values[:, order]), queries), whole)


@torch.no_grad()
def test_empty_slots_change_nothing() -> None:
    memory, (keys, values, queries) = layer(), pairs()
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    slots = memory.write(empty(memory), keys, values, mask=mask)
    read = memory(slots, queries)
    other = memory.write(
        empty(memory), keys.where(mask[..., None], 99.0), values.where(mask[..., None], -99.0), mask=mask
    )
    assert_close(memory(other, queries), read, rtol=0, atol=0)
    assert not read[1].any() and not memory(empty(memory), queries).any()
    kept = memory.write(memory.start(1, value_width=VALUES, like=keys), keys[:1, mask[0]], values[:1, mask[0]])
    assert_close(memory(kept, queries[:1]), read[:1], rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_keys_that_differ_enough_recall_their_values() -> None:
    """With orthogonal addresses of length r, the wrong slots together have at most S·exp(−r²/√d) of the weight."""
    memory = KeyValueMemory(WIDTH, address_width=WIDTH).double()
    memory.address.weight.copy_(20 * torch.eye(WIDTH))
    keys, values = torch.eye(WIDTH).double()[None], torch.randn(1, WIDTH, VALUES).double()
    slots = memory.write(memory.start(1, value_width=VALUES, like=keys), keys, values)
    assert_close(memory(slots, keys), values, rtol=0, atol=1e-12)
