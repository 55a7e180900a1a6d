"""Python functions that call the kernels. Tensors are on the CPU, numbers are float32, and there are no gradients.

The kernels do not check shapes or types, so every tensor is checked here first.

Letters: M rows, I inputs, O outputs, N hypotheses, B sentences, H heads, G key-value heads, d head width, S source,
P positions, V vocabulary, C best words, D width.
"""

import ctypes
from collections.abc import Sequence
from itertools import accumulate, pairwise
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


class _Product:
    """The affine map W x + b, applied to each row x."""

    inputs: int
    outputs: int
    _packed: Tensor
    _bias: Tensor  # [O], then zeros

    def __call__(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        """W x + b [...,O] for inputs x [...,I]; ReLU is applied if `relu` is true, then `added` [...,O] is added."""
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, inputs.shape[-1])
        rows = _checked(_adjacent(rows), (len(rows), self.inputs))
        outputs = _empty(*inputs.shape[:-1], self.outputs)
        more = None if added is None else _checked(added.contiguous(), outputs.shape)
        compute, *weights = self._kernel()
        _check_memory(
            compute(
                rows.data_ptr(),
                rows.stride(0),
                len(rows),
                self.inputs,
                *weights,
                self.outputs,
                self._bias.data_ptr(),
                _pointer(more),
                self.outputs,
                relu,
                outputs.data_ptr(),
                self.outputs,
                torch.get_num_threads(),
            )
        )
        return outputs

    def _kernel(self) -> tuple[Any, ...]:
        """The library function that computes the product, followed by the addresses of the weights that it reads."""
        raise NotImplementedError

    def structure(self) -> "_RecurrentProduct":
        """The addresses of weights and bias, as the C structure `recurrent_product`."""
        raise NotImplementedError


class FloatProduct(_Product):
    """W x + b with the weight W [O,I] in the layout of the kernel."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.outputs, self.inputs = weight.shape
        plain = _checked(weight.detach().contiguous(), weight.shape)
        self._bias = _with_zeros(torch.zeros(self.outputs, device="cpu") if bias is None else bias, size=self.outputs)
        self._packed = _empty(_padded(self.outputs) * self.inputs)
        _library().pack_float(plain.data_ptr(), self.outputs, self.inputs, self._packed.data_ptr())

    def _kernel(self) -> tuple[Any, ...]:
        return _library().linear_float, self._packed.data_ptr()

    def structure(self) -> "_RecurrentProduct":
        return _RecurrentProduct(self._packed.data_ptr(), None, None, self._bias.data_ptr())


class Int8Product(_Product):
    """W x + b in 8 bits: W is stored as integers (`levels`) with a scale per row, and inputs are scaled row by row."""

    def __init__(self, levels: Tensor, scales: Tensor, bias: Tensor) -> None:
        self.outputs, self.inputs = levels.shape
        plain = _checked(levels.detach().contiguous(), levels.shape, dtype=torch.int8)
        padded = _padded(self.outputs)
        self._bias, self._scales = (_with_zeros(part, size=self.outputs) for part in (bias, scales))
        self._packed = _empty(padded * (self.inputs + -self.inputs % 4), dtype=torch.int8)
        self._offsets = _empty(padded, dtype=torch.int32)
        _library().pack_int8(
            plain.data_ptr(), self.outputs, self.inputs, self._packed.data_ptr(), self._offsets.data_ptr()
        )

    def _kernel(self) -> tuple[Any, ...]:
        weights = (self._packed, self._offsets, self._scales)
        return _library().linear_int8, *(part.data_ptr() for part in weights)

    def structure(self) -> "_RecurrentProduct":
        parts = (self._packed, self._offsets, self._scales, self._bias)
        return _RecurrentProduct(*(part.data_ptr() for part in parts))


def places_of(steps: Sequence[Tensor]) -> Tensor:
    """[P,2]: the address and the row stride of each tensor [·,2·G·d] of keys and values, for `attend_steps`."""
    if not all(_checked(step, step.shape).stride(-1) == 1 for step in steps):
        raise ValueError("the numbers in each row of a tensor must be adjacent in memory; call contiguous() first")
    return torch.tensor([(step.data_ptr(), step.stride(0)) for step in steps], dtype=torch.long).view(-1, 2)


def attend_steps(
    queries: Tensor, steps: Sequence[Tensor], places: Tensor, *, ancestors: Tensor, heads: int, groups: int
) -> Tensor:
    """softmax(q·k/√d) v, the self-attention [N,H·d] of queries [N,H·d] over the tokens of each hypothesis.

    `steps` has one tensor [·,2·G·d] of keys and values per position, and `ancestors` [N,P], int32, the row in it that
    belongs to each hypothesis. `places` is `places_of(steps)`; if it belongs to other tensors, it is computed again.
    """
    count, size, width = len(queries), len(steps), queries.shape[1] // heads
    ends = [step.data_ptr() for step in (steps[0], steps[-1])]
    if len(places) != size or places[:: max(1, size - 1), 0].tolist() != ends[: min(size, 2)]:
        places = places_of(steps)  # of a copy
    queries = _checked(_adjacent(queries), (count, heads * width))
    _checked(steps[-1], (len(steps[-1]), 2 * groups * width))
    _checked(places, (size, 2), dtype=torch.long)
    ancestors = _checked(ancestors.contiguous(), (count, size), dtype=torch.int32)
    outputs = _empty(count, heads * width)
    _check_memory(
        _library().attend_steps(
            queries.data_ptr(),
            queries.stride(0),
            count,
            places.data_ptr(),
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
    positions of sentence `sentences[n]`. With one head, the attention weights are written to `weights` [N,S].
    """
    (count, heads, width), (batch, groups, size, _), value_width = queries.shape, keys.shape, values.shape[3]
    queries = _checked(_adjacent(queries), queries.shape)
    if queries.stride(1) != width:
        queries = queries.contiguous()
    keys = _checked(_adjacent(keys), (batch, groups, size, width))
    values = _checked(_adjacent(values), (batch, groups, size, value_width))
    sentences = _checked(sentences.contiguous(), (count,), dtype=torch.long)
    lengths = _checked(lengths.contiguous(), (batch,), dtype=torch.long)
    for vector, shape in ((additive, (width,)), (weights, (count, size))):
        if vector is not None and not _checked(vector, shape).is_contiguous():
            raise ValueError("the tensors `additive` and `weights` must be contiguous in memory")
    outputs = _empty(count, heads * value_width)
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
            groups,
            width,
            value_width,
            scale,
            _pointer(additive),
            outputs.data_ptr(),
            _pointer(weights),
            torch.get_num_threads(),
        )
    )
    return outputs


