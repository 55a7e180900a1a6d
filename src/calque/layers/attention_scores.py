"""Score functions of the attention of recurrent decoders: dot product, general, additive and location-based.

Letters: B sentences, Q queries per sentence, S source, D query width, M memory width, A width of the keys.
"""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn

ScoreName = Literal["dot", "scaled_dot", "general", "concat", "additive", "location"]


class Score(nn.Module):
    """A score function of attention, which compares queries with keys. The keys are computed once per sentence.

    With coverage, the score of a source position also depends on the attention c that it has received so far: w·c is
    added to the score or, in the additive score, inside the tanh (See 2017, eq. 11).
    """

    def __init__(self, *, covered: bool) -> None:
        super().__init__()
        self.coverage = nn.Parameter(torch.zeros(self.coverage_width)) if covered else None

    coverage_width = 1

    def keys(self, memory: Tensor) -> Tensor:
        """The keys [B,S,A] of the encoder's outputs `memory` [B,S,M]."""
        raise NotImplementedError

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The scores [B,Q,S] of queries [B,Q,D] against keys [B,S,A] (see `keys`), before coverage is added."""
        raise NotImplementedError

    def forward(self, queries: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """The scores [B,Q,S] of queries [B,Q,D] against keys [B,S,A], given `coverage` [B,Q,S] if it is used."""
        scores = self.compare(queries, keys)
        return scores if self.coverage is None or coverage is None else scores + self.coverage * coverage


class DotScore(Score):
    """hᵗ·h̄ˢ (Luong 2015, §3.1) or, with a `scale` of 1/√D, hᵗ·h̄ˢ/√D (Vaswani 2017, eq. 1)."""

    def __init__(self, *, scale: float = 1.0, covered: bool = False) -> None:
        super().__init__(covered=covered)
        self.scale = scale

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scale * queries @ keys.transpose(1, 2) if self.scale != 1.0 else queries @ keys.transpose(1, 2)


class GeneralScore(DotScore):
    """hᵗ·W h̄ˢ (Luong 2015, §3.1)."""

    def __init__(self, query_width: int, *, memory_width: int, covered: bool = False) -> None:
        super().__init__(covered=covered)
        self.key = nn.Linear(memory_width, query_width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]


class AdditiveScore(Score):
    """v·tanh(W s + U h) (Bahdanau 2015, A.1.2); Luong's *concat* is the same, W and U being halves of one matrix."""

    def __init__(self, query_width: int, *, memory_width: int, width: int, covered: bool = False) -> None:
        self.coverage_width = width
        super().__init__(covered=covered)
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.value = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]

    def forward(self, queries: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        energy = self.query(queries)[:, :, None] + keys[:, None]  # [B,Q,S,A]
        if self.coverage is not None and coverage is not None:
            energy = energy + coverage[..., None] * self.coverage
        return self.value(energy.tanh()).squeeze(-1)  # type: ignore[no-any-return]


class LocationScore(Score):
    """W hᵗ: one score per source position, which does not depend on the token there (Luong 2015, eq. 8).

    W has rows for `longest` positions; later positions share the last row.
    """

    def __init__(self, query_width: int, *, longest: int, covered: bool = False) -> None:
        super().__init__(covered=covered)
        self.weight = nn.Parameter(torch.empty(longest, query_width))
        nn.init.uniform_(self.weight, -(query_width**-0.5), query_width**-0.5)

    def keys(self, memory: Tensor) -> Tensor:
        """The rows of W for the S source positions, as keys [B,S,D]; they are the same for every sentence."""
        positions = torch.arange(memory.shape[1], device=memory.device).clamp(max=self.weight.shape[0] - 1)
        return self.weight[positions].expand(memory.shape[0], -1, -1)

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(1, 2)


def build_score(
    name: ScoreName, *, query_width: int, memory_width: int, width: int, longest: int, covered: bool
) -> Score:
    """The score function called `name`.

    `width` is the hidden width of the additive score, `longest` the number of positions of the location score.
    """
    match name:
        case "dot" | "scaled_dot":
            if query_width != memory_width:
                raise ValueError(
                    f"score {name!r} needs equal widths: the decoder has {query_width}, the memory {memory_width}; "
                    "use score = 'general'"
                )
            return DotScore(scale=query_width**-0.5 if name == "scaled_dot" else 1.0, covered=covered)
        case "general":
            return GeneralScore(query_width, memory_width=memory_width, covered=covered)
        case "concat":
            return AdditiveScore(query_width, memory_width=memory_width, width=query_width, covered=covered)
        case "additive":
            return AdditiveScore(query_width, memory_width=memory_width, width=width, covered=covered)
        case "location":
            return LocationScore(query_width, longest=longest, covered=covered)
        case _:
            assert_never(name)
