"""Captures forward and backward passes as CUDA graphs, one per batch shape, so that a whole pass is launched at once.

A recurrent decoder with input feeding launches thousands of small kernels per batch, and a GPU waits for most of them:
captured, it trains 5.1 times as fast (benchmarks/results/train_h200_2026-11-17.md; decision 31).
A captured pass runs the same kernels in the same order, so its losses and gradients are bit-identical to those of the
original pass; only CTC has another kernel, unless the run is deterministic. Dropout draws from torch's generator, whose
seed and offset are read anew in every replay.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from calque.data.batch import Batch
from calque.devices import is_out_of_memory
from calque.training.compiling import is_compiler_error

GRAPHS = 64  # captured at most; batches of further shapes run uncaptured

Shape = tuple[tuple[torch.Size, torch.dtype], ...]
Pass = Callable[[Any, Tensor], Tensor]
"""Runs the forward and backward pass of a batch on the device: adds the gradient of the summed loss times a factor (the
second argument) to `parameter.grad`, and returns the losses to be reported."""


class Captured(NamedTuple):
    """A captured pass over one batch shape."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]  # which a replay reads


class CapturedPasses:
    """Runs the passes of a training step as CUDA graphs, captured when a batch shape first occurs.

    Before it is captured, the pass runs twice on another stream: once so that libraries and the compiler can set
    themselves up, and once to check that the host never waits for the device, which a graph cannot record. Gradients
    are kept in buffers at fixed addresses. If trained parameters have moved to other addresses, passes are captured
    anew. All graphs share one memory pool, since no two of them run at the same time and a pass leaves nothing in it.
    If a pass cannot be captured, because it depends on the host, it is left to the caller, and so are all later ones.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], run: Pass, *, losses: int, dtype: torch.dtype) -> None:
        device = parameters[0].device
        self.failure: str | None = None  # why passes cannot be captured
        self.seconds = 0.0  # spent on warming up and capturing
        self._parameters = parameters
        self._run = run
        self._device = device
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._graphs: dict[Shape, Captured] = {}
        self._addresses: list[int] = []  # of the parameters, when graphs were captured
        self._losses = torch.zeros(losses, device=device, dtype=dtype)
        self._factor = torch.zeros((), device=device, dtype=dtype)
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None

    def __len__(self) -> int:
        """The number of graphs."""
        return len(self._graphs)

    def begin(self) -> None:
        """Sets the gradients to zero before the first pass of a step; discards graphs that read old addresses."""
        addresses = [parameter.data_ptr() for parameter in self._parameters]
        if addresses != self._addresses:
            if self._graphs:
                self._graphs.clear()
                self._pool = torch.cuda.graph_pool_handle()  # the old one is released
            self._addresses = addresses
        if self._gradients:
            torch._foreach_zero_(list(self._gradients.values()))
        self._place_gradients()

    def __call__(self, batch: Batch, *, factor: float) -> Tensor | None:
        """The losses of a batch, valid until the next call; adds `factor` × their gradient to that of the parameters.

        Returns None, without running the pass, if it cannot be captured as a CUDA graph, or if the batch has a new
        shape and there are already as many graphs as are allowed (GRAPHS).
        """
        if self.failure is not None:
            return None
        placed = batch.to(self._device)
        tensors = tensors_on(placed, self._device)
        shape: Shape = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if shape not in self._graphs:
            if len(self._graphs) >= GRAPHS:
                return None
            began = time.monotonic()
            captured = self._try_to_capture(placed)
            self.seconds += time.monotonic() - began
            if captured is None:
                return None
            self._graphs[shape] = captured
        graph, inputs = self._graphs[shape]
        self._factor.fill_(factor)
        torch._foreach_copy_(inputs, tensors)
        graph.replay()
        return self._losses

    def _try_to_capture(self, placed: Batch) -> Captured | None:
        generator = torch.cuda.default_generators[self._device.index or 0]
        seed, offset = generator.initial_seed(), generator.get_offset()
        try:
            return self._capture(placed)
        except RuntimeError as error:
            if is_out_of_memory(error) or is_compiler_error(error):
                raise
            self.failure = str(error).strip().splitlines()[0]
            self._graphs.clear()
            return None
        finally:
            generator.manual_seed(seed)
            generator.set_offset(offset)
            self._place_gradients()

    def _capture(self, placed: Batch) -> Captured:
        static = map_tensors(placed, lambda tensor: tensor.clone() if tensor.device == self._device else hidden(tensor))
        if self._stream is None:
            self._stream, self._pool = torch.cuda.Stream(self._device), torch.cuda.graph_pool_handle()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        state = torch.get_rng_state()
        with torch.cuda.stream(self._stream):
            for refuses_waits in (False, True):
                for parameter in self._parameters:
                    parameter.grad = None
                with waits_refused() if refuses_waits else nullcontext():
                    self._run(static, self._factor)
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        if not torch.equal(state, torch.get_rng_state()):
            raise RuntimeError("the model draws random numbers on the CPU")
        for parameter in self._parameters:
            if parameter.grad is not None and parameter not in self._gradients:
                self._gradients[parameter] = torch.zeros_like(parameter.grad)
        graph = torch.cuda.CUDAGraph()
        try:
            # another thread, which prepares batches, may allocate pinned memory meanwhile
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                self._record(static)
        except RuntimeError:
            self._end_capture()
            raise
        return Captured(graph, tensors_on(static, self._device))

    def _end_capture(self) -> None:
        """Captures a tiny graph: after a failed capture, torch's random generator is unusable until one succeeds."""
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._stream, capture_error_mode="thread_local"):
            self._losses.zero_()

    def _record(self, static: Any) -> None:
        """Runs what a CUDA graph records: a forward and backward pass, and adding its gradients to the buffers."""
        for parameter in self._parameters:
            parameter.grad = None
        self._losses.copy_(self._run(static, self._factor))
        self._add_gradients()

    def _add_gradients(self) -> None:
        """Adds the gradients of a pass to the buffers, by a few kernels; autograd would launch one per parameter."""
        found = [(self._gradients[each], each.grad) for each in self._parameters if each.grad is not None]
        torch._foreach_add_([buffer for buffer, _ in found], [gradient for _, gradient in found])

    def _place_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = self._gradients.get(parameter)


@contextmanager
def waits_refused() -> Iterator[None]:
    """A context in which an operation that makes the host wait for the device raises a RuntimeError."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def map_tensors(tree: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A tree of tuples with `function` applied to its tensors; everything else stays as it is."""
    if isinstance(tree, Tensor):
        return function(tree)
    if not isinstance(tree, tuple):
        return tree
    parts = [map_tensors(part, function) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def tensors_on(tree: Any, device: torch.device) -> list[Tensor]:
    """The tensors of a tree that are on this device, in order."""
    tensors: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        if tensor.device == device:
            tensors.append(tensor)
        return tensor

    map_tensors(tree, collect)
    return tensors


def hidden(tensor: Tensor) -> Tensor:
    """A tensor of the same shape without values, so that capturing fails if a pass reads the values on the host."""
    return tensor.to("meta")
