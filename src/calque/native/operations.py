"""Python functions for the kernels. All tensors are float32 on the CPU, and no gradients are computed.

Letters: M rows, I inputs, O outputs, N hypotheses, B sentences, H heads, G key-value heads, d head width, S source,
P positions, V vocabulary, C best words, D width.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.native.library import compiled


def is_available() -> bool:
    """Whether the kernels are compiled and loaded."""
    return compiled().library is not None


def is_usable(values: Tensor) -> bool:
    """Whether the kernels can compute with these values: float32 on a CPU, without gradients."""
    is_plain = values.dtype == torch.float32 and values.device.type == "cpu"
    return is_plain and not torch.is_grad_enabled() and is_available()


class FloatProduct:
    """W x + b for rows x, with the weight W [O,I] in the layout of the kernel."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.outputs, self.inputs = weight.shape
        self._bias = _with_zeros(torch.zeros(self.outputs) if bias is None else bias)
        plain = weight.detach().contiguous()
        self._packed = torch.empty(_padded(self.outputs) * self.inputs)
        _library().pack_float(plain.data_ptr(), self.outputs, self.inputs, self._packed.data_ptr())

    def __call__(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        """The outputs [...,O] for inputs [...,I]: with max(0, ·) if `relu`; then `added` [...,O] is added."""
        rows, stride = _rows(inputs)
        outputs, more = torch.empty(*inputs.shape[:-1], self.outputs), _added(added)
        _library().linear_float(
            rows.data_ptr(),
            stride,
            len(rows),
            self.inputs,
            self._packed.data_ptr(),
            self.outputs,
            self._bias.data_ptr(),
            None if more is None else more.data_ptr(),
            self.outputs,
            relu,
            outputs.data_ptr(),
            self.outputs,
            torch.get_num_threads(),
        )
        return outputs


class Int8Product:
    """The same with 8-bit integers: W = scales · levels, and every row of inputs has a scale of its own."""

    def __init__(self, levels: Tensor, scales: Tensor, bias: Tensor) -> None:
        self.outputs, self.inputs = levels.shape
        padded = _padded(self.outputs)
        self._bias, self._scales = _with_zeros(bias), _with_zeros(scales)
        self._packed = torch.empty(padded * (self.inputs + -self.inputs % 4), dtype=torch.int8)
        self._offsets = torch.empty(padded, dtype=torch.int32)
        plain = levels.detach().contiguous()
        _library().pack_int8(
            plain.data_ptr(), self.outputs, self.inputs, self._packed.data_ptr(), self._offsets.data_ptr()
        )

    def __call__(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        """The outputs [...,O] for inputs [...,I]: with max(0, ·) if `relu`; then `added` [...,O] is added."""
        rows, stride = _rows(inputs)
        outputs, more = torch.empty(*inputs.shape[:-1], self.outputs), _added(added)
        _check_memory(
            _library().linear_int8(
                rows.data_ptr(),
                stride,
                len(rows),
                self.inputs,
                self._packed.data_ptr(),
                self._offsets.data_ptr(),
                self._scales.data_ptr(),
                self.outputs,
                self._bias.data_ptr(),
                None if more is None else more.data_ptr(),
                self.outputs,
                relu,
                outputs.data_ptr(),
                self.outputs,
                torch.get_num_threads(),
            )
        )
        return outputs


def attend_steps(queries: Tensor, steps: Sequence[Tensor], ancestors: Tensor, *, heads: int, groups: int) -> Tensor:
    """softmax(q·k/√d) v, the self-attention [N,H·d] of queries [N,H·d] over the tokens of each hypothesis.

    `steps` has the keys and values [·,2·G·d] of each position P; `ancestors` [N,P], int32, says in which of their rows
    the token of a hypothesis is.
    """
    count, size, width = len(queries), len(steps), queries.shape[1] // heads
    outputs = torch.empty(count, heads * width)
    places = (ctypes.c_void_p * size)(*[step.data_ptr() for step in steps])
    strides = (ctypes.c_int64 * size)(*[step.stride(0) for step in steps])
    _check_memory(
        _library().attend_steps(
            queries.data_ptr(),
            queries.stride(0),
            count,
            places,
            strides,
            ancestors.data_ptr(),
            size,
            heads,
            groups,
            width,
            width**-0.5,
            outputs.data_ptr(),
            torch.get_num_threads(),
        )
    )
    return outputs


def attend_source(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    sentences: Tensor,
    lengths: Tensor,
    scale: float,
    additive: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """softmax(scale · q·k) v, the attention [N,H·d'] of queries [N,H,d] over keys [B,G,S,d] and values [B,G,S,d'].

    With a vector v = `additive` [d], the score is v·tanh(q + k) instead. Query n attends to the first `lengths` [B]
    positions of sentence `sentences[n]`. With one head, `weights` [N,S] gets the attention weights.
    """
    count, heads, width = queries.shape
    size, value_width = keys.shape[2], values.shape[3]
    queries, keys, values = map(_adjacent, (queries, keys, values))
    if queries.stride(1) != width:
        queries = queries.contiguous()
    outputs = torch.empty(count, heads * value_width)
    _check_memory(
        _library().attend_source(
            queries.data_ptr(),
            queries.stride(0),
            count,
            ctypes.byref(_Strided.of(keys)),
            ctypes.byref(_Strided.of(values)),
            sentences.data_ptr(),
            lengths.data_ptr(),
            size,
            heads,
            keys.shape[1],
            width,
            value_width,
            scale,
            None if additive is None else additive.data_ptr(),
            outputs.data_ptr(),
            None if weights is None else weights.data_ptr(),
            torch.get_num_threads(),
        )
    )
    return outputs


def best_words(
    logits: Tensor, *, count: int, end: int, among: int | None = None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Log-probabilities [M,C] and ids [M,C] of the `count` best words, best first, and log-probabilities [M] of `end`.

    Of equally likely words, the lower id comes first. With `among`, only the first words are compared; probabilities
    are normalised over all of them. None if a row of the logits [M,V] has no finite maximum.
    """
    rows = len(logits)
    log_probs, words, ends = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long), torch.empty(rows)
    wrong = _library().best_words(
        logits.data_ptr(),
        logits.stride(0),
        rows,
        logits.shape[1],
        logits.shape[1] if among is None else among,
        count,
        end,
        log_probs.data_ptr(),
        words.data_ptr(),
        ends.data_ptr(),
        torch.get_num_threads(),
    )
    _check_memory(wrong < 0)
    return None if wrong else (log_probs, words, ends)


def lstm_cell(entering: Tensor, recurring: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """h and c [N,D] of an LSTM, given both contributions [N,4D] to its gates i f g o and the cell before [N,D]."""
    entering, recurring, cell = map(_adjacent, (entering, recurring, cell))
    rows, width = cell.shape
    hidden, after = torch.empty(rows, width), torch.empty(rows, width)
    _library().lstm_cell(
        entering.data_ptr(),
        entering.stride(0),
        recurring.data_ptr(),
        recurring.stride(0),
        cell.data_ptr(),
        cell.stride(0),
        rows,
        width,
        hidden.data_ptr(),
        after.data_ptr(),
        torch.get_num_threads(),
    )
    return hidden, after


def gru_cell(entering: Tensor, recurring: Tensor, hidden: Tensor) -> Tensor:
    """The next h [N,D] of a GRU, given both contributions [N,3D] to its gates r z n and the h before [N,D]."""
    entering, recurring, hidden = map(_adjacent, (entering, recurring, hidden))
    rows, width = hidden.shape
    after = torch.empty(rows, width)
    _library().gru_cell(
        entering.data_ptr(),
        entering.stride(0),
        recurring.data_ptr(),
        recurring.stride(0),
        hidden.data_ptr(),
        hidden.stride(0),
        rows,
        width,
        after.data_ptr(),
        torch.get_num_threads(),
    )
    return after


class _Strided(ctypes.Structure):
    """The C struct `strided` of kernels.c: a pointer to a tensor, and the strides of its dimensions."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("row", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("place", ctypes.c_int64),
    )

    @classmethod
    def of(cls, values: Tensor) -> "_Strided":
        return cls(values.data_ptr(), values.stride(0), values.stride(1), values.stride(2))


def _library() -> Any:
    library = compiled().library
    assert library is not None
    return library


def _padded(outputs: int) -> int:
    return outputs + -outputs % _library().panel()  # type: ignore[no-any-return]


def _with_zeros(values: Tensor) -> Tensor:
    """A float32 copy of values [O], padded with zeros to a multiple of the outputs that a kernel computes at once."""
    return F.pad(values.detach().float(), (0, _padded(len(values)) - len(values))).clone()


def _adjacent(values: Tensor) -> Tensor:
    """The tensor itself if the numbers of its last dimension are next to each other, else a copy."""
    return values if values.stride(-1) == 1 else values.contiguous()


def _rows(inputs: Tensor) -> tuple[Tensor, int]:
    """The inputs reshaped to rows [M,I], and the distance in numbers between the starts of consecutive rows."""
    rows = _adjacent(inputs if inputs.dim() == 2 else inputs.reshape(-1, inputs.shape[-1]))
    return rows, rows.stride(0)


def _added(added: Tensor | None) -> Tensor | None:
    return None if added is None else added.contiguous()


def _check_memory(failed: object) -> None:
    if failed:
        raise MemoryError("not enough memory for the buffers of a kernel")
