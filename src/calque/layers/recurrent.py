"""A recurrent layer in one direction, over many positions at once or one step at a time.

Letters: N rows, T positions, E input width, D width, G gates. A state is (h,) or (h, c).
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import accumulate
from typing import Any, Literal, Protocol, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from calque.layers.arithmetic import arithmetic
from calque.layers.dropout import scaled_mask
from calque.layers.kept_weight import Origin
from calque.layers.observers import RecurrentStep, StateLayer
from calque.layers.packed_lstm import packed_lstm, packing, token_spans
from calque.layers.padded_lstm import Direction, side_by_side
from calque.native.operations import gru_cell, is_available, is_usable, lstm_cell, recurrent_layer
from calque.tensors import reverse_within

CellName = Literal["rnn", "rnn-relu", "lstm", "gru", "gru-original"]
State = tuple[Tensor, ...]


def state_parts(cell: CellName) -> int:
    """The number of tensors in a state: 2 for an LSTM, (h, c), otherwise 1, (h,)."""
    return 2 if cell == "lstm" else 1


class Recurrence(StateLayer):
    """One recurrent layer in one direction.

    Law: `forward` over T positions equals T calls of `step` on the output of `project`.
    The weights are those of PyTorch's own module (gates in the order i f g o for an LSTM, r z n for a GRU), whose fused
    kernel `forward` calls. There is no fused kernel for the original GRU, which applies the reset gate before the
    matrix product (Cho 2014, eq. 8), nor for layer normalisation: LSTMs and GRUs normalise the contributions of inputs
    and hidden state to the gates separately, LSTMs also the cell in the output, and RNNs the sum of both contributions
    (Ba 2016, §3.1 and supplement).
    If a `weight` [G·D,D] is passed, such as the result of `dropped`, it replaces the layer's own recurrent weights.
    """

    def __init__(self, cell: CellName, *, input_width: int, width: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.cell = cell
        self.width = width
        self.kernel = _kernel(cell, input_width=input_width, width=width, bias=not layer_norm)
        self.norms = nn.ModuleDict(_norms(cell, width=width) if layer_norm else {})
        self.products: Gates | None = None  # multiply with the kernel's weights in its place, see `packed` and `int8`

    @property
    def has_native(self) -> bool:
        """Whether kernels of `calque.native` can compute the layer: LSTMs and GRUs without layer normalisation."""
        return self.cell in ("lstm", "gru") and not self.norms and is_available()

    def used_products(self, *changes: Tensor | None) -> "Gates | None":
        """The matrix products that replace PyTorch's module in decoding; None if PyTorch's module is used.

        PyTorch's module is used in training, with gradients enabled, and if any of `changes` (a dropout mask or other
        weights) is given. A model quantised to 8 bits has no such module and always uses its own products.
        """
        is_changed = self.training or torch.is_grad_enabled() or any(change is not None for change in changes)
        return None if is_changed and hasattr(self, "kernel") else self.products

    def zero_state(self, rows: int, *, like: Tensor) -> State:
        """A state of zeros with this many rows."""
        return tuple(like.new_zeros(rows, self.width) for _ in range(state_parts(self.cell)))

    def is_fused(self, keep: Tensor | None) -> bool:
        """Whether PyTorch's fused kernel computes the layer.

        That kernel supports neither dropout on the state (`keep`) nor observers nor 8-bit products.
        """
        is_plain = self.cell != "gru-original" and not self.norms and self.used_products(keep) is None
        return is_plain and keep is None and self.state_observer is None

    def weight_mask(self, *, dropout: float) -> Tensor:
        """A mask [G·D,D] of the recurrent weights: 0 with probability `dropout`, else 1 / (1 − dropout)."""
        return scaled_mask(self.kernel.all_weights[0][1].detach(), dropout)

    def dropped(self, mask: Tensor) -> Tensor:
        """M ∘ U, the recurrent weights U times a mask M (DropConnect: Wan 2013; on U only: Merity 2018, §2)."""
        weight: Tensor = self.kernel.all_weights[0][1]
        return (weight * mask).to(weight.dtype)

    def forward(
        self, inputs: Tensor, state: State, *, keep: Tensor | None = None, weight: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """[N,T,D] outputs and the state after them, from [N,T,E] inputs and a state of [N,D] tensors."""
        if not self.is_fused(keep):
            return self.unrolled(inputs, state, keep=keep, weight=weight)
        first = tuple(part[None].contiguous() for part in state)  # in PyTorch, layers come first
        outputs, after = self._with(weight)(inputs, first if self.cell == "lstm" else first[0])
        return outputs, tuple(part[0] for part in (after if self.cell == "lstm" else (after,)))

    def direction(self, weight: Tensor | None) -> Direction:
        """The weights of this LSTM layer as `padded_lstm` takes them; `weight`, if given, is the recurrent weight."""
        entering, recurring, *biases = self.kernel.all_weights[0]
        return Direction(entering, recurring if weight is None else weight, (biases[0], biases[1]))

    def packed(
        self, inputs: Tensor, lengths: Tensor, *, weight: Tensor | None = None, backward: bool = False
    ) -> tuple[Tensor, State]:
        """`forward` of an LSTM from a zero state over rows of different `lengths` [N], with the fused kernel.

        The final state of a row is the state after its last position; padding is not read. If `backward`, rows are read
        from their last position to the first; outputs are in the order of the inputs. In training on a CPU,
        `packed_lstm` replaces PyTorch's kernel.
        """
        assert self.cell == "lstm"
        if self.training and _is_computed_here(inputs):
            entering, recurring, *biases = self.kernel.all_weights[0]
            weights = entering, recurring if weight is None else weight
            states = packed_lstm(inputs, lengths, weights=weights, bias=biases[0] + biases[1], backward=backward)
            return states.hidden, states.final
        device_lengths = lengths.to(inputs.device, non_blocking=True)
        ordered = reverse_within(inputs, device_lengths) if backward else inputs
        packed = pack_padded_sequence(ordered, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, final = self._with(weight)(packed)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
        padded = reverse_within(padded, device_lengths) if backward else padded
        return padded, tuple(part[0] for part in final)

    def unrolled(
        self,
        inputs: Tensor,
        state: State,
        *,
        keep: Tensor | None = None,
        weight: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """`forward` without the fused kernel, one step at a time.

        With `lengths` [N], the final state of a row is the state after its last position, before any padding.
        """
        outputs = []
        for place, projected in enumerate(self.project(inputs).unbind(1)):
            output, after = self.step(projected, state, keep=keep, weight=weight)
            if lengths is not None:
                going = (place < lengths)[:, None]
                after = tuple(torch.where(going, new, old) for new, old in zip(after, state, strict=True))
            outputs.append(output)
            state = after
        return torch.stack(outputs, dim=1), state

    def unrolled_without_padding(
        self, inputs: Tensor, lengths: Tensor, *, backward: bool = False
    ) -> tuple[Tensor, State]:
        """`unrolled` from a zero state over rows of different `lengths` [N]; padding is not read.

        It computes the same as `packed`, but for every kind of cell.
        """
        rows, size, _ = inputs.shape
        order = packing(lengths.cpu(), size=size, backward=backward)
        projected = self.project(inputs.flatten(0, 1).index_select(0, order.places))
        if self._computes_natively(projected) and self.has_native:
            assert self.products is not None
            product = self.products.recurring.native()
            parts = recurrent_layer(projected, order.sizes, product, cell=self.cell == "lstm")
            padded = inputs.new_zeros(rows * size, self.width).index_copy_(0, order.places, parts[0])
            return padded.view(rows, size, -1), tuple(part.index_select(0, order.last) for part in parts)
        outputs, states, state = [], [], self.zero_state(rows, like=inputs)
        for start, stop in token_spans(order.sizes):
            output, state = self.step(projected[start:stop], tuple(part[: stop - start] for part in state))
            outputs.append(output)
            states.append(state)
        tokens = torch.cat(outputs)
        padded = tokens.new_zeros(rows * size, self.width).index_copy_(0, order.places, tokens)
        final = (torch.cat(parts).index_select(0, order.last) for parts in zip(*states, strict=True))
        return padded.view(rows, size, -1), tuple(final)

    def project(self, inputs: Tensor) -> Tensor:
        """[...,G·D], the inputs' contribution to the gates; inputs narrower than E use the first weight columns."""
        if (products := self.used_products()) is not None:
            return products.entering(0, inputs.shape[-1])(inputs)
        weight, _, *bias = self.kernel.all_weights[0]
        met = weight if inputs.shape[-1] == weight.shape[-1] else weight[:, : inputs.shape[-1]]
        return F.linear(inputs, met, bias[0] if bias else None)

    def rest(self, start: int) -> Callable[[Tensor], Tensor]:
        """A function that computes what the input columns from `start` on contribute to the gates.

        It adds no bias, as `project` does that. Call this method once before a loop: slicing the weights at every step
        would allocate a gradient of the whole matrix at every step.
        """
        if (products := self.used_products()) is not None:
            return products.entering(start, products.inputs)
        weight, *_ = self.kernel.all_weights[0]
        return partial(F.linear, weight=weight[:, start:])

    def step(
        self, projected: Tensor, state: State, *, keep: Tensor | None = None, weight: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """[N,D] output and the next state, from the projected inputs [N,G·D] of one position.

        `keep` [N,D] multiplies the hidden state that enters matrix products (variational dropout: Gal 2016, eq. 7).
        """
        output, after = self._next(projected, state, keep=keep, weight=weight)
        if self.state_observer is not None:
            self.state_observer(RecurrentStep(projected, state, after))
        return output, after

    def _next(
        self, projected: Tensor, state: State, *, keep: Tensor | None, weight: Tensor | None
    ) -> tuple[Tensor, State]:
        before = state[0]
        recurring = before if keep is None else before * keep
        match self.cell:
            case "rnn" | "rnn-relu":
                total = self._norm("total", projected + self._recurrent(recurring, weight))
                hidden = total.tanh() if self.cell == "rnn" else total.relu()
                return hidden, (hidden,)
            case "lstm":
                hidden_gates = self._recurrent(recurring, weight)
                if self._computes_natively(projected):
                    hidden, memory = lstm_cell(projected, hidden_gates, state[1])
                    return hidden, (hidden, memory)
                if not self.norms and is_cell_fused(hidden_gates):
                    return fused_lstm_cell(projected, hidden_gates, state[1])
                gates = self._norm("inputs", projected) + self._norm("hidden", hidden_gates)
                enter, forget, candidate, leave = gates.chunk(4, dim=-1)
                memory = forget.sigmoid() * state[1] + enter.sigmoid() * candidate.tanh()
                hidden = leave.sigmoid() * self._norm("cell", memory).tanh()
                return hidden, (hidden, memory)
            case "gru" if self._computes_natively(projected):
                hidden = gru_cell(projected, self._recurrent(recurring, weight), before)
                return hidden, (hidden,)
            case "gru" | "gru-original":
                update, candidate = self._update(projected, recurring, weight)
                hidden = update * before + (1 - update) * candidate
                return hidden, (hidden,)
            case _:
                assert_never(self.cell)

    def _computes_natively(self, projected: Tensor) -> bool:
        """Whether a C kernel of `calque.native` computes a step, apart from its matrix products.

        It does so in decoding on a CPU, without layer normalisation.
        """
        return self.used_products() is not None and not self.norms and is_usable(projected)

    def _update(self, projected: Tensor, recurring: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """The update gate and the candidate state of a GRU."""
        cut = [2 * self.width, self.width]
        entering, candidate = torch.split(projected, cut, dim=-1)
        if self.cell == "gru":
            shares, inner = torch.split(self._recurrent(recurring, weight), cut, dim=-1)
            reset, update = self._gates(entering, shares)
            inner = reset * self._norm("candidate_hidden", inner)
        else:
            for_gates, for_candidate = self._recurrent_parts(cut, weight)
            reset, update = self._gates(entering, for_gates(recurring))
            inner = self._norm("candidate_hidden", for_candidate(reset * recurring))
        return update, (self._norm("candidate_inputs", candidate) + inner).tanh()

    def _gates(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The reset and update gates of a GRU, from the contributions of inputs and hidden state."""
        reset, update = (self._norm("inputs", inputs) + self._norm("hidden", hidden)).sigmoid().chunk(2, dim=-1)
        return reset, update

    def _recurrent(self, hidden: Tensor, weight: Tensor | None) -> Tensor:
        """The hidden state's contribution to the gates, W h + b; `weight`, if given, replaces the layer's own W."""
        if (products := self.used_products(weight)) is not None:
            return products.recurring(hidden)
        _, own, *bias = self.kernel.all_weights[0]
        return F.linear(hidden, own if weight is None else weight, bias[1] if bias else None)

    def _recurrent_parts(self, cut: list[int], weight: Tensor | None) -> list[Callable[[Tensor], Tensor]]:
        """`_recurrent` of a GRU as two functions, for the gates and for the candidate, with output widths `cut`."""
        if (products := self.used_products(weight)) is not None:
            return products.recurring_parts(cut)
        _, own, *bias = self.kernel.all_weights[0]
        weights = torch.split(own if weight is None else weight, cut)
        biases = torch.split(bias[1], cut) if bias else (None, None)
        return [partial(F.linear, weight=part, bias=shift) for part, shift in zip(weights, biases, strict=True)]

    def _with(self, weight: Tensor | None) -> nn.RNNBase:
        """PyTorch's recurrent module or, if a `weight` is given, a copy with these recurrent weights.

        A module is used because torch.compile leaves PyTorch's modules intact but unrolls the bare operation.
        """
        if weight is None:
            return self.kernel
        kernel, (entering, _, *biases) = copy(self.kernel), self.kernel.all_weights[0]
        kernel._flat_weights = side_by_side([entering, weight, *biases])  # type: ignore[assignment]
        return kernel

    def _norm(self, name: str, values: Tensor) -> Tensor:
        return self.norms[name](values) if self.norms else values


def is_cell_fused(gates: Tensor) -> bool:
    """Whether one kernel computes an LSTM's cell: on a GPU, with gradients enabled and `training.arithmetic` ≥ 3."""
    return gates.device.type == "cuda" and torch.is_grad_enabled() and arithmetic() >= 3


def fused_lstm_cell(projected: Tensor, hidden_gates: Tensor, cell: Tensor) -> tuple[Tensor, State]:
    """h and (h, c) of an LSTM, given both contributions [N,4D] to its gates, in one kernel instead of nine."""
    kind = hidden_gates.dtype
    hidden, memory, _ = torch.ops.aten._thnn_fused_lstm_cell(projected.to(kind), hidden_gates, cell.to(kind))
    return hidden, (hidden, memory)


class Product(Protocol):
    """A linear layer that can be split by inputs (`columns`) or outputs (`rows`): `PackedLinear` or `Int8Linear`."""

    @property
    def weight(self) -> Tensor: ...
    def __call__(self, inputs: Tensor, /) -> Tensor: ...
    def columns(self, start: int, stop: int) -> Any: ...
    def rows(self, start: int, stop: int) -> Any: ...
    def native(self) -> Any:
        """The object that computes W x + b with the C kernels of `calque.native`."""
        ...


class Gates(nn.Module):
    """The matrix products of a recurrent layer for decoding, with the weights of PyTorch's module.

    `linear` builds a layer from a weight and a bias.
    """

    def __init__(self, kernel: nn.RNNBase, *, linear: Callable[[Any, Any], Product]) -> None:
        super().__init__()
        entering, recurring, *biases = kernel.all_weights[0]
        self.inputs = entering.shape[1]
        self.all_entering = linear(entering, biases[0] if biases else None)
        self.recurring = linear(recurring, biases[1] if biases else None)
        self._parts: dict[tuple[str, int, int], tuple[Origin, Product]] = {}  # columns or rows, made when first used

    def entering(self, start: int, stop: int) -> Product:
        """The layer that multiplies the input columns from `start` to `stop`."""
        if (start, stop) == (0, self.inputs):
            return self.all_entering
        return self._part("entering", start, stop, of=self.all_entering, cut=self.all_entering.columns)

    def recurring_parts(self, sizes: list[int]) -> list[Callable[[Tensor], Tensor]]:
        """The layer that multiplies the hidden state, split into one layer for each group of gates.

        `sizes` are the output widths of these layers, e.g. [2·D, D] for the gates and the candidate of a GRU.
        """
        ends = accumulate(sizes)
        return [
            self._part("recurring", end - size, end, of=self.recurring, cut=self.recurring.rows)
            for size, end in zip(sizes, ends, strict=True)
        ]

    def _part(self, name: str, start: int, stop: int, *, of: Product, cut: Callable[[int, int], Product]) -> Product:
        """The rows or columns `cut(start, stop)` of the layer `of`, cached until the weight of that layer changes."""
        key = (name, start, stop)
        if key not in self._parts or not self._parts[key][0].is_of(of.weight):
            self._parts[key] = Origin.now(of.weight), cut(start, stop)
        return self._parts[key][1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": {}}


def _is_computed_here(inputs: Tensor) -> bool:
    """Whether `packed_lstm` computes the layer: on a CPU, with gradients enabled and `training.arithmetic` ≥ 2."""
    is_eager_cpu = inputs.device.type == "cpu" and not torch.compiler.is_compiling()
    return is_eager_cpu and torch.is_grad_enabled() and arithmetic() >= 2


def _kernel(cell: CellName, *, input_width: int, width: int, bias: bool) -> nn.RNNBase:
    match cell:
        case "rnn":
            return nn.RNN(input_width, width, batch_first=True, bias=bias)
        case "rnn-relu":
            return nn.RNN(input_width, width, batch_first=True, bias=bias, nonlinearity="relu")
        case "lstm":
            return nn.LSTM(input_width, width, batch_first=True, bias=bias)
        case "gru" | "gru-original":
            return nn.GRU(input_width, width, batch_first=True, bias=bias)
        case _:
            assert_never(cell)


def _norms(cell: CellName, *, width: int) -> dict[str, nn.Module]:
    match cell:
        case "rnn" | "rnn-relu":
            sizes = {"total": 1}
        case "lstm":
            sizes = {"inputs": 4, "hidden": 4, "cell": 1}
        case "gru" | "gru-original":
            sizes = {"inputs": 2, "hidden": 2, "candidate_inputs": 1, "candidate_hidden": 1}
        case _:
            assert_never(cell)
    return {name: nn.LayerNorm(size * width) for name, size in sizes.items()}
