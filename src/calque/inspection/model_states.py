"""The states of encoder and decoder while a model reads sentence pairs.

Letters: B sentences, S source pieces, T target pieces, D width.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.translator import Translator
from calque.folders.weights import weights_of
from calque.layers.output import wide
from calque.models.model import Context, Model
from calque.objectives.decoding_step import pad_source
from calque.text import BOS, PAD

WINDOW = 256  # pairs that are sorted by length together
POSITIONS = 4096  # source and target positions of a batch


class PairIds(NamedTuple):
    """A sentence pair as token ids: a source without end mark, and a target with its end mark unless truncated."""

    source: Sequence[int]
    target: Sequence[int]

    @property
    def longest(self) -> int:
        return max(len(self.source) + 1, len(self.target))


class PairStates(NamedTuple):
    """The top-layer states of encoder and decoder for one sentence pair, on the CPU."""

    encoder: Tensor  # [S,D], the memory at each source piece, the end mark included
    decoder: Tensor  # [T,D], the vector that predicts each target piece, under teacher forcing


@torch.inference_mode()
def read_states(model: Model, pairs: Sequence[PairIds]) -> list[PairStates]:
    """The states of the encoder's and the decoder's top layer for each pair; all pairs are read as one batch."""
    device = next(model.parameters()).device
    source = pad_source([pair.source for pair in pairs]).to(device)
    inputs = torch.full((len(pairs), max(len(pair.target) for pair in pairs)), PAD)
    for row, pair in enumerate(pairs):
        inputs[row, : len(pair.target)] = torch.tensor([BOS, *pair.target[:-1]])
    with model.evaluating():
        memory = model.encode(source)
        context = Context(model.decoder.prepare(memory), source.values if model.copies else None)
        output, _ = model.read(inputs.to(device), model.start(context), context)
    encoder, decoder = wide(memory.values).cpu(), wide(output.hidden).cpu()
    return [
        PairStates(encoder[row, : len(pair.source) + 1], decoder[row, : len(pair.target)])
        for row, pair in enumerate(pairs)
    ]


def read_many(model: Model, pairs: Sequence[PairIds]) -> Iterator[list[PairStates]]:
    """Yields the states of many pairs, in the order of `pairs`, WINDOW pairs at a time.

    Within a window, pairs of similar length are read as one batch.
    """
    for start in range(0, len(pairs), WINDOW):
        window = pairs[start : start + WINDOW]
        states: list[PairStates | None] = [None] * len(window)
        for batch in _batches(window):
            for place, pair_states in zip(batch, read_states(model, [window[place] for place in batch]), strict=True):
                states[place] = pair_states
        yield [pair_states for pair_states in states if pair_states is not None]


def _batches(pairs: Sequence[PairIds]) -> Iterator[list[int]]:
    """Yields batches as indices into `pairs`, shortest first; at most POSITIONS source and target positions each."""
    batch: list[int] = []
    for place in sorted(range(len(pairs)), key=lambda place: pairs[place].longest):
        if batch and (len(batch) + 1) * pairs[place].longest > POSITIONS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def model_fingerprint(translator: Translator) -> dict[str, str]:
    """Digests of everything that a model's states depend on: its weights, its config and its tokenizers."""
    weights = hashlib.sha256()
    for name, value in weights_of(translator.model).items():
        weights.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        weights.update(value.flatten().view(torch.uint8).numpy().data)
    config = translator.config.model_dump_json().encode()
    tokenizers = translator.tokenizers._asdict().values()
    return {
        "weights": weights.hexdigest(),
        "config": hashlib.sha256(config).hexdigest(),
        "tokenizers": hashlib.sha256(b"".join(tokenizer.to_bytes() for tokenizer in tokenizers)).hexdigest(),
    }
