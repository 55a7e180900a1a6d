"""Position-wise feed-forward layers of a Transformer. Letters: D width, F inner width."""

from typing import Literal, assert_never

from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.dropout import dropout
from calque.layers.fused_linear import linear_relu, trained_linear_relu

ActivationName = Literal["relu", "gelu", "swiglu"]


class FeedForward(nn.Module):
    """The feed-forward layer of the Transformer, max(0, x W₁ + b₁) W₂ + b₂ (Vaswani 2017, eq. 2)."""

    def __init__(self, width: int, *, inner: int, dropout: float) -> None:
        super().__init__()
        self.enter = nn.Linear(width, inner)
        self.leave = nn.Linear(inner, width)
        self.dropout = dropout
        self.fuses_relu = False  # set by `fuse_activations`

    def inside(self, inputs: Tensor) -> Tensor:
        """The hidden layer [...,F], after the activation and before the second matrix, given inputs [...,D]."""
        if self.fuses_relu and self.training:
            return trained_linear_relu(inputs, weight=self.enter.weight, bias=self.enter.bias)
        return linear_relu(self.enter, inputs)

    def dropped(self, inputs: Tensor) -> Tensor:
        """`inside` with dropout: the input of the second matrix."""
        return dropout(self.inside(inputs), self.dropout, self.training)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.leave(self.dropped(inputs))  # type: ignore[no-any-return]


class GELUFeedForward(FeedForward):
    """GELU(x W₁ + b₁) W₂ + b₂, where GELU(x) = x·Φ(x) and Φ is the normal CDF (Hendrycks and Gimpel 2016, §2)."""

    def inside(self, inputs: Tensor) -> Tensor:
        return F.gelu(self.enter(inputs))


class SwiGLUFeedForward(FeedForward):
    """(Swish(x W) ⊗ x V) W₂, where Swish(x) = x·σ(x) (Shazeer 2020, eq. 6).

    Unlike the paper, each product has a bias. The paper reduces the inner width by a third to keep the number of
    parameters the same; here the inner width is as configured.
    """

    def __init__(self, width: int, *, inner: int, dropout: float) -> None:
        super().__init__(width, inner=inner, dropout=dropout)
        self.scale = nn.Linear(width, inner)

    def inside(self, inputs: Tensor) -> Tensor:
        return F.silu(self.enter(inputs)) * self.scale(inputs)  # type: ignore[no-any-return]


def build_feed_forward(name: ActivationName, *, width: int, inner: int, dropout: float) -> FeedForward:
    """The feed-forward layer whose activation is called `name`."""
    match name:
        case "relu":
            return FeedForward(width, inner=inner, dropout=dropout)
        case "gelu":
            return GELUFeedForward(width, inner=inner, dropout=dropout)
        case "swiglu":
            return SwiGLUFeedForward(width, inner=inner, dropout=dropout)
        case _:
            assert_never(name)
