"""CUDA graphs of search steps: hundreds of small kernels are launched at once, without Python between them."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.fixed_beam import Advance, Batch, Beams, run_plainly
from calque.tensors import map_rows

KEPT = 16  # graphs of different shapes


class Captured(NamedTuple):
    """A graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    beams: Beams
    batch: Batch
    loaded: list[Batch]  # the batch that was copied last, if any


class Graphs:
    """Takes steps of `fixed_beam_search` by replaying graphs, which are captured when a shape is first met and kept.

    The weights of the model must stay where they are. Only one search may run at a time, as all batches of a shape use
    the same tensors.
    """

    def __init__(self) -> None:
        self._captured: OrderedDict[Hashable, Captured] = OrderedDict()
        self._pool: Any = None

    def __len__(self) -> int:
        return len(self._captured)

    def run(self, advance: Advance, key: Hashable, beams: Beams, batch: Batch) -> Beams:
        """The search state after several steps, in tensors that the next call for the same shape overwrites."""
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in _leaves((beams, batch)))
        captured = self._captured.get((key, shapes))
        if captured is None:
            captured = self._captured[key, shapes] = self._capture(advance, beams, batch)
            if len(self._captured) > KEPT:
                self._captured.popitem(last=False)
        self._captured.move_to_end((key, shapes))
        _copy(beams, to=captured.beams)
        if not any(loaded is batch for loaded in captured.loaded):
            _copy(batch, to=captured.batch)
            captured.loaded[:] = [batch]
        captured.graph.replay()
        return captured.beams

    def _capture(self, advance: Advance, beams: Beams, batch: Batch) -> Captured:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        beams, batch = map_rows(torch.clone, (beams, batch))
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            run_plainly(advance, None, beams, batch)  # compiles kernels and lets libraries allocate memory
            torch.cuda.synchronize()
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                _copy(run_plainly(advance, None, beams, batch), to=beams)
            finally:
                graph.capture_end()
        current.wait_stream(stream)
        return Captured(graph, beams, batch, [])


def _copy(tree: Any, *, to: Any) -> None:
    for given, own in zip(_leaves(tree), _leaves(to), strict=True):
        if own is not given:
            own.copy_(given)


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif tree is not None:
        for part in tree:
            yield from _leaves(part)
