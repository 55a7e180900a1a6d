"""Several models as one step. States and contexts are tuples, one a step.

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
    """The step whose probabilities are the mean of the steps' own, or the normalised geometric mean.

    Its attention is the mean of those that have one.
    """

    def step(tokens: Tensor, states: Any, contexts: Any) -> tuple[StepOutput, Any]:
        results = _each(steps, tokens, states, contexts)
        widest = max(output.log_probs.shape[-1] for output, _ in results)  # one that copies has words of the source too
        stacked = torch.stack([_padded(output.log_probs, widest) for output, _ in results])
        if mean == "probabilities":
            joined = stacked.logsumexp(dim=0) - math.log(len(steps))
        else:
            joined = stacked.mean(dim=0).log_softmax(dim=-1).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        looked = [output.attention for output, _ in results if output.attention is not None]
        attention = torch.stack(looked).mean(dim=0) if looked else None
        return StepOutput(joined, attention), tuple(state for _, state in results)

    return step


def fused(steps: Sequence[Step], *, weights: Sequence[float], unknown: int) -> Step:
    """Σ wᵢ log Pᵢ, not normalised: a translation model with language models beside it (shallow fusion: Gulcehre 2015).

    The first step's attention is the whole's. Weights are at least 0, so a token never adds to a score. A word that the
    first copies and another does not have counts there as the `unknown` one.
    """

    def step(tokens: Tensor, states: Any, contexts: Any) -> tuple[StepOutput, Any]:
        results = _each(steps, tokens, states, contexts)
        widest = results[0][0].log_probs.shape[-1]
        parts = [
            weight * _padded(output.log_probs, widest, by=unknown)
            for weight, (output, _) in zip(weights, results, strict=True)
            if weight
        ]
        return StepOutput(sum(parts[1:], parts[0]), results[0][0].attention), tuple(state for _, state in results)

    return step


def _padded(log_probs: Tensor, size: int, *, by: int | None = None) -> Tensor:
    """[N,size] of [N,V]: words that are not there are impossible, or as likely as the token `by`."""
    missing = size - log_probs.shape[-1]
    if missing <= 0:
        return log_probs
    if by is None:
        return torch.nn.functional.pad(log_probs, (0, missing), value=-torch.inf)
    return torch.cat([log_probs, log_probs[:, by : by + 1].expand(-1, missing)], dim=-1)


def _each(steps: Sequence[Step], tokens: Tensor, states: Any, contexts: Any) -> list[tuple[StepOutput, Any]]:
    return [one(tokens, state, context) for one, state, context in zip(steps, states, contexts, strict=True)]
