"""Compiled training: blocks of a model as graphs, each compiled once per batch shape, and where they are kept."""

import atexit
import importlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import nn

from calque.layers.multihead import MultiHead
from calque.layers.output import FullOutput
from calque.layers.padded_output import graph_cross_entropy
from calque.layers.short_attention import load_kernel
from calque.layers.transformer import DecoderBlock, EncoderBlock

NOTICE = "compiling: the first step with each batch shape takes longer"
GRAPHS = 64  # more than the number of batch shapes in training and evaluation mode together
BLOCKS = (EncoderBlock, DecoderBlock)


def compile_model(model: nn.Module, *, version: int, captured: bool = False, backend: str = "inductor") -> None:
    """Compiles a model's forward and backward pass; each batch shape has its own graphs.

    With arithmetic of version 3, the loss of a GPU is compiled with the output layer. If passes are captured too, a
    Transformer is compiled block by block, and recurrent layers, which have kernels of their own, are left as they are;
    otherwise every block would cost the host more than the launches it saves. Kernels are not autotuned, so that a
    resumed run computes the same results. Backends differ only in the kernels that they compile the graphs to.
    """
    settings = torch._dynamo.config  # torch imports it on first access
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)  # beyond it, shapes would silently run uncompiled
    if version >= 3:
        _split_reductions()
        compile_output(model, backend=backend)
    is_done = captured and (compile_blocks(model, backend=backend) or _is_recurrent(model))
    if not is_done:
        model.compile(backend=backend, dynamic=False)


def _split_reductions() -> None:
    """Makes the compiler sum over rows and over columns in two kernels instead of one, as layer norm's gradient does.

    The joint kernel takes 196 µs for 32,000 rows of 512 numbers, the two together 120: 1.04 times as many tokens per
    second for a Transformer base (benchmarks/results/train_h200_2026-11-17.md).
    """
    triton = importlib.import_module("torch._inductor.config").triton
    if hasattr(triton, "mix_order_reduction"):
        triton.mix_order_reduction = False


def _is_recurrent(model: nn.Module) -> bool:
    return any(isinstance(part, nn.RNNBase) for part in model.modules())


def compile_blocks(model: nn.Module, *, backend: str) -> bool:
    """Compiles the blocks of a Transformer encoder-decoder; returns whether the model has any.

    All blocks of a kind share a graph, so a shape takes two graphs, not one that is as long as the model: with six
    layers, compiling takes a fifth of the time (benchmarks/results/train_h200_2026-11-17.md).
    """
    compiled: dict[type, Callable[..., Any]] = {}
    has_kernel = next(model.parameters()).is_cuda and load_kernel()
    for block in model.modules():
        if isinstance(block, BLOCKS):
            kind = type(block)
            if kind not in compiled:
                compiled[kind] = torch.compile(kind.forward, backend=backend, dynamic=False)
            block.forward = MethodType(compiled[kind], block)  # type: ignore[method-assign]
            for layer in block.modules():
                if isinstance(layer, MultiHead):
                    layer.is_compiled, layer.has_kernel = True, has_kernel
    return bool(compiled)


def compile_output(model: nn.Module, *, backend: str) -> None:
    """Compiles the loss of a full softmax, which is used on a GPU, together with the output layer's products."""
    for layer in model.modules():
        if isinstance(layer, FullOutput):
            layer.padded_loss = torch.compile(graph_cross_entropy, backend=backend, dynamic=False)


def is_compiler_error(error: BaseException) -> bool:
    """Whether an exception was raised because torch could not compile a graph."""
    return any(base.__module__.startswith(("torch._dynamo.", "torch._inductor.")) for base in type(error).__mro__)


def keep_compiled(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Keeps compiled graphs in the user's cache folder, where later runs find them; returns the folder.

    Graphs are programs, so no one else may write there: the folder has mode 0700. If the environment names a folder
    for the compiler already, that is used, and None is returned; if the folder is not the user's own, or cannot be
    created, graphs are not kept.
    """
    if "TORCHINDUCTOR_CACHE_DIR" in environment:
        return None
    root = environment.get("XDG_CACHE_HOME", "")
    folder = (Path(root) if root.startswith("/") else Path.home() / ".cache") / "calque" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError
        folder.chmod(0o700)
    except OSError:
        compile_afresh()
        return None
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    return folder


def compile_afresh() -> None:
    """Sets a new, empty cache folder for the graphs that torch compiles next.

    A compiler that was killed may leave an incomplete file, or a recorded failure, in the previous cache.
    """
    folder = tempfile.mkdtemp(prefix="calque-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    importlib.import_module("torch._inductor.utils").clear_caches()  # imported only if something is compiled
