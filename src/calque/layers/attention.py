"""Attention of recurrent decoders: global or local, soft or hard, with or without coverage.

Letters: B sentences, K beams, N = B·K, S source, T target, Q = K·T queries per sentence, D query width, M memory width.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple, Self, assert_never

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn

from calque.config import Config, refuse_unused
from calque.layers.attention_scores import AdditiveScore, DotScore, ScoreName, build_score
from calque.layers.bounds import Places, Width
from calque.layers.observers import AttentionLayer
from calque.native.operations import attend_source
from calque.tensors import Slots, fold, sentence_of_rows, unfold


class AttentionConfig(Config):
    """Attention over the source."""

    score: ScoreName = "general"
    """dot, scaled_dot (both need equal widths), general, concat, additive or location (position-based)."""
    alignment: Width = 256
    """Width of the additive score's hidden layer."""
    longest: Places = 256
    """Number of positions that the location score distinguishes."""
    reach: Literal["global", "local-m", "local-p"] = "global"
    """The whole source, or a window around position t (local-m) or a predicted one (local-p; Luong 2015, §3.2)."""
    window: Places = 10
    """Number of positions on either side that local attention sees."""
    choice: Literal["soft", "hard"] = "soft"
    """soft: the weighted mean of all positions; hard: one position, sampled in training and the most likely one in
    decoding (Xu 2015, §4.1)."""
    reinforce: float = Field(default=0.1, ge=0, le=1000)
    """Weight of the REINFORCE term that trains hard attention, Xu's λᵣ; larger values give noisier gradients."""
    discount: float = Field(default=0.0, ge=0, le=1)
    """Discount factor per step for later rewards: 0 credits a sampled position with its own word only, 1 with all later
    words (unbiased, but noisy)."""
    entropy: float = Field(default=0.01, ge=0)
    """Weight of the entropy bonus that keeps hard attention from becoming deterministic too early."""
    soft_share: float = Field(default=0.5, ge=0, le=1)
    """Fraction of training sentences that use soft attention instead of sampling; at 0, training hardly progresses."""
    gated: bool = False
    """Multiply the context by a gate between 0 and 1 computed from the query (Xu 2015, §4.2.1)."""
    coverage: bool = False
    """Include the attention each position has received so far in its score (See 2017, §2.3)."""
    coverage_loss: float = Field(default=1.0, ge=0)
    """Weight of the loss for attending to the same position again."""

    @model_validator(mode="after")
    def _all_read(self, info: ValidationInfo) -> Self:
        is_local, is_hard = self.reach != "global", self.choice == "hard"
        refuse_unused(
            self,
            {
                "alignment": (self.score == "additive", "score = 'additive'"),
                "longest": (self.score == "location", "score = 'location'"),
                "window": (is_local, "reach = 'local-m' or 'local-p'"),
                **dict.fromkeys(("reinforce", "discount", "entropy", "soft_share"), (is_hard, "choice = 'hard'")),
                "coverage_loss": (self.coverage, "coverage = true"),
            },
            info,
        )
        return self


class AdditiveAttentionConfig(AttentionConfig):
    """Attention over the source, with Bahdanau's score by default."""

    score: ScoreName = "additive"
    """additive, dot, scaled_dot (both need equal widths), general, concat or location (position-based)."""


class AttentionContext(NamedTuple):
    """The keys, values and mask of the encoded source, which queries attend to; one row per sentence."""

    keys: Tensor  # [B,S,A]
    values: Tensor  # [B,S,M]
    mask: Tensor  # [B,S]
    slots: Slots | None = None

    def fold(self, rows: Tensor) -> Tensor:
        """The rows [N,T,X], reshaped to [B,K·T,X] (see `tensors.fold`)."""
        return fold(rows, sentences=self.mask.shape[0], slots=self.slots)


class AttentionState(NamedTuple):
    """The state that attention carries from one target token to the next; one row per hypothesis."""

    position: Tensor | None  # [N], number of tokens read, for local-m
    coverage: Tensor | None  # [N,S], the sum of all weights so far
    is_soft: Tensor | None = None  # [N], rows that use soft attention in training instead of sampling


class Attended(NamedTuple):
    """The result of attention for T queries per hypothesis: context vectors, weights and auxiliary losses."""

    context: Tensor  # [N,T,M]
    weights: Tensor  # [N,T,S]; one-hot for hard attention
    shares: Tensor  # [N,T,S], the attention distribution before hard attention chooses a position
    chosen: Tensor | None = None  # [N,T], log-probability of the sampled positions
    losses: Mapping[str, Tensor] = MappingProxyType({})  # auxiliary losses, [N,T] each


