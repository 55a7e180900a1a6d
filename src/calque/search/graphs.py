"""CUDA graphs for decoding: hundreds of small kernels are launched at once, without Python between them."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.fixed_beam import Advance, Eager, Tree
from calque.search.fixed_state import Batch, Beams
from calque.tensors import map_rows

KEPT = 64  # graphs of different shapes


class Captured(NamedTuple):
    """A graph, the tensors that it reads, and those that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: Any
    outputs: Any


class Graphs:
    """Captures a CUDA graph of a function when input shapes first occur, and replays it whenever they occur again.

    The model's weights must not change, nor move in memory. Only one search may run at a time, as all batches of the
    same shapes use the same tensors. A graph that is captured with another graph's results as inputs reads them where
    they are; other inputs are copied into tensors of its own. All graphs share the memory of their temporary tensors:
    a replay may overwrite the results of graphs that were captured later, so results must be used, or copied into the
    inputs of the next graph, before another graph is replayed.
    """

    def __init__(self) -> None:
        self._captured: OrderedDict[Hashable, Captured] = OrderedDict()
        self._running: Captured | None = None  # what `run` replayed last
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None

    def __len__(self) -> int:
        return len(self._captured)

    def call(self, function: Callable[..., Tree], key: Hashable, *inputs: Any) -> Tree:
        """The result of `function(*inputs)`, valid until another graph is replayed."""
        captured = self._find(key, inputs, lambda static: function(*static))
        _copy(inputs, to=captured.inputs)
        captured.graph.replay()
        return captured.outputs  # type: ignore[no-any-return]

    def run(self, advance: Advance, key: Hashable, beams: Beams, batch: Batch) -> tuple[Beams, Batch]:
        """The search state after several steps, and the batch, valid until another graph is replayed."""

        def steps(static: tuple[Beams, Batch]) -> None:
            _copy(Eager().run(advance, key, *static)[0], to=static[0])

        captured = self._running
        if captured is None or captured.inputs[0] is not beams or captured.inputs[1] is not batch:
            captured = self._running = self._find(key, (beams, batch), steps)
            _copy((beams, batch), to=captured.inputs)
        captured.graph.replay()
        return captured.inputs  # type: ignore[no-any-return]

    def _find(self, key: Hashable, inputs: Any, function: Callable[[Any], Any]) -> Captured:
        whole_key = (key, tuple((leaf.shape, leaf.dtype) for leaf in _leaves(inputs)))
        captured = self._captured.get(whole_key)
        if captured is None:
            captured = self._captured[whole_key] = self._capture(function, inputs)
            if len(self._captured) > KEPT:
                self._captured.popitem(last=False)
        self._captured.move_to_end(whole_key)
        return captured

    def _capture(self, function: Callable[[Any], Any], inputs: Any) -> Captured:
        if self._stream is None:
            self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()  # type: ignore[no-untyped-call]
        results = {id(leaf) for captured in self._captured.values() for leaf in _leaves(captured.outputs)}
        inputs = map_rows(lambda leaf: leaf if id(leaf) in results else leaf.clone(), inputs)
        shared = [leaf for leaf in _leaves(inputs) if id(leaf) in results]
        before = [leaf.clone() for leaf in shared]
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(self._stream):
                function(inputs)  # compiles kernels and lets libraries allocate memory
                torch.cuda.synchronize()
                graph.capture_begin(self._pool, capture_error_mode="thread_local")
                try:
                    outputs = function(inputs)
                finally:
                    graph.capture_end()
        finally:
            current.wait_stream(self._stream)
            _copy(before, to=shared)  # as the function may have changed them
        return Captured(graph, inputs, outputs)


def _copy(tree: Any, *, to: Any) -> None:
    for given, own in zip(_leaves(tree), _leaves(to), strict=True):
        if own is not given:
            own.copy_(given, non_blocking=True)


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif tree is not None:
        for part in tree:
            yield from _leaves(part)
