"""Compiled training: one graph for each of the plan's shapes."""

import torch

from calque.models.model import Model

GRAPHS = 64  # more than a plan has shapes, in the modes there are


def compile_shapes(model: Model, *, backend: str = "inductor") -> None:
    """Compiles a model's forward pass, and so its backward pass; each shape of a batch has its own graph.

    Nothing is timed to choose among kernels, so that a resume computes what the run did. Another backend than the
    usual one makes other kernels of the same graphs.
    """
    settings = torch._dynamo.config  # torch loads it when it is first asked for
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)  # beyond it, shapes would silently run uncompiled
    model.compile(backend=backend, dynamic=False)
