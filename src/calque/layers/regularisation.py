"""Activation regularisation (Merity et al. 2017, "Revisiting Activation Regularization for Language RNNs").

Letters: N rows, T positions, D width.

The paper adds α · L2(m ∘ hₜ) and β · L2(hₜ − hₜ₊₁) to the loss, h being the outputs of the top layer and m their
dropout mask; its authors' code takes the mean of the squares over all N·T·D elements, or N·(T − 1)·D. Here each token
has a term of its own, the mean of the squares over the width, to be weighted by α or β and summed over tokens as the
cross-entropy is. Per token, the first sum is the authors' mean; the second is (T − 1) / T of theirs where the first
position has nothing before it.
"""

import torch
from torch import Tensor


def activation_penalty(dropped: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """AR, [N,T]: ‖m ∘ hₜ‖² / D, of the outputs [N,T,D] after dropout; 0 where the mask [N,T] is false."""
    return _mean_square(dropped, mask=mask)


def temporal_activation_penalty(outputs: Tensor, *, before: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """TAR, [N,T]: ‖hₜ − hₜ₋₁‖² / D, of the outputs [N,T,D] before dropout; 0 where the mask [N,T] is false.

    A difference counts for the later of its two tokens, so that what stands behind a row's end costs nothing, and with
    `before` [N,D], the output before the first position, reading x and then y costs what reading x + y does. Without
    it the first position costs nothing.
    """
    first = outputs[:, :1] if before is None else before[:, None]
    return _mean_square(outputs - torch.cat([first, outputs[:, :-1]], dim=1), mask=mask)


def _mean_square(values: Tensor, *, mask: Tensor | None) -> Tensor:
    """[N,T] of [N,T,D]; what is masked has no gradient, whatever it holds."""
    if mask is not None:
        values = values.masked_fill(~mask[..., None], 0)
    return values.square().mean(dim=-1)
