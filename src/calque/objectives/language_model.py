"""The loss of a language model, on a batch in training and on a whole text in evaluation.

Letters: B rows, T tokens, E width.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.batching import BatchConfig, Bucketed
from calque.data.store import Store
from calque.data.text_batch import COLUMN, collate_lines
from calque.models.language_model import LanguageModel
from calque.objectives.cross_entropy import without_padding
from calque.tensors import exact
from calque.text import EOS, PAD

Array = NDArray[Any]


class TextLoss(NamedTuple):
    """The negative log-probability of a text."""

    nats: float
    tokens: int  # including ends of lines

    @property
    def per_token(self) -> float:
        return self.nats / max(1, self.tokens)


def token_loss(model: LanguageModel, hidden: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The cross-entropy of targets [B,T] given hidden [B,T,E], summed over all targets that are not padding.

    On a CPU, padding does not pass through the output layer (see `without_padding`).
    """
    if targets.device.type == "cpu":
        flat, words = without_padding(hidden, targets)
    else:
        flat, words = hidden.flatten(0, 1), targets.flatten()
    return model.total_loss(flat, words, smoothing=smoothing, ignored=PAD)


@torch.inference_mode()
def lines_loss(
    model: LanguageModel, store: Store, *, batch: BatchConfig, stop: Callable[[], None] | None = None
) -> TextLoss:
    """The loss of all lines of a store, read separately, end marks included; the model must be in evaluation mode.

    `stop` is called before every batch; an exception that it raises ends the computation.
    """
    device = next(model.parameters()).device
    total, tokens = exact(torch.zeros((), device=device)), 0  # precise enough not to depend on the batching
    config = batch.model_copy(update={"shapes": "exact"})
    order = Bucketed([store.widths(COLUMN, marks=1)], spans=store.spans, config=config, seed=0)
    for planned in order.batches(0):
        if stop is not None:
            stop()
        lines = collate_lines(store, planned)
        placed = lines.to(device)
        read, _ = model.read(placed.inputs, model.start(lines.rows))
        total += token_loss(model, read.hidden, placed.outputs)
        tokens += lines.weight
    return TextLoss(float(total), tokens)


@torch.inference_mode()
def running_loss(
    model: LanguageModel,
    text: Array,
    *,
    rows: int = 1,
    steps: int = 512,
    context: int = 256,
    stride: int = 128,
    stop: Callable[[], None] | None = None,
) -> TextLoss:
    """The loss of a running text [tokens], read as if an end mark preceded it; the model must be in evaluation mode.

    A recurrent model reads chunks of `steps` tokens and carries its state through the whole text or, which is faster,
    through each of `rows` equal parts. A Transformer reads overlapping windows of `context` tokens, `rows` at a time,
    and predicts all tokens of the first window and at most the last `stride` of every other.
    """
    device = next(model.parameters()).device
    total, tokens = exact(torch.zeros((), device=device)), 0
    for hidden, outputs in _read_running(
        model, text, rows=rows, steps=steps, context=context, stride=stride, stop=stop
    ):
        total += token_loss(model, hidden, torch.from_numpy(outputs).to(device))
        tokens += int((outputs != PAD).sum())
    return TextLoss(float(total), tokens)


@torch.inference_mode()
def running_token_losses(model: LanguageModel, text: Array, *, context: int = 256, stride: int = 128) -> list[float]:
    """The loss of each token of a running text [tokens], in order; their sum is the `running_loss`."""
    losses: list[float] = []
    for hidden, outputs in _read_running(model, text, context=context, stride=stride):
        predicted = torch.from_numpy(outputs).to(hidden.device)
        losses += model.losses(*without_padding(hidden, predicted)).tolist()
    return losses


def _read_running(
    model: LanguageModel,
    text: Array,
    *,
    rows: int = 1,
    steps: int = 512,
    context: int,
    stride: int,
    stop: Callable[[], None] | None = None,
) -> Iterator[tuple[Tensor, Array]]:
    """Reads a running text in chunks; yields the hidden vectors [B,T,E] and the tokens to predict [B,T] of each.

    Tokens that serve only as context are not predicted: they are replaced by padding in the second tensor.
    """
    device = next(model.parameters()).device
    chunks = _streams(text, rows=rows, steps=steps) if model.carries else _windows(text, context, stride, rows=rows)
    state: Any = None
    for inputs, outputs in chunks:
        if stop is not None:
            stop()
        if state is None or not model.carries or len(inputs) != rows:
            state = model.start(len(inputs))
        read, state = model.read(torch.from_numpy(inputs).to(device), state)
        yield read.hidden, outputs


def _streams(text: Array, *, rows: int, steps: int) -> Iterator[tuple[Array, Array]]:
    """Yields inputs and outputs (the next tokens) [B,T]: chunks of `rows` equal parts of the text, side by side.

    A chunk has up to `steps` tokens of each part. Tokens left over at the end follow as a chunk with a single row.
    """
    length = len(text) // rows
    if length == 0:
        rows, length = 1, len(text)
    outputs = text[: rows * length].astype(np.int64).reshape(rows, length)
    inputs = np.concatenate([np.full((1, 1), EOS), outputs[:-1, -1:]]).reshape(rows, 1)
    inputs = np.concatenate([inputs, outputs[:, :-1]], axis=1)
    for start in range(0, length, steps):
        yield inputs[:, start : start + steps].copy(), outputs[:, start : start + steps].copy()
    if remainder := len(text) - rows * length:
        tail = text[-remainder - 1 :].astype(np.int64)
        yield tail[None, :-1].copy(), tail[None, 1:].copy()


def _windows(text: Array, context: int, stride: int, *, rows: int) -> Iterator[tuple[Array, Array]]:
    """Yields inputs and outputs (the next tokens) [B,T]: overlapping windows of `context` tokens, `rows` at a time.

    A window ends at most `stride` tokens after the one before; only these are predicted, other outputs are padding.
    """
    stride = min(stride, context)
    whole = np.concatenate([[EOS], text.astype(np.int64)])
    ends = list(range(min(context, len(text)), len(text) + 1, stride)) if len(text) else []
    if ends and ends[-1] < len(text):
        ends.append(len(text))
    windows: list[tuple[Array, Array]] = []
    done = 0
    for end in ends:
        start = max(0, end - context)
        outputs = whole[start + 1 : end + 1].copy()
        outputs[: done - start] = PAD
        windows.append((whole[start:end], outputs))
        done = end
    for first in range(0, len(windows), rows):
        group = windows[first : first + rows]
        width = max(len(inputs) for inputs, _ in group)
        padded = [[np.pad(part, (0, width - len(part)), constant_values=PAD) for part in pair] for pair in group]
        yield np.stack([inputs for inputs, _ in padded]), np.stack([outputs for _, outputs in padded])