def best_words(logits: Tensor, *, count: int, end: int, among: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities [M,C] and ids [M,C] of the `count` best words, best first, and log-probabilities [M] of `end`.

    Of equally likely words, the lower id comes first. With `among`, only the first `among` words are compared, but
    probabilities are normalised over all. If a row of logits [M,V] has no finite maximum, its results are NaN.
    """
    rows, size = logits.shape
    logits, among = _checked(_adjacent(logits), logits.shape), size if among is None else among
    if not (count <= among <= size and 0 <= end < size):
        raise ValueError(
            f"count {count}, among {among} and end {end} do not fit {size} words; "
            f"expected count <= among <= {size} and 0 <= end < {size}"
        )
    log_probs, words, ends = _empty(rows, count), _empty(rows, count, dtype=torch.long), _empty(rows)
    _check_memory(
        _library().best_words(
            logits.data_ptr(),
            logits.stride(0),
            rows,
            size,
            among,
            count,
            end,
            log_probs.data_ptr(),
            words.data_ptr(),
            ends.data_ptr(),
            torch.get_num_threads(),
        )
    )
    return log_probs, words, ends


def lstm_cell(entering: Tensor, recurring: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The next h and c [N,D] of an LSTM, given the contributions [N,4D] of input and h to its gates i f g o, and c."""
    parts = _gates(entering, recurring, cell, count=4)
    hidden, after = _empty(*cell.shape), _empty(*cell.shape)
    _library().lstm_cell(*_addresses(parts), *cell.shape, hidden.data_ptr(), after.data_ptr(), torch.get_num_threads())
    return hidden, after


def gru_cell(entering: Tensor, recurring: Tensor, hidden: Tensor) -> Tensor:
    """The next h [N,D] of a GRU, given the contributions [N,3D] of input and h to its gates r z n, and h."""
    parts, after = _gates(entering, recurring, hidden, count=3), _empty(*hidden.shape)
    _library().gru_cell(*_addresses(parts), *hidden.shape, after.data_ptr(), torch.get_num_threads())
    return after


def recurrent_layer(entering: Tensor, sizes: Sequence[int], product: _Product, *, cell: bool) -> tuple[Tensor, ...]:
    """All states of a recurrent layer that starts from zeros: (h, c) [M,D] of an LSTM (`cell`), or (h,) of a GRU.

    Rows are packed as in torch's PackedSequence: the first `sizes[0]` rows are the first positions of all sentences,
    the next `sizes[1]` the second positions, and so on; longer sentences come first. `entering` has the
    contributions of the inputs to the gates, [M,4D] or [M,3D]; `product` multiplies with the recurrent weights.
    """
    width = product.inputs
    is_falling = all(before >= after for before, after in pairwise(sizes))
    if not is_falling or product.outputs != (4 if cell else 3) * width:
        raise ValueError(
            f"found sizes {sizes} and {product.outputs} gate values for a recurrent layer of width {width}; "
            "expected sizes that never increase, and 4 (LSTM) or 3 (GRU) gates of that width"
        )
    entering = _checked(entering.contiguous(), (sum(sizes), product.outputs))
    starts = torch.tensor([0, *accumulate(sizes)])
    states = tuple(_empty(len(entering), width) for _ in range(2 if cell else 1))
    _check_memory(
        _library().recurrent_layer(
            entering.data_ptr(),
            starts.data_ptr(),
            len(sizes),
            width,
            ctypes.byref(product.structure()),
            states[0].data_ptr(),
            _pointer(states[1] if cell else None),
            torch.get_num_threads(),
        )
    )
    return states


class _Strided(ctypes.Structure):
    """The address and first three strides of a tensor [B,G,S,d], as the C structure `strided` in kernels.c."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("row", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("place", ctypes.c_int64),
    )

    @classmethod
    def of(cls, values: Tensor) -> "_Strided":
        return cls(values.data_ptr(), values.stride(0), values.stride(1), values.stride(2))


class _RecurrentProduct(ctypes.Structure):
    """The C structure `recurrent_product` in kernels.c: the addresses of recurrent weights and bias."""

    _fields_ = (
        ("packed", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
    )


def _library() -> Any:
    library = compiled().library
    assert library is not None
    return library


def _empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An uninitialised tensor on the CPU, whatever torch's default data type and device are."""
    return torch.empty(shape, dtype=dtype, device="cpu")


def _checked(values: Tensor, shape: Sequence[int], *, dtype: torch.dtype = torch.float32) -> Tensor:
    """The tensor itself if it has this shape and data type and is on the CPU; otherwise raises a ValueError."""
    if values.dtype != dtype or tuple(values.shape) != tuple(shape) or values.device.type != "cpu":
        raise ValueError(
            f"a kernel needs {dtype} of shape {tuple(shape)} on the CPU, "
            f"not {values.dtype} of shape {tuple(values.shape)} on {values.device}"
        )
    return values


def _gates(entering: Tensor, recurring: Tensor, state: Tensor, *, count: int) -> list[Tensor]:
    """`entering` and `recurring` [N,count·D] and `state` [N,D], checked, with each row contiguous in memory."""
    rows, width = state.shape
    parts = ((entering, count * width), (recurring, count * width), (state, width))
    return [_checked(_adjacent(part), (rows, size)) for part, size in parts]


def _addresses(parts: Sequence[Tensor]) -> list[int]:
    """The address and the row stride of each tensor, in one flat list; the caller must keep the tensors alive."""
    return [number for part in parts for number in (part.data_ptr(), part.stride(0))]


def _pointer(values: Tensor | None) -> int | None:
    return None if values is None else values.data_ptr()


def _padded(outputs: int) -> int:
    """The number of outputs, rounded up to a multiple of the panel: the number of outputs a kernel computes at once."""
    return outputs + -outputs % _library().panel()  # type: ignore[no-any-return]


def _with_zeros(values: Tensor, *, size: int) -> Tensor:
    """A float32 copy of `values` [size], padded with zeros to the length `_padded(size)`."""
    return F.pad(_checked(values.detach().float(), (size,)), (0, _padded(size) - size)).clone()


def _adjacent(values: Tensor) -> Tensor:
    """The tensor itself if the numbers of its last dimension are adjacent in memory, otherwise a contiguous copy."""
    return values if values.stride(-1) == 1 else values.contiguous()


def _check_memory(failed: object) -> None:
    if failed:
        raise MemoryError("there is not enough memory for the buffers of a C kernel")
