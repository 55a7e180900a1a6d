"""Computes perplexity from log-probabilities."""

import math

LARGEST_EXPONENT = 700.0  # above 709.78, exp overflows float64


def perplexity(nats: float, *, count: int = 1) -> float:
    """The perplexity per token of `count` tokens, exp(nats / count); it is capped at e^700, so that it is finite."""
    return math.exp(min(nats / max(count, 1), LARGEST_EXPONENT))
