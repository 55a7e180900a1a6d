"""Several models as one step function; its states and contexts are tuples with one entry per model.

Letters: N hypotheses, V vocabulary, S source.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from calque.search.step import Step, StepOutput

MeanName = Literal["probabilities", "log-probabilities"]


def ensemble(steps: Sequence[Step], *, mean: MeanName = "probabilities") -> Step:
    """A step function that averages the next-token distributions of several models.

    With `mean` = "probabilities" it is their arithmetic mean, with "log-probabilities" their normalised geometric mean.

    The attention returned is the mean over the models that have attention.
    """

    def step(tokens: Tensor, states: Any, contexts: Any) -> tuple[StepOutput, Any]:
        results = _run_all(steps, tokens, states, contexts)
        vocabulary = max(output.log_probs.shape[-1] for output, _ in results)  # copying models add source words
        stacked = torch.stack([_padded(output.log_probs, vocabulary) for output, _ in results])
        if mean == "probabilities":
            joined = stacked.logsumexp(dim=0) - math.log(len(steps))
        else:
            joined = stacked.mean(dim=0).log_softmax(dim=-1).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        attentions = [output.attention for output, _ in results if output.attention is not None]
        attention = torch.stack(attentions).mean(dim=0) if attentions else None
        return StepOutput(joined, attention), tuple(state for _, state in results)

    return step


def fused(steps: Sequence[Step], *, weights: Sequence[float], unknown: int) -> Step:
    """A step function that combines a translation model with language models (shallow fusion: Gulcehre 2015).

    Its scores are Σ wᵢ log Pᵢ, which are not normalised.

    The attention returned is that of the first model. Weights must be non-negative, so that no token increases a score.
    A model whose vocabulary lacks a copied word scores it as the `unknown` token.
    """

    def step(tokens: Tensor, states: Any, contexts: Any) -> tuple[StepOutput, Any]:
        results = _run_all(steps, tokens, states, contexts)
        vocabulary = results[0][0].log_probs.shape[-1]
        weighted = [
            weight * _padded(output.log_probs, vocabulary, fallback=unknown)
            for weight, (output, _) in zip(weights, results, strict=True)
            if weight
        ]
        return StepOutput(sum(weighted[1:], weighted[0]), results[0][0].attention), tuple(state for _, state in results)

    return step


def _padded(log_probs: Tensor, size: int, *, fallback: int | None = None) -> Tensor:
    """Log-probabilities [N,V] extended to [N,size]: added words get −∞ or, with `fallback`, the value of that token."""
    missing = size - log_probs.shape[-1]
    if missing <= 0:
        return log_probs
    if fallback is None:
        return torch.nn.functional.pad(log_probs, (0, missing), value=-torch.inf)
    return torch.cat([log_probs, log_probs[:, fallback : fallback + 1].expand(-1, missing)], dim=-1)


def _run_all(steps: Sequence[Step], tokens: Tensor, states: Any, contexts: Any) -> list[tuple[StepOutput, Any]]:
    return [step(tokens, state, context) for step, state, context in zip(steps, states, contexts, strict=True)]
