"""What the recurrent decoders with one attention share (Bahdanau's, Luong's, Wu's).

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width.
"""

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from calque.layers.attention import Attended, Attention, AttentionConfig, AttentionContext, AttentionState, join
from calque.layers.copying import CopyGate
from calque.layers.recurrent import Recurrence, State
from calque.layers.reinforce import Draws
from calque.models.seam import Decoder, MemoryShape, Output

S = TypeVar("S")
C = TypeVar("C")


class AttendingDecoder(Decoder[S, C]):
    """A decoder with one attention over the memory, whose words may be copied from where it looks."""

    def __init__(
        self, attention: AttentionConfig, *, memory: MemoryShape, width: int, embedding: int, copies: bool
    ) -> None:
        """The width is that of the states which look, and which the gate of what is copied reads."""
        super().__init__()
        self.attention = Attention(attention, query_width=width, memory_width=memory.width)
        self.copy_gate = CopyGate(context=memory.width, state=width, inputs=embedding) if copies else None
        self.draws = Draws(attention.reinforce, attention.discount) if attention.choice == "hard" else None

    def give(self, hidden: Tensor, found: Attended, *, states: Tensor, embedded: Tensor, attention: bool) -> Output:
        """The output of hidden vectors [N,T,·], of what was found, by states [N,T,D] and words [N,T,E]."""
        gate = None if self.copy_gate is None else self.copy_gate(found.context, states, embedded)
        return Output(
            hidden,
            found.weights if attention else None,
            gate,
            None if gate is None else found.shares,
            found.chosen,
            found.losses,
        )


class Led(NamedTuple):
    """What T steps of a layer gave that looks before each of them."""

    before: Tensor  # [N,T,D], the states that looked
    outputs: Tensor  # [N,T,D]
    found: Attended
    cell: State  # (h,) or (h, c), each [N,D]
    attention: AttentionState


def lead(
    recurrence: Recurrence,
    attention: Attention,
    embedded: Tensor,
    *,
    cell: State,
    looked: AttentionState,
    context: AttentionContext,
) -> Led:
    """sᵢ = f(sᵢ₋₁, [xᵢ; cᵢ]), cᵢ the attention of sᵢ₋₁, over inputs [N,T,E] (Bahdanau 2015, eq. 4-6; Wu 2016, eq. 4).

    The inputs' share of the gates is taken for all steps at once.
    """
    before, outputs, founds = [], [], []
    for projected in recurrence.project(embedded).unbind(1):
        before.append(cell[0])
        found, looked = attention(cell[0][:, None], looked, context)
        gates = projected + recurrence.project(found.context[:, 0], start=embedded.shape[-1])
        output, cell = recurrence.step(gates, cell)
        outputs.append(output)
        founds.append(found)
    return Led(torch.stack(before, dim=1), torch.stack(outputs, dim=1), join(founds), cell, looked)
