"""The bridge from an encoder's final states to a decoder's initial state. Letters: B sentences, L layers, D width."""

from typing import Literal, assert_never

from torch import Tensor, nn

from calque.layers.recurrent import CellName, state_parts
from calque.models.interfaces import Memory, MemoryShape

BridgeName = Literal["copy", "tanh", "backward", "zero"]


class Bridge(nn.Module):
    """Computes the initial state of a recurrent decoder from the final states of an encoder.

    copy: the final states of the encoder's top layers, unchanged (Sutskever 2014; Luong 2015);
    tanh: tanh(W h) of each layer with a shared W; if the encoder has fewer layers than the decoder (one, if it is not
    recurrent), all decoder layers are computed from its top state, each with its own W;
    backward: like tanh, but of the backward direction only, tanh(W ←h₁) (Bahdanau 2015, A.2.2); zero: zeros.
    Tensors without a counterpart in the encoder, such as the cell of an LSTM decoder after a GRU encoder, are zero.
    """

    def __init__(self, name: BridgeName, *, cell: CellName, memory: MemoryShape, layers: int, width: int) -> None:
        super().__init__()
        self.name = name
        self.layers, self.width, self.parts = layers, width, state_parts(cell)
        if name == "copy" and memory.layers < layers:
            raise ValueError(
                f"bridge 'copy': the decoder has {layers} layers, but the encoder has states for only {memory.layers}; "
                "use bridge = 'tanh' or 'zero', or fewer decoder layers"
            )
        if name == "copy" and memory.width != width:
            raise ValueError(
                f"bridge 'copy': the encoder's width {memory.width} differs from the decoder's {width}; "
                "use bridge = 'tanh'"
            )
        if name == "backward" and memory.directions < 2:
            raise ValueError("bridge 'backward': the encoder's top layer is unidirectional; use bridge = 'tanh'")
        self.spreads = memory.layers < layers
        inputs = memory.width // 2 if name == "backward" else memory.width
        shared = min(self.parts, memory.parts) if name in ("tanh", "backward") else 0
        self.dense = nn.ModuleList(nn.Linear(inputs, width * (layers if self.spreads else 1)) for _ in range(shared))

    def forward(self, memory: Memory) -> tuple[Tensor, ...]:
        """The decoder's initial state: (h,) or, for an LSTM, (h, c), each [B,L,D]."""
        zero = memory.values.new_zeros(memory.values.shape[0], self.layers, self.width)
        top = [part[:, -self.layers :] for part in memory.final]
        states: list[Tensor]
        match self.name:
            case "zero":
                states = []
            case "copy":
                states = top
            case "tanh":
                states = [self._project(dense, part) for dense, part in zip(self.dense, top, strict=False)]
            case "backward":
                halves = [part.chunk(2, dim=-1)[1] for part in top]
                states = [self._project(dense, half) for dense, half in zip(self.dense, halves, strict=False)]
            case _:
                assert_never(self.name)
        return tuple(states[: self.parts]) + (zero,) * (self.parts - len(states[: self.parts]))

    def _project(self, dense: nn.Module, states: Tensor) -> Tensor:
        """The decoder's initial states tanh(W h) [B,L,D], given the encoder's last states h [B,L',D']; `dense` is W."""
        if not self.spreads:
            return dense(states).tanh()  # type: ignore[no-any-return]
        return dense(states[:, -1]).tanh().unflatten(-1, (self.layers, self.width))  # type: ignore[no-any-return]
