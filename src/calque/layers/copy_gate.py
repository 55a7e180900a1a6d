"""How much a decoder trusts its vocabulary; the rest is the source's. Letters: N rows, T target, D width."""

import torch
from torch import Tensor, nn


class CopyGate(nn.Module):
    """p = σ(w_c·c + w_s·s + w_x·x + b) (See 2017, eq. 8): the share of the vocabulary; 1 − p is the source's.

    See's decoder is an LSTM. For the Transformer, c is what the last block's attention over the memory finds, s the
    hidden vector that the output layer projects and x the embedded input.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.share = nn.Linear(3 * width, 1)

    def forward(self, context: Tensor, hidden: Tensor, inputs: Tensor) -> Tensor:
        """[N,T] from [N,T,D] each."""
        share: Tensor = self.share(torch.cat([context, hidden, inputs], dim=-1))
        return share.squeeze(-1).sigmoid()
