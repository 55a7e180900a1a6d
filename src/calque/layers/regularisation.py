"""Activation regularisation (Merity et al. 2017, "Revisiting Activation Regularization for Language RNNs").

Letters: N rows, T positions, D width.

The paper adds α · L2(m ∘ hₜ) and β · L2(hₜ − hₜ₊₁) to the loss, where h are the outputs of the top layer and m their
dropout mask. The authors' code averages the squares over all N·T·D elements, or N·(T − 1)·D. Here each token has its
own term, the mean of the squares over the width, which is weighted by α or β and summed over tokens like the
cross-entropy. Divided by the number of tokens, the first sum equals the authors' mean; the second is (T − 1) / T of
theirs if nothing precedes the first position.
"""

import torch
from torch import Tensor


def activation_penalty(dropped: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """AR [N,T]: ‖m ∘ hₜ‖² / D of the outputs [N,T,D] after dropout; 0 where the mask [N,T] is false."""
    return _mean_square(dropped, mask=mask)


def temporal_activation_penalty(outputs: Tensor, *, before: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """TAR [N,T]: ‖hₜ − hₜ₋₁‖² / D of the outputs [N,T,D] before dropout; 0 where the mask [N,T] is false.

    A difference is attributed to the later of its two tokens, so padding at the end of a row has no penalty. `before`
    [N,D] is the output before the first position; with it, the penalty of a text does not depend on how it is divided
    into segments. Without it, the first position has no penalty.
    """
    initial = outputs[:, :1] if before is None else before[:, None]
    return _mean_square(outputs - torch.cat([initial, outputs[:, :-1]], dim=1), mask=mask)


def _mean_square(values: Tensor, *, mask: Tensor | None) -> Tensor:
    """The mean square [N,T] of values [N,T,D]; 0, without a gradient, where `mask` is false, even for NaN."""
    if mask is not None:
        values = values.masked_fill(~mask[..., None], 0)
    return values.square().mean(dim=-1)
