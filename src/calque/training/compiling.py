"""Compiled training: one graph per batch shape, and where compiled graphs are kept."""

import atexit
import importlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from calque.folders.cache import private_cache
from calque.layers.feed_forward import FeedForward
from calque.layers.multihead import MultiHead
from calque.layers.output import FullOutput
from calque.layers.padded_output import graph_cross_entropy
from calque.layers.short_attention import load_kernel

NOTICE = "compiling: the first step with each batch shape takes longer"
UNCOMPILED = "not compiled: training.subwords varies the lengths of sentences, so batch shapes cannot be static"
UNCAPTURED = "not captured: training.subwords varies the lengths of sentences, so batch shapes cannot be static"
NOT_CAPTURABLE = (
    "not captured: CUDA graphs need an NVIDIA GPU, a precision other than float16, unsharded weights, "
    "training.arithmetic of at least 3, a full softmax, soft attention, and cross-entropy or R-Drop without word "
    "dropout and guided alignment"
)
GRAPHS = 160  # more than the number of batch shapes in training and evaluation mode together


def compile_model(model: nn.Module, *, version: int, captured: bool = False, backend: str = "inductor") -> None:
    """Compiles a model's forward and backward pass, with a graph for each batch shape.

    `version` is training.arithmetic. From version 3 on, on a GPU, the loss is compiled with the output layer, and
    `tune_attention` chooses how attention is computed; from version 4 on, `fuse_activations` joins products and ReLU.
    If passes are also `captured` as CUDA graphs, recurrent models, which have kernels of their own, are not compiled.
    In a deterministic run, torch autotunes no reduction, so that a resumed run computes the same results.
    Backends differ only in the kernels that they compile the graphs to.
    """
    settings = torch._dynamo.config  # torch imports it on first access
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)  # beyond it, shapes would silently run uncompiled
    if version >= 3 and next(model.parameters()).is_cuda:
        split_reductions()
        tune_attention(model, joins_gradients=version >= 4)
        compile_loss(model, backend=backend)
    if version >= 4 and next(model.parameters()).is_cuda:
        fuse_activations(model)
    if not (captured and any(isinstance(part, nn.RNNBase) for part in model.modules())):
        model.compile(backend=backend, dynamic=False)


def compile_loss(model: nn.Module, *, backend: str) -> None:
    """Compiles the loss of a full softmax, which is used on a GPU, together with the output layer's products.

    With 32,004 words and 32,000 target positions, this reduces the time of the output layer and its loss from 27 to 8
    ms per step (benchmarks/results/train_h200_2026-11-17.md, like all figures below).
    """
    for layer in model.modules():
        if isinstance(layer, FullOutput):
            layer.padded_loss = torch.compile(graph_cross_entropy, backend=backend, dynamic=False)


def tune_attention(model: nn.Module, *, joins_gradients: bool) -> None:
    """Makes attention compute queries, keys and values in one product, and use a kernel for short sentences.

    Without Triton, attention over short sentences uses plain products. A Transformer base trains 1.07 times as fast
    with plain products as with torch's fused attention, and 1.10 times as fast again with the kernel and the joint
    product.
    """
    has_kernel = load_kernel()
    for layer in model.modules():
        if isinstance(layer, MultiHead):
            layer.is_compiled, layer.has_kernel = True, has_kernel
            layer.joins_gradients = joins_gradients and type(layer) is MultiHead  # without relative positions


def fuse_activations(model: nn.Module) -> None:
    """Makes the kernels of products apply ReLU in feed-forward layers.

    With `joins_gradients` of `tune_attention`, a Transformer big trains 1.026 times as fast
    (benchmarks/results/train_h200_2026-11-18.md).
    """
    for layer in model.modules():
        if isinstance(layer, FeedForward):
            layer.fuses_relu = True


def split_reductions() -> None:
    """Makes the compiler sum over rows and over columns, as in the gradient of layer norm, in two kernels, not one.

    A joint kernel takes 196 µs for 32,000 rows of 512 numbers. A Transformer base trains 1.04 times as fast without it.
    """
    triton = importlib.import_module("torch._inductor.config").triton
    if hasattr(triton, "mix_order_reduction"):
        triton.mix_order_reduction = False


def is_compiler_error(error: BaseException) -> bool:
    """Whether an exception was raised because torch could not compile a graph."""
    return any(base.__module__.startswith(("torch._dynamo.", "torch._inductor.")) for base in type(error).__mro__)


def keep_compiled(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Keeps compiled graphs in the user's cache folder, where later runs find them, and returns that folder.

    Graphs are programs, so no one else may write there: the folder has mode 0700. Returns None if the environment
    already names a folder for the compiler, which is then used. Also returns None, and does not keep graphs, if the
    cache folder belongs to someone else or cannot be created.
    """
    if "TORCHINDUCTOR_CACHE_DIR" in environment:
        return None
    folder = private_cache("compiled", environment=environment)
    if folder is None:
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
