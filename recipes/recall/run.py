"""Associative recall: a model reads pairs of keys and values, then one of the keys, and must return its value.

    python -m recipes.recall.run [--steps 300] [--seeds 1 2 3] [--keep recipes/recall/results.json]
        [--write recipes/recall/README.md]

Trains key-value memories of several address widths and GRUs of several widths on 1 to 32 pairs, and tests each on up to
64 new pairs. Takes a few minutes on a CPU.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.key_value_memory import KeyValueMemory
from recipes.runner.arguments import parser_of
from recipes.runner.files import write_json
from recipes.runner.pages import mean_and_range, table, write_page

KEYS, VALUES, WIDTH = 128, 32, 64
LONGEST, TESTED = 32, (4, 8, 16, 32, 64)  # pairs
ROWS, TEST_ROWS = 64, 1000
ADDRESSES, STATES = (4, 8, 16, 32), (64, 256)

Results = dict[str, list[dict[str, float]]]


class MemoryRecall(nn.Module):
    """Writes every pair into a slot, and reads the slot of the key that is asked for."""

    def __init__(self, address_width: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(KEYS, WIDTH), nn.Embedding(VALUES, WIDTH)
        self.memory = KeyValueMemory(WIDTH, address_width=address_width)
        self.output = nn.Linear(WIDTH, VALUES)

    def forward(self, keys: Tensor, values: Tensor, query: Tensor) -> Tensor:
        """The scores [B,V] of values, given pairs [B,S] and the key [B] that is asked for."""
        start = self.memory.start(len(keys), value_width=WIDTH, like=self.keys.weight)
        slots = self.memory.write(start, self.keys(keys), self.values(values))
        return self.output(self.memory(slots, self.keys(query)[:, None]).squeeze(1))  # type: ignore[no-any-return]


class RecurrentRecall(nn.Module):
    """Reads the pairs one after the other, then the key, with a GRU, whose state is its only memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(KEYS, WIDTH), nn.Embedding(VALUES, WIDTH)
        self.network = nn.GRU(2 * WIDTH, width, batch_first=True)
        self.output = nn.Linear(width, VALUES)

    def forward(self, keys: Tensor, values: Tensor, query: Tensor) -> Tensor:
        """The scores [B,V] of values, given pairs [B,S] and the key [B] that is asked for."""
        pairs = torch.cat([self.keys(keys), self.values(values)], dim=2)
        asked = F.pad(self.keys(query)[:, None], (0, WIDTH))
        _, last = self.network(torch.cat([pairs, asked], dim=1))
        return self.output(last[0])  # type: ignore[no-any-return]


def draw(rows: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random distinct keys [B,S] with values [B,S], one of the keys [B], and its value [B]."""
    keys = torch.rand(rows, KEYS, generator=generator).argsort(dim=1)[:, :pairs]
    values = torch.randint(VALUES, (rows, pairs), generator=generator)
    asked = torch.randint(pairs, (rows, 1), generator=generator)
    return keys, values, keys.gather(1, asked).squeeze(1), values.gather(1, asked).squeeze(1)


def train(model: nn.Module, *, steps: int, seed: int) -> dict[str, float]:
    """Trains a model, and returns its accuracy in per cent, by the number of pairs."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        pairs = int(torch.randint(1, LONGEST + 1, (), generator=generator))
        keys, values, query, target = draw(ROWS, pairs, generator)
        optimiser.zero_grad()
        loss: Tensor = F.cross_entropy(model(keys, values, query), target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    accuracies = {}
    with torch.no_grad():
        for pairs in TESTED:
            keys, values, query, target = draw(TEST_ROWS, pairs, generator)
            correct = model(keys, values, query).argmax(dim=1) == target
            accuracies[str(pairs)] = 100 * correct.float().mean().item()
    return accuracies


def measure(*, steps: int, seeds: list[int]) -> Results:
    """The accuracies of all models, by name and seed."""
    results: Results = {}
    makers: dict[str, Callable[[], nn.Module]] = {
        f"memory, addresses of {width}": partial(MemoryRecall, width) for width in ADDRESSES
    }
    makers |= {f"GRU of {width}": partial(RecurrentRecall, width) for width in STATES}
    for name, make in makers.items():
        results[name] = []
        for seed in seeds:
            torch.manual_seed(seed)
            results[name].append(train(make(), steps=steps, seed=seed))
            print(name, seed, results[name][-1], flush=True)
    return results


def page(results: Results) -> str:
    """The table of accuracies."""
    rows = [
        [name, *(mean_and_range([run[str(pairs)] for run in runs], digits=1) for pairs in TESTED)]
        for name, runs in results.items()
    ]
    return table(["model", *(f"{pairs} pairs" for pairs in TESTED)], rows)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the results to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this Markdown page")
    options = parser.parse_args()
    results = measure(steps=options.steps, seeds=options.seeds)
    print(page(results))
    if options.keep:
        write_json(options.keep, results)
    if options.write:
        write_page(options.write, page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
