"""From an encoder's last states to a decoder's first. Letters: B sentences, L layers, D width."""

from typing import Literal, assert_never

from torch import Tensor, nn

from calque.layers.recurrent import CellName, state_parts
from calque.models.interfaces import Memory, MemoryShape

BridgeName = Literal["copy", "tanh", "backward", "zero"]


class Bridge(nn.Module):
    """A decoder's first state.

    copy: the states of the encoder's top layers as they are (Sutskever 2014; Luong 2015);
    tanh: tanh(W h) of each layer, one W for all; where the encoder has fewer layers (one, if it has no recurrence),
    its top state gives all of them, each with a W of its own; backward: the same of the backward direction alone,
    tanh(W ←h₁) (Bahdanau 2015, A.2.2); zero. A part the encoder does not have (an LSTM's cell after a GRU) is zero.
    """

    def __init__(self, name: BridgeName, *, cell: CellName, memory: MemoryShape, layers: int, width: int) -> None:
        super().__init__()
        self.name = name
        self.layers, self.width, self.parts = layers, width, state_parts(cell)
        if name == "copy" and memory.layers < layers:
            raise ValueError(
                f"bridge 'copy': the decoder has {layers} layers, the encoder gives states of {memory.layers} only; "
                "use bridge = 'tanh' or 'zero', or fewer decoder layers"
            )
        if name == "copy" and memory.width != width:
            raise ValueError(
                f"bridge 'copy': the encoder's width {memory.width} is not the decoder's {width}; use bridge = 'tanh'"
            )
        if name == "backward" and memory.directions < 2:
            raise ValueError("bridge 'backward': the encoder's top layer reads one way only; use bridge = 'tanh'")
        self.spreads = memory.layers < layers
        inputs = memory.width // 2 if name == "backward" else memory.width
        shared = min(self.parts, memory.parts) if name in ("tanh", "backward") else 0
        self.dense = nn.ModuleList(nn.Linear(inputs, width * (layers if self.spreads else 1)) for _ in range(shared))

    def forward(self, memory: Memory) -> tuple[Tensor, ...]:
        """(h,) or (h, c), each [B,L,D]."""
        zero = memory.values.new_zeros(memory.values.shape[0], self.layers, self.width)
        top = [part[:, -self.layers :] for part in memory.final]
        given: list[Tensor]
        match self.name:
            case "zero":
                given = []
            case "copy":
                given = top
            case "tanh":
                given = [self._through(dense, part) for dense, part in zip(self.dense, top, strict=False)]
            case "backward":
                halves = [part.chunk(2, dim=-1)[1] for part in top]
                given = [self._through(dense, half) for dense, half in zip(self.dense, halves, strict=False)]
            case _:
                assert_never(self.name)
        return tuple(given[: self.parts]) + (zero,) * (self.parts - len(given[: self.parts]))

    def _through(self, dense: nn.Module, states: Tensor) -> Tensor:
        """[B,L,D] from states [B,L',D']."""
        if not self.spreads:
            return dense(states).tanh()  # type: ignore[no-any-return]
        return dense(states[:, -1]).tanh().unflatten(-1, (self.layers, self.width))  # type: ignore[no-any-return]