class Attention(AttentionLayer):
    """cₜ = Σₛ aₜₛ h̄ₛ, where a is the softmax of the scores (Luong 2015, eq. 7).

    Depending on the config, attention is global or local, soft or hard, and gated or not.
    """

    def __init__(self, config: AttentionConfig, *, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.config = config
        self.score = build_score(
            config.score,
            query_width=query_width,
            memory_width=memory_width,
            width=config.alignment,
            longest=config.longest,
            covered=config.coverage,
        )
        is_plain = config.reach == "global" and config.choice == "soft" and not config.coverage and not config.gated
        self.has_native = is_plain and isinstance(self.score, DotScore | AdditiveScore)
        self.predict = PositionPredictor(query_width) if config.reach == "local-p" else None
        self.gate = nn.Linear(query_width, 1) if config.gated else None

    def prepare(self, values: Tensor, mask: Tensor) -> AttentionContext:
        """The context to attend to, with its keys, given the encoder's outputs `values` [B,S,M] and `mask` [B,S]."""
        return AttentionContext(self.wide_memory(self.score.keys(values)), self.wide_memory(values), mask)

    def start(self, context: AttentionContext) -> AttentionState:
        """The state before the first token."""
        rows = context.mask.shape[0]
        position = torch.zeros(rows, dtype=torch.long, device=context.mask.device)
        covered = context.values.new_zeros(context.mask.shape)
        return AttentionState(
            position if self.config.reach == "local-m" else None,
            covered if self.config.coverage else None,
            torch.rand(rows, device=covered.device) < self.config.soft_share if self._mixes else None,
        )

    @property
    def _mixes(self) -> bool:
        return self.config.choice == "hard" and self.training and self.config.soft_share > 0

    def forward(
        self, queries: Tensor, state: AttentionState, context: AttentionContext
    ) -> tuple[Attended, AttentionState]:
        """The attention of queries [N,T,D] over the context, and the state after them.

        With coverage, queries are processed one at a time, as each changes the coverage that the next one reads.
        """
        if self.computes_natively(queries):
            return self._attend_natively(queries, context), state
        if state.coverage is None or queries.shape[1] == 1:
            return self._attend(queries, state, context)
        parts = []
        for query in queries.unbind(1):
            part, state = self._attend(query[:, None], state, context)
            parts.append(part)
        return join(parts), state

    def _attend_natively(self, queries: Tensor, context: AttentionContext) -> Attended:
        """Attention by the C kernel for decoding on a CPU: only global, soft attention without coverage or gate."""
        (rows, size, _), (sentences, places) = queries.shape, context.mask.shape
        score, weights = self.score, queries.new_empty(rows * size, places)
        additive = score if isinstance(score, AdditiveScore) else None
        projected = queries if additive is None else additive.query(queries)
        attended = attend_source(
            projected.reshape(rows * size, 1, -1),
            context.keys[:, None],
            context.values[:, None],
            sentences=sentence_of_rows(rows, size=size, sentences=sentences, slots=context.slots),
            lengths=context.mask.sum(dim=1),
            scale=score.scale if isinstance(score, DotScore) else 1.0,
            additive=None if additive is None else _vector(additive.value),
            weights=weights,
        )
        shown = weights.view(rows, size, places)
        return Attended(attended.view(rows, size, -1), shown, shown)

    def _attend(
        self, queries: Tensor, state: AttentionState, context: AttentionContext
    ) -> tuple[Attended, AttentionState]:
        (rows, size), dtype = queries.shape[:2], queries.dtype
        unfolded = partial(unfold, rows=rows, slots=context.slots)
        folded = self.wide(context.fold(queries))
        covered = None if state.coverage is None else context.fold(state.coverage[:, None])
        values = self.wide(context.values)
        scores = self.score(folded, self.wide(context.keys), covered)
        shares = self._reach(scores, folded, state, context, size=size)
        row_is_soft = None if state.is_soft is None else state.is_soft[:, None, None].expand(-1, size, 1)
        is_soft = None if row_is_soft is None else context.fold(row_is_soft)
        weights, chosen, losses = self._choose(shares, is_soft)
        weights = self.observed(weights[:, None]).squeeze(1) if self.shows_weights else weights
        attended_values = weights @ values
        if self.gate is not None:
            attended_values = self.gate(folded).sigmoid() * attended_values
        if covered is not None and state.coverage is not None:
            losses["coverage"] = self.config.coverage_loss * torch.minimum(weights, covered).sum(dim=-1)
            state = state._replace(coverage=state.coverage + unfolded(weights).sum(dim=1))
        if state.position is not None:
            state = state._replace(position=state.position + size)
        row_weights = unfolded(weights).to(dtype)
        attended = Attended(
            unfolded(attended_values).to(dtype),
            row_weights,
            row_weights if weights is shares else unfolded(shares).to(dtype),
            None if chosen is None else unfolded(chosen[..., None]).squeeze(-1),
            {name: unfolded(loss[..., None]).squeeze(-1) for name, loss in losses.items()},
        )
        return attended, state

    def _reach(
        self, scores: Tensor, queries: Tensor, state: AttentionState, context: AttentionContext, *, size: int
    ) -> Tensor:
        """Attention weights [B,Q,S], the softmax of `scores`; if attention is local, zero outside a window.

        `size` is the number of queries per row of `state`: the number of target positions read at once.
        """
        mask = context.mask[:, None]
        positions = torch.arange(scores.shape[-1], device=scores.device)
        match self.config.reach:
            case "global":
                return masked_softmax(scores, mask)
            case "local-m":
                assert state.position is not None
                current = state.position[:, None] + torch.arange(size, device=scores.device)
                folded = context.fold(current[..., None]).squeeze(-1)
                centre = torch.minimum(folded, context.mask.sum(dim=1)[:, None] - 1)
                near = (positions - centre[..., None]).abs() <= self.config.window
                return masked_softmax(scores, mask & near)
            case "local-p":
                assert self.predict is not None
                centre = context.mask.sum(dim=1)[:, None] * self.predict(queries).to(wide(queries.dtype))
                distance = positions - centre[..., None]
                weights = masked_softmax(scores, mask & (distance.abs() <= self.config.window))
                gaussian = torch.exp(-2 * (distance / self.config.window) ** 2)  # σ = D/2 (eq. 10)
                return weights * gaussian.to(weights.dtype)
            case _:
                assert_never(self.config.reach)

    def _choose(self, weights: Tensor, is_soft: Tensor | None) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
        """The weights to apply [B,Q,S], the log-probability [B,Q] of sampled positions or None, and auxiliary losses.

        Soft attention applies the given `weights`. Hard attention puts all weight on one position: in training a
        sampled one, otherwise the most likely. In training, it acts as soft attention, with log-probability 0, where
        `is_soft` [B,Q,1] is true.
        """
        match self.config.choice:
            case "soft":
                return weights, None, {}
            case "hard" if not self.training:
                return one_hot(weights.argmax(dim=-1), like=weights), None, {}
            case "hard":
                shares = weights / weights.sum(dim=-1, keepdim=True)
                logs = shares.clamp(min=torch.finfo(shares.dtype).tiny).log()
                positions = draw(shares.detach())
                chosen = logs.gather(-1, positions[..., None]).squeeze(-1)
                entropy = -(shares * logs).sum(dim=-1)
                selected = one_hot(positions, like=weights)
                if is_soft is not None:
                    selected, chosen = (
                        torch.where(is_soft, weights, selected),
                        chosen.masked_fill(is_soft.squeeze(-1), 0),
                    )
                return selected, chosen, {"entropy": -self.config.entropy * entropy}
            case _:
                assert_never(self.config.choice)


def _vector(layer: nn.Module) -> Tensor:
    """The weight [A] of a linear layer with A inputs and one output, in float32, even if stored as 8-bit integers."""
    weight, scales = layer.weight, getattr(layer, "scales", None)
    assert isinstance(weight, Tensor)
    vector = weight.detach().float().flatten()
    return vector if scales is None else vector * scales


class PositionPredictor(nn.Module):
    """p = σ(v·tanh(W h)), the centre of the window as a fraction of the source length (Luong 2015, eq. 9)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width, bias=False)
        self.outer = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor) -> Tensor:
        """The centre [B,Q] of each query's window, as a fraction of the source length, given queries [B,Q,D]."""
        return self.outer(self.inner(queries).tanh()).squeeze(-1).sigmoid()  # type: ignore[no-any-return]


def wide(kind: torch.dtype) -> torch.dtype:
    """The data type to compute positions in: `kind`, but at least float32."""
    return torch.promote_types(kind, torch.float32)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax of scores [B,Q,S] over the positions where the mask, broadcast to [B,Q,S], is true."""
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


def draw(shares: Tensor) -> Tensor:
    """Positions [...], one sampled from each row of probabilities [...,S].

    Each position gets an exponential waiting time whose rate is its probability, and the shortest one wins.
    `torch.multinomial` would force a host-device synchronisation.
    """
    return (shares / torch.empty_like(shares).exponential_()).argmax(dim=-1)


def one_hot(positions: Tensor, *, like: Tensor) -> Tensor:
    """One-hot vectors [...,S] with 1 at the `positions` [...]; shape and data type are those of `like`."""
    return torch.zeros_like(like).scatter(-1, positions[..., None], 1.0)


def join(parts: list[Attended]) -> Attended:
    """The attention results of consecutive queries, concatenated along the target dimension T."""
    chosen = [part.chosen for part in parts if part.chosen is not None]
    weights = torch.cat([part.weights for part in parts], dim=1)
    is_soft = parts[0].shares is parts[0].weights
    return Attended(
        torch.cat([part.context for part in parts], dim=1),
        weights,
        weights if is_soft else torch.cat([part.shares for part in parts], dim=1),
        torch.cat(chosen, dim=1) if chosen else None,
        {name: torch.cat([part.losses[name] for part in parts], dim=1) for name in parts[0].losses},
    )
