"""Compiled training: one graph for each of the plan's shapes."""

import atexit
import importlib
import os
import shutil
import tempfile

import torch
from torch import nn

SAID = "compiling: the first step of every shape takes longer"
GRAPHS = 64  # more than a plan has shapes, in the modes there are


def compile_shapes(model: nn.Module, *, backend: str = "inductor") -> None:
    """Compiles a model's forward pass, and so its backward pass; each shape of a batch has its own graph.

    Nothing is timed to choose among kernels, so that a resume computes what the run did. Another backend than the
    usual one makes other kernels of the same graphs.
    """
    settings = torch._dynamo.config  # torch loads it when it is first asked for
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)  # beyond it, shapes would silently run uncompiled
    model.compile(backend=backend, dynamic=False)


def is_compiler_error(error: BaseException) -> bool:
    """Whether a graph could not be compiled."""
    return any(one.__module__.startswith(("torch._dynamo.", "torch._inductor.")) for one in type(error).__mro__)


def compile_afresh() -> None:
    """Makes torch compile what comes in a folder of its own.

    A compiler that was ended leaves half a file, or word of its failure, where torch looks for its result.
    """
    folder = tempfile.mkdtemp(prefix="calque-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    importlib.import_module("torch._inductor.utils").clear_caches()  # loaded only where something is compiled
