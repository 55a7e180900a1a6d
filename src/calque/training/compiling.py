"""Compiled training: one graph per batch shape."""

import atexit
import importlib
import os
import shutil
import tempfile

import torch
from torch import nn

NOTICE = "compiling: the first step with each batch shape takes longer"
GRAPHS = 64  # more than the number of batch shapes in training and evaluation mode together


def compile_shapes(model: nn.Module, *, backend: str = "inductor") -> None:
    """Compiles a model's forward and backward pass; each batch shape has its own graph.

    Kernels are not autotuned, so that a resumed run computes the same results. Backends differ only in the kernels that
    they compile the graphs to.
    """
    settings = torch._dynamo.config  # torch imports it on first access
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)  # beyond it, shapes would silently run uncompiled
    model.compile(backend=backend, dynamic=False)


def is_compiler_error(error: BaseException) -> bool:
    """Whether an exception was raised because torch could not compile a graph."""
    return any(base.__module__.startswith(("torch._dynamo.", "torch._inductor.")) for base in type(error).__mro__)


def compile_afresh() -> None:
    """Sets a new, empty cache folder for the graphs that torch compiles next.

    A compiler that was killed may leave an incomplete file, or a recorded failure, in the previous cache.
    """
    folder = tempfile.mkdtemp(prefix="calque-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    importlib.import_module("torch._inductor.utils").clear_caches()  # imported only if something is compiled
