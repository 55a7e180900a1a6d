"""What the recurrent decoders with one attention share (Bahdanau's, Luong's, Wu's).

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width.
"""

from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from calque.layers.attention import Attended, Attention, AttentionConfig, AttentionContext, AttentionState, join
from calque.layers.copying import CopyGate
from calque.layers.recurrent import Recurrence, State
from calque.layers.reinforce import Draws
from calque.models.interfaces import Decoder, MemoryShape, Output

S = TypeVar("S")
C = TypeVar("C")


class AttentionalConfig(Protocol):
    """What all their configs say."""

    @property
    def attention(self) -> AttentionConfig: ...
    @property
    def width(self) -> int: ...  # of the states that look, D
    @property
    def embedding(self) -> int: ...
    @property
    def copies(self) -> bool: ...


class Led(NamedTuple):
    """What T steps of a layer gave that looks before each of them."""

    before: Tensor  # [N,T,D], the states that looked
    outputs: Tensor  # [N,T,D]
    found: Attended
    cell: State  # (h,) or (h, c), each [N,D]
    attention: AttentionState


class AttentionalDecoder(Decoder[S, C]):
    """A decoder with one attention over the memory, whose words may be copied from where it looks."""

    def __init__(self, config: AttentionalConfig, *, memory: MemoryShape) -> None:
        super().__init__()
        attention, width = config.attention, config.width
        self.attention = Attention(attention, query_width=width, memory_width=memory.width)
        self.copy_gate = CopyGate(context=memory.width, state=width, inputs=config.embedding) if config.copies else None
        self.draws = Draws(attention.reinforce, attention.discount) if attention.choice == "hard" else None

    def lead(
        self, layer: Recurrence, embedded: Tensor, *, cell: State, looked: AttentionState, context: AttentionContext
    ) -> Led:
        """sᵢ = f(sᵢ₋₁, [xᵢ; cᵢ]), cᵢ the attention of sᵢ₋₁, over inputs [N,T,E] (Bahdanau 2015, §3.1; Wu 2016, eq. 4).

        The inputs' share of the gates is taken for all steps at once.
        """
        before, outputs, founds = [], [], []
        project = layer.rest(embedded.shape[-1])
        for projected in layer.project(embedded).unbind(1):
            before.append(cell[0])
            found, looked = self.attention(cell[0][:, None], looked, context)
            gates = projected + project(found.context.squeeze(1))
            output, cell = layer.step(gates, cell)
            outputs.append(output)
            founds.append(found)
        return Led(torch.stack(before, dim=1), torch.stack(outputs, dim=1), join(founds), cell, looked)

    def give(self, hidden: Tensor, found: Attended, *, states: Tensor, embedded: Tensor, attention: bool) -> Output:
        """The output of hidden vectors [N,T,·], of what was found, by states [N,T,D] and words [N,T,E]."""
        gate = None if self.copy_gate is None else self.copy_gate(found.context, states, embedded)
        weights, copied = found.weights if attention else None, None if gate is None else found.shares
        return Output(hidden, weights, gate, copied, found.chosen, found.losses)
