"""Builds the step function that search calls, given a model. Letters: B sentences, S source, N hypotheses."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calque.layers.output import FullOutput, wide
from calque.layers.shortlist import ListedOutput, OwnWords, WordLists
from calque.models.language_model import LanguageModel
from calque.models.model import DecoderModel
from calque.search.step import Best, Marks, Step, StepOutput
from calque.tensors import Padded, Slots, with_slots
from calque.text import BOS, EOS, PAD

MARKS = Marks(start=BOS, end=EOS, never=(PAD, BOS))


def decoding_step(model: DecoderModel, *, attention: bool = False) -> Step:
    """The step function of a translation model, for search: reads one token and predicts the next one.

    It returns the log-probabilities of the next token, and attention weights if requested. If they are not requested
    and the model has no copy mechanism, it is a `BestStep`, which can also return only the best tokens.
    """

    def step(tokens: Tensor, state: Any, context: Any) -> tuple[StepOutput, Any]:
        output, state = model.read(tokens[:, None], state, context, attention=attention)
        weights = None if output.attention is None else wide(output.attention[:, -1])
        return StepOutput(model.log_probs(output, context)[:, -1], weights), state

    return step if attention or model.copies else _ModelStep(model, step)


class _ModelStep:
    """The step function of a model, with a method `best` that returns only the best next tokens."""

    def __init__(self, model: DecoderModel, step: Step) -> None:
        self.model, self.step = model, step

    def __call__(self, tokens: Tensor, state: Any, context: Any, /) -> tuple[StepOutput, Any]:
        return self.step(tokens, state, context)

    def best(
        self, tokens: Tensor, state: Any, context: Any, *, slots: Slots | None, count: int, end: int
    ) -> tuple[Best, Any]:
        output, state = self.model.read(tokens[:, None], state, with_slots(context, slots))
        return Best(*self.model.output.best(output.hidden[:, -1], count=count, end=end)), state

    def fixed(self, state: Any, *, size: int) -> Any | None:
        return self.model.decoder.fixed(state, size=size)


class ListedContext(NamedTuple):
    """The context of a model, and the words that each sentence's translation may contain."""

    context: Any
    own: OwnWords


def listed_step(
    model: DecoderModel, context: Any, lists: WordLists, *, attention: bool = False
) -> tuple[Step, ListedContext]:
    """The step function of a model that considers only the words of each sentence's list, and its context.

    Other words have log-probability −∞. If attention weights are not requested, it is a `BestStep`, which computes the
    logits of these words alone.
    """
    assert isinstance(model.output, FullOutput)
    assert not model.copies
    output = ListedOutput(model.output, lists)

    def step(tokens: Tensor, state: Any, context: ListedContext) -> tuple[StepOutput, Any]:
        read, state = model.read(tokens[:, None], state, context.context, attention=attention)
        weights = None if read.attention is None else wide(read.attention[:, -1])
        return StepOutput(output.log_probs(read.hidden[:, -1], context.own), weights), state

    listed = step if attention else _ListedStep(model, output, step)
    return listed, ListedContext(context, output.own(lists.own))


class _ListedStep:
    """The step function that `listed_step` builds, with a method `best` that returns only the best next tokens."""

    def __init__(self, model: DecoderModel, output: ListedOutput, step: Step) -> None:
        self.model, self.output, self.step = model, output, step

    def __call__(self, tokens: Tensor, state: Any, context: ListedContext, /) -> tuple[StepOutput, Any]:
        return self.step(tokens, state, context)

    def best(
        self, tokens: Tensor, state: Any, context: ListedContext, *, slots: Slots | None, count: int, end: int
    ) -> tuple[Best, Any]:
        read, state = self.model.read(tokens[:, None], state, with_slots(context.context, slots))
        best = self.output.best(read.hidden[:, -1], context.own, slots=slots, count=count, end=end)
        return Best(*best), state


def language_step(model: LanguageModel, *, start: int = BOS) -> Step:
    """The step function of a language model, for search; `start` is the token that the model reads first."""

    def step(tokens: Tensor, state: Any, _context: Any) -> tuple[StepOutput, Any]:
        read, state = model.read(tokens.masked_fill(tokens == BOS, start)[:, None], state)
        return StepOutput(model.log_probs(read.hidden)[:, -1]), state

    return step


def pad_source(ids: Sequence[Sequence[int]], *, size: Callable[[int], int] | None = None) -> Padded:
    """A batch of source sentences, given as ids without end marks: end marks are added, and rows are padded.

    `size` maps the length of the longest row to the padded size of all rows.
    """
    lengths = np.array([len(row) + 1 for row in ids], dtype=np.int64)
    longest = int(lengths.max())
    values = np.full((len(ids), longest if size is None else size(longest)), PAD, dtype=np.int64)
    places = np.arange(values.shape[1])
    flat = np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=int(lengths.sum()) - len(ids))
    values[places < lengths[:, None] - 1] = flat
    values[places == lengths[:, None] - 1] = EOS
    return Padded(torch.from_numpy(values), torch.from_numpy(lengths))
