"""Compiled training: one graph per batch shape."""

import atexit
import importlib
import os
import shutil
import tempfile

import torch
from torch import nn

NOTICE = "compiling: the first step of every shape takes longer"
GRAPHS = 64  # more than there are shapes, in training and evaluation mode


def compile_shapes(model: nn.Module, *, backend: str = "inductor") -> None:
    """Compiles a model's forward and backward pass; each batch shape has its own graph.

    Kernels are not autotuned, so that a resumed run computes the same. Other backends compile the same graphs to other
    kernels.
    """
    settings = torch._dynamo.config  # torch imports it on first access
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)  # beyond it, shapes would silently run uncompiled
    model.compile(backend=backend, dynamic=False)


def is_compiler_error(error: BaseException) -> bool:
    """Whether a graph could not be compiled."""
    return any(base.__module__.startswith(("torch._dynamo.", "torch._inductor.")) for base in type(error).__mro__)


def compile_afresh() -> None:
    """Gives torch a new, empty cache folder for the graphs that it compiles next.

    A compiler that was killed leaves half a file, or a recorded failure, in the cache that torch reads.
    """
    folder = tempfile.mkdtemp(prefix="calque-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    importlib.import_module("torch._inductor.utils").clear_caches()  # imported only if something is compiled
