"""The common base of recurrent decoders with attention (Bahdanau's, Luong's, Wu's).

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
    """The settings common to the configs of all recurrent decoders with attention."""

    @property
    def attention(self) -> AttentionConfig: ...
    @property
    def width(self) -> int: ...  # D of the queries
    @property
    def embedding(self) -> int: ...
    @property
    def copies(self) -> bool: ...


class AttentionalSteps(NamedTuple):
    """The result of T time steps of a recurrent layer that attends to the source before each step."""

    before: Tensor  # [N,T,D], the state before each step, which is the query
    outputs: Tensor  # [N,T,D]
    attended: Attended
    cell: State  # (h,) or (h, c), each [N,D]
    attention: AttentionState


class AttentionalDecoder(Decoder[S, C]):
    """A decoder with a single attention layer over the memory; it can also copy source words."""

    has_fixed_state = True

    def __init__(self, config: AttentionalConfig, *, memory: MemoryShape) -> None:
        super().__init__()
        attention, width = config.attention, config.width
        self.attention = Attention(attention, query_width=width, memory_width=memory.width)
        self.copy_gate = CopyGate(context=memory.width, state=width, inputs=config.embedding) if config.copies else None
        self.draws = Draws(attention.reinforce, attention.discount) if attention.choice == "hard" else None

    def attend_and_step(
        self,
        layer: Recurrence,
        embedded: Tensor,
        *,
        cell: State,
        attention_state: AttentionState,
        context: AttentionContext,
    ) -> AttentionalSteps:
        """Runs a recurrent layer over T steps; it attends to the source with its previous state before each step.

        sᵢ = f(sᵢ₋₁, [xᵢ; cᵢ]), where cᵢ is the attention of sᵢ₋₁ (Bahdanau 2015, §3.1; Wu 2016, eq. 4) and x the inputs
        `embedded` [N,T,E]. The inputs' contribution to the gates is computed for all steps at once.
        """
        before, outputs, attended_steps = [], [], []
        project = layer.rest(embedded.shape[-1])
        for projected in layer.project(embedded).unbind(1):
            before.append(cell[0])
            attended, attention_state = self.attention(cell[0][:, None], attention_state, context)
            gates = projected + project(attended.context.squeeze(1))
            output, cell = layer.step(gates, cell)
            outputs.append(output)
            attended_steps.append(attended)
        return AttentionalSteps(
            torch.stack(before, dim=1), torch.stack(outputs, dim=1), join(attended_steps), cell, attention_state
        )

    def build_output(
        self, hidden: Tensor, attended: Attended, *, states: Tensor, embedded: Tensor, attention: bool
    ) -> Output:
        """The decoder's output, given hidden vectors [N,T,·] and the result of attention.

        The gate of copying decoders is computed from the context, `states` [N,T,D] and the words `embedded` [N,T,E].
        """
        gate = None if self.copy_gate is None else self.copy_gate(attended.context, states, embedded)
        weights, copied = attended.weights if attention else None, None if gate is None else attended.shares
        return Output(hidden, weights, gate, copied, attended.chosen, attended.losses)
