"""A task outside the package, passed as an object: classifying noisy frames.

A row is a sequence of frames, each a noisy one-hot vector; the model predicts the symbol of each frame.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.data.batch import row_slices
from calque.data.batching import WHOLE, BatchConfig, Bucketed, Planned, Shard
from calque.data.store import ColumnKind, Store, pack, pack_frames, store_in_memory
from calque.experiment import OwnTask
from calque.tasks.interfaces import Carry, Judgement, Loss, Metric, StoppedError

SYMBOLS, NOTHING = 5, -100


def frames_store(rows: int, *, seed: int) -> Store:
    generator = np.random.default_rng(seed)
    symbols = [generator.integers(SYMBOLS, size=generator.integers(2, 9)) for _ in range(rows)]
    frames = [np.eye(SYMBOLS, dtype=np.float32)[row] + generator.normal(0, 0.2, (len(row), SYMBOLS)) for row in symbols]
    return store_in_memory(
        {"frames": pack_frames([row.astype(np.float32) for row in frames]), "symbols": pack(symbols)}
    )


class FramesBatch(NamedTuple):
    frames: Tensor  # [B,T,F]
    symbols: Tensor  # [B,T]
    lengths: Tensor  # [B]
    weight: int
    shared_weight: int

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def positions(self) -> int:
        return self.symbols.numel()

    @property
    def filled(self) -> int:
        return self.weight

    def to(self, device: torch.device) -> "FramesBatch":
        return self._replace(frames=self.frames.to(device), symbols=self.symbols.to(device))

    def pin(self) -> "FramesBatch":
        return self._replace(frames=self.frames.pin_memory(), symbols=self.symbols.pin_memory())

    def split(self, parts: int) -> "list[FramesBatch]":
        return [
            FramesBatch(
                self.frames[at], self.symbols[at], self.lengths[at], int(self.lengths[at].sum()), self.shared_weight
            )
            for at in row_slices(self.rows, parts=parts)
        ]


class FramesCopy:
    """Predicts the symbol of each frame."""

    reads: Mapping[str, ColumnKind] = {"frames": ColumnKind("<f4", (SYMBOLS,)), "symbols": ColumnKind()}
    parts = ("loss",)
    divisible = True

    def order(self, store: Store, *, config: BatchConfig, seed: int) -> Bucketed:
        return Bucketed([store.widths("frames")], spans=store.spans, config=config, seed=seed)

    def collate(self, store: Store, planned: Planned, *, epoch: int, shard: Shard) -> FramesBatch:
        shared_weight = int(store.widths("frames")[planned.indices].sum())
        planned = planned.shard(shard)
        rows, (width,) = planned.size
        frames = torch.zeros(rows, width, SYMBOLS)
        symbols = torch.full((rows, width), NOTHING)
        lengths = torch.zeros(rows, dtype=torch.long)
        for row, index in enumerate(planned.indices):
            values = store["frames"].row(int(index))
            lengths[row] = len(values)
            frames[row, : len(values)] = torch.from_numpy(values.copy())
            symbols[row, : len(values)] = torch.from_numpy(store["symbols"].row(int(index)).astype(np.int64))
        return FramesBatch(frames, symbols, lengths, int(lengths.sum()), shared_weight)

    def loss(self, model: nn.Module, batch: FramesBatch, *, step: int, carry: Carry | None = None) -> Loss:
        scores = model(batch.frames)
        total = F.cross_entropy(scores.flatten(0, 1), batch.symbols.flatten(), ignore_index=NOTHING, reduction="sum")
        return Loss(total, {"loss": total.detach()})

    def follow(self, model: nn.Module, statistics: Tensor) -> None:
        """The task has no statistics."""


class FramesJudge:
    """The share of frames that are classified correctly."""

    metrics: Mapping[str, Metric] = {"accuracy": Metric("higher"), "loss": Metric("lower")}
    reports = ("loss", "accuracy")
    selects = "accuracy"
    positions = 64

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        task, correct, total, loss = FramesCopy(), 0, 0, 0.0
        order = task.order(self.store, config=BatchConfig(tokens=self.positions), seed=0)
        for planned in order.batches(0):
            if stop():
                raise StoppedError
            batch = task.collate(self.store, planned, epoch=0, shard=WHOLE)
            with torch.inference_mode():
                loss += float(task.loss(model, batch, step=0).objective)
                correct += int((model(batch.frames).argmax(-1) == batch.symbols).sum())
            total += batch.weight
        values = {"loss": loss / total, "accuracy": 100 * correct / total}
        return Judgement(values, ["frames\n"], {"note.txt": b"kept"}, f"accuracy {values['accuracy']:.1f} %")


class FramesModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(SYMBOLS, 8)
        self.dropout = nn.Dropout(0.1)
        self.output = nn.Linear(8, SYMBOLS)

    def forward(self, frames: Tensor) -> Tensor:
        return self.output(self.dropout(torch.tanh(self.dense(frames))))


def frames_task(*, task: FramesCopy | None = None, dropout: float = 0.1) -> OwnTask:
    torch.manual_seed(0)
    model = FramesModel()
    model.dropout.p = dropout
    return OwnTask(
        task or FramesCopy(), model, train=frames_store(200, seed=1), judge=FramesJudge(frames_store(40, seed=2))
    )
