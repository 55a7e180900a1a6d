"""The most likely token at every step. Letters: N sentences, V vocabulary."""

from typing import Any

from torch import Tensor

from calque.search.autoregressive import follow
from calque.search.step import Hypothesis, Limits, Marks, Step


def greedy_search(step: Step, state: Any, context: Any, *, limits: Limits, marks: Marks) -> list[list[Hypothesis]]:
    """One hypothesis a sentence, or none where no token may follow what was said."""

    def most_likely(log_probs: Tensor, _numbers: Tensor, _length: int) -> Tensor:
        return log_probs.max(dim=-1).indices

    return follow(step, state, context, choose=most_likely, count=1, limits=limits, marks=marks)
